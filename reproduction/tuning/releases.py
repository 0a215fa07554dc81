"""Comparison of the constants of kinds of release with nearby values, on tuning worlds and tables.

    python -m reproduction.tuning.releases --records build --out reproduction/results/releases-tuning.json

One constant at a time is changed to each of its neighbours and compared with the value that it has, in the
places of its group, of `tuning_worlds.py`, on the same seeds. What counts, averaged over places:

| group | constants of | measure |
|---|---|---|
| `cells` | cells | regret as a share of a random policy's |
| `features` | features | the same |
| `sums` | features of which blocks are summed | the same |
| `fading` | blocks of a past that fades, where the world becomes another at half time | the same |
| `marginals` | marginal tables, online | the same |
| `first` | their first block | the same |
| `inclusion` | where most columns say nothing | the same |
| `census` | their census, where ranges are filled in part and where they are filled | the same |
| `pairs` | up to how many columns pairs are counted | the same |
| `log` | marginal tables of a log | the same, of new people who are given the arm that is predicted best |
| `levels` | levels of a log's ranges, filled in part or wholly | the same |
| `paired` | tables of all pairs of columns of a log | the same |
| `many` | those of a log with many columns, of which few matter | the same |
| `weighted` | those of a log with propensities | the same |
| `published` | features of a log, released once | the same |
| `answered` | single answers about a log, at epsilon .5 each | the same |
| `deviations` | what a released deviation covers | how far the share within two deviations is from .95 |
| `expected` | expected errors | how far they are from the loss, in widths of the reward range |

The present value stays unless another is ahead by more than two standard errors of the paired difference. Of
some twenty neighbours one may be by chance, so whoever is runs again on fresh seeds, and is taken if it is
ahead there by more than two as well. All seeds are below 1,000,000. `--only` names groups or constants; rows
of others stay as they are in `--out`.
"""

import argparse
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import dpbandits as dpb
from dpbandits.central import (
    ExploreThenCommit,
    ExploreTuning,
    GPBandit,
    GPTuning,
    cells,
    feature_release,
    schedule,
)
from dpbandits.central.logged import calibration, logged_table, tables
from dpbandits.central.logged import people as kernels_of_people
from dpbandits.central.marginals import learning, noise, release
from dpbandits.lab.evaluation import report_seeds, run
from dpbandits.lab.study import Cell, Record, Runs, run_cells
from dpbandits.models.features import MercerFeatures
from dpbandits.models.kernels import SquaredExponential
from dpbandits.models.marginals import census, effects, inclusion, misfit, posterior
from dpbandits.privacy import JointDP, SimulatedNoise
from reproduction.studies.tables_of_people import People
from reproduction.tuning.worlds import changing_world, tuning_table, tuning_world

BOXES = (
    ("waves-2-rare", 1.0, 1_000),
    ("cones-2-rare", 1.0, 1_000),
    ("waves-1-few", 1.0, 1_000),
    ("waves-2-fixed", 0.5, 1_000),
    ("cones-2", 1.0, 1_000),
    ("plateaus-2", 0.5, 3_000),
    ("slopes-3", 1.0, 3_000),
    ("waves-4", 3.0, 3_000),
)
OF_FEATURES = (
    ("waves-2-rare", 1.0, 1_000),
    ("cones-2-rare", 3.0, 1_000),
    ("waves-1-few", 1.0, 300),
    ("waves-2-fixed", 3.0, 300),
    ("cones-2", 1.0, 6_000),
    ("plateaus-2", 3.0, 6_000),
    ("slopes-3", 1.0, 3_000),
    ("waves-4", 3.0, 3_000),
)
FADING = (
    ("waves-2", 1.0, 8_000),
    ("cones-2", 3.0, 8_000),
    ("plateaus-2", 3.0, 8_000),
    ("slopes-3", 1.0, 8_000),
)
PEOPLE = (
    ("steps-4", 1.0, 4_000),
    ("clauses-6", 1.0, 4_000),
    ("classes-5", 0.5, 4_000),
    ("odds-4", 3.0, 2_000),
    ("odds-6-one", 1.0, 2_000),
    ("classes-4", 1.0, 6_000),
)
MORE_COLUMNS = (
    ("clauses-4", 1.0, 10_000),
    ("regions-5", 1.0, 10_000),
    ("clauses-6", 1.0, 4_000),
    ("regions-6", 3.0, 10_000),
    ("odds-8", 0.3, 10_000),
    ("classes-8", 3.0, 10_000),
)
MANY_COLUMNS = (
    ("lone-20", 0.3, 4_000),
    ("lone-20", 1.0, 4_000),
    ("lone-16", 0.3, 10_000),
    ("steps-20", 1.0, 10_000),
    ("odds-12", 0.3, 10_000),
    ("odds-8", 0.3, 10_000),
    ("clauses-10", 3.0, 10_000),
    ("classes-20", 3.0, 10_000),
)
CORRELATED = (("regions-2", 1.0, 6_000), ("regions-3", 3.0, 10_000), ("nothing-4", 1.0, 4_000))
MOSTLY_NOTHING = (
    ("odds-3-many", 3.0, 4_000),
    ("steps-4-many", 3.0, 4_000),
    ("clauses-3-many", 1.0, 6_000),
)
RANGES = (
    ("steps-5-wide", 1.0, 10_000),
    ("odds-4-wide", 1.0, 6_000),
    ("steps-5", 1.0, 10_000),
    ("odds-4", 1.0, 6_000),
)
OF_A_LOG = (
    ("steps-2", 1.0, 4_000),
    ("clauses-2", 1.0, 10_000),
    ("classes-3", 3.0, 4_000),
    ("odds-3", 1.0, 2_000),
)
LEVELS = (
    ("odds-2-wide", 1.0, 10_000),
    ("kinds-2-wide", 0.3, 10_000),
    ("steps-5-wide", 3.0, 10_000),
    ("bands-2-wide", 3.0, 10_000),
    ("kinds-2", 0.3, 10_000),
    ("kinds-2", 1.0, 10_000),
    ("bands-3", 3.0, 20_000),
    ("odds-2", 0.3, 4_000),
    ("classes-2", 1.0, 6_000),
    ("regions-3", 3.0, 10_000),
    ("steps-4", 1.0, 4_000),
    ("classes-5", 0.5, 4_000),
)
PAIRED = (
    ("products-8", 3.0, 10_000),
    ("products-10", 1.0, 50_000),
    ("products-12", 3.0, 20_000),
    ("corners-8", 3.0, 10_000),
    ("corners-6", 1.0, 20_000),
    ("corners-6", 0.3, 50_000),
    ("forest-8", 3.0, 20_000),
    ("forest-5", 3.0, 50_000),
    ("forest-5", 1.0, 50_000),
    ("clauses-6", 3.0, 10_000),
    ("steps-5-wide", 3.0, 10_000),
    ("odds-6", 3.0, 5_000),
    ("odds-12", 3.0, 20_000),
    ("classes-5", 1.0, 20_000),
    ("regions-3", 3.0, 10_000),
    ("steps-5", 1.0, 20_000),
    ("odds-6", 1.0, 20_000),
    ("clauses-4", 1.0, 10_000),
    ("kinds-3", 1.0, 10_000),
    ("odds-4", 1.0, 10_000),
    ("regions-4", 1.0, 10_000),
)
LONG_AND_SHORT = (
    ("clauses-4", 1.0, 20_000),
    ("steps-5", 1.0, 20_000),
    ("classes-4", 0.3, 2_000),
    ("steps-4", 1.0, 1_500),
)
"""Worlds or tables, with epsilon and people."""

NEW_PEOPLE = 1_000
"""Number of new users for whom the policy learned from a log decides."""

ANSWERS, ANSWER_EPSILON = 80, 0.5
"""How many of them are answered one by one; what is learned is the same for any number of answers."""

HALF_LIFE = 800
"""Rounds, where the past fades."""


BOXED = ("box", "features", "fading")
"""Ways that are over a box."""

STAGES = {"screened": 20_000, "confirmed": 30_000}
"""First seeds."""


class Constant(NamedTuple):
    """A constant: the modules or classes that define it, its name there, and its neighbouring values."""

    owners: tuple[Any, ...]
    name: str
    values: tuple[Any, ...]

    @property
    def present(self) -> Any:
        return getattr(self.owners[0], self.name)


class Group(NamedTuple):
    """Constants that are measured alike, where, and on how many seeds in both stages."""

    way: str
    measure: str
    places: tuple[tuple[str, float, int], ...]
    seeds: tuple[int, int]
    constants: dict[str, Constant]


def _tables(
    way: str,
    measure: str,
    constants: dict[str, Constant],
    *,
    places: tuple[tuple[str, float, int], ...] = PEOPLE,
    seeds: tuple[int, int] = (2, 6),
) -> Group:
    return Group(way, measure, places, seeds, constants)


_OF_BOTH = {
    "variance of constants": Constant((posterior,), "CONSTANT_VARIANCE", (0.01, 0.04)),
    "variance of columns": Constant((posterior,), "COLUMN_VARIANCE", (0.005, 0.02)),
    "variance of pairs": Constant((posterior,), "PAIR_VARIANCE", (0.0005, 0.002)),
    "evidence of all pairs": Constant((posterior,), "PAIR_PSEUDO_COUNT", (10.0, 100.0)),
    "share for contexts": Constant((noise,), "CONTEXT_SHARE", (0.08, 0.25)),
}
_THIRD = 1.0 / 3.0
GROUPS = {
    "cells": Group(
        "box",
        "share",
        BOXES,
        (10, 6),
        {
            "first block": Constant((cells,), "FIRST_BLOCK", (20, 45)),
            "growth of blocks": Constant((cells,), "GROWTH", (1.1, 1.25)),
            "last release": Constant((cells,), "LAST_SHARE", (0.85, 0.99)),
            "share of uniform points": Constant((cells,), "UNIFORM_SHARE", (0.2, 0.6)),
            "weight of uniform points": Constant((cells,), "UNIFORM_WEIGHT", (0.03, 0.3)),
            "fewest cells": Constant((cells,), "FEWEST_CELLS", (4, 7)),
            "most cells": Constant((cells,), "MOST_CELLS", (16, 36)),
            "people a cell": Constant((cells,), "PEOPLE_A_CELL", (5, 12)),
            "error of counts": Constant((cells,), "COUNT_ERROR", (0.05, 0.2)),
            "features": Constant((cells,), "N_FEATURES", (12, 24)),
            "prior variance": Constant((cells.CellRelease,), "prior_variance", (0.15, 0.4)),
            "Thompson scale": Constant((cells.CellRelease,), "thompson_scale", (0.1, 0.3)),
        },
    ),
    "features": Group(
        "features",
        "share",
        OF_FEATURES,
        (40, 80),
        {
            "features": Constant((feature_release,), "N_FEATURES", (14, 28)),
            "first block": Constant((schedule,), "FIRST_BLOCK", (16, 36)),
            "growth of the first block": Constant((schedule,), "FIRST_BLOCK_EXPONENT", (0.0, 0.3)),
            "blocks": Constant((schedule,), "BLOCKS", (14, 28)),
            "last release": Constant((schedule,), "LAST_SHARE", (0.75, 0.95)),
            "prior variance": Constant((feature_release.FeatureRelease,), "prior_variance", (0.12, 0.35)),
            "Thompson scale": Constant((feature_release.FeatureRelease,), "thompson_scale", (0.15, 0.4)),
        },
    ),
    "fading": Group(
        "fading",
        "share",
        FADING,
        (20, 40),
        {"blocks a half-life": Constant((schedule,), "BLOCKS_A_HALF_LIFE", (5, 12))},
    ),
    "marginals": _tables(
        "online",
        "share",
        {
            "people an arm": Constant((release,), "PEOPLE_AN_ARM", (60.0, 135.0)),
            "growth of blocks": Constant((release,), "GROWTH", (1.25, 1.6)),
            "last release": Constant((release,), "LAST_SHARE", (0.7, 0.97)),
            "centres": Constant((learning, release), "CENTRES", ((0.2, 0.8), (0.4, 0.6))),
            "variance left": Constant((learning, release), "LATER_VARIANCE", (0.15, 0.25)),
            "error of counts": Constant((learning,), "COUNT_ERROR", (0.05, 0.2)),
            "error of a poor law": Constant((learning,), "POOR_LAW", (0.1, 0.6)),
            "reward of the miscounted": Constant((learning,), "LEFT_OVER", (0.05, 0.2)),
            "Thompson scale": Constant((release.MarginalRelease,), "thompson_scale", (0.15, 0.4)),
            "draws towards the end": Constant((release,), "SPREAD_POWER", (0.0, 2.0)),
            **_OF_BOTH,
        },
        places=PEOPLE[:5],
    ),
    "first": _tables(
        "online",
        "share",
        {
            "first block": Constant(
                (release,),
                "FIRST_SHARES",
                ((0.015, 0.15, _THIRD), (0.06, 0.15, _THIRD), (0.03, 0.1, _THIRD), (0.03, 0.22, _THIRD)),
            ),
        },
        places=LONG_AND_SHORT,
    ),
    "inclusion": _tables(
        "online",
        "share",
        {
            "columns that matter": Constant((inclusion,), "RELEVANT", (3.0, 100.0)),
        },
        places=MOSTLY_NOTHING,
        seeds=(6, 8),
    ),
    "census": _tables(
        "online",
        "share",
        {
            "people of a census": Constant((release,), "CENSUS_PEOPLE", ((36.0, 216.0), (80.0, 216.0))),
            "shares of a census": Constant((release,), "CENSUS_SHARES", ((0.005, 0.02), (0.005, 0.08))),
        },
        places=RANGES,
        seeds=(6, 8),
    ),
    "pairs": _tables(
        "online",
        "share",
        {"columns counted in pairs": Constant((release,), "PAIRED_COLUMNS", (3, 8))},
        places=MORE_COLUMNS,
        seeds=(4, 6),
    ),
    "log": _tables(
        "log",
        "share",
        {
            **_OF_BOTH,
            "cosines of a range": Constant((effects,), "FINE_COSINES", ((8, 6), (16, 12))),
            "components of a pair": Constant((effects,), "FINE_PAIRS", (4, 5)),
            "odds of a column": Constant((misfit,), "COLUMN_ODDS", (1.0, 20.0)),
            "people of an empty cell": Constant((misfit,), "LEAST_PEOPLE", (0.1, 0.5)),
        },
        places=(*PEOPLE, *CORRELATED),
        seeds=(4, 6),
    ),
    "levels": _tables(
        "log",
        "share",
        {
            "error of counts in fine levels": Constant((tables,), "FINE_ERROR", (1.0, 4.0)),
            "deviations that are believed": Constant((census,), "BEYOND", (2.0, 5.0)),
        },
        places=LEVELS,
        seeds=(6, 8),
    ),
    "paired": _tables(
        "log",
        "share",
        {"noise with tables of all pairs": Constant((tables,), "PAIRED_NOISE", (0.0, 1.0, 9.0))},
        places=PAIRED,
        seeds=(6, 8),
    ),
    "many": _tables(
        "log",
        "share",
        {
            "share of counts in a vector": Constant((noise,), "CONTEXT_SQUARE", (0.06, 0.3)),
            "tables from which on no column is left out": Constant((tables,), "FEWEST_TABLES", (8, 1_000)),
            "error of pairs": Constant((tables,), "PAIR_ERROR", (0.0, 0.1, 1.0, 1e9)),
        },
        places=(*MANY_COLUMNS, *CORRELATED),
        seeds=(8, 12),
    ),
    "weighted": _tables(
        "weighted",
        "share",
        {"bound with propensities": Constant((logged_table,), "WEIGHTED_BOUND", (1.4, 3.0))},
    ),
    "published": _tables(
        "published",
        "share",
        {
            "weight of what is cut": Constant((calibration,), "RELEASE_CLIP_WEIGHT", (0.03, 0.3)),
            "correlation of arms": Constant((kernels_of_people,), "ARM_CORRELATION", (0.01, 0.2)),
        },
        places=OF_A_LOG,
        seeds=(60, 120),
    ),
    "answered": _tables(
        "answered",
        "share",
        {
            "weight of what is cut": Constant((calibration,), "ANSWER_CLIP_WEIGHT", (0.003, 0.03)),
            "correlation of arms": Constant((kernels_of_people,), "ARM_CORRELATION", (0.01, 0.2)),
        },
        places=OF_A_LOG,
        seeds=(60, 120),
    ),
    "deviations": _tables(
        "log",
        "uncovered",
        {
            "wider": Constant((tables,), "WIDER", (1.3, 2.0)),
            "bias": Constant((tables,), "BIAS", (0.03, 0.065)),
            "bias of misfit": Constant((tables,), "BIAS_OF_MISFIT", (1.4, 3.0)),
        },
        places=(*PEOPLE, *CORRELATED),
    ),
    "expected": _tables(
        "log",
        "mistaken",
        {
            "share of the variance": Constant((tables,), "EXPECTED_SHARE", (0.35, 0.7)),
            "remainder": Constant((tables,), "REMAINDER", (0.04, 0.09)),
        },
        places=(*PEOPLE, *CORRELATED),
    ),
}

LEFT: tuple[tuple[str, str], ...] = ()
"""For which another value was ahead twice, and which stay until all figures of their pages are run again."""

ELSEWHERE = {
    "chosen on a made-up table that no page shows, by reproduction/tuning/table_study.py": (
        "models.features.people.LENGTHSCALE",
        "models.features.people.CATEGORY_CORRELATION",
        "models.features.people.FEATURES_PER_ARM",
    ),
    "held against tuning worlds by another command, reproduction/studies/releases.py --group rule": (
        "central.choice_of_kind.CELL_BOXES",
    ),
    "chosen on tuning seeds by another command, reproduction/tuning/foresight.py": (
        "central.foresight.NOTHING_TO_LEARN",
        "central.gp_bandit.BEYOND",
        "central.gp_bandit.BEYOND_SDS",
    ),
    "chosen on tuning worlds and seeds by another command, reproduction/tuning/arms_change.py": (
        "central.arm_changes.MINIMUM",
        "central.marginals.learning.LIKENESS",
    ),
    "false alarms and thresholds of diagnostics, written beside them": (
        "central.cells.ALARM",
        "central.cells.CERTAIN",
        "central.feature_release.CERTAIN",
        "central.feature_release.FEW_TOLD",
        "central.foresight.FLAT",
        "central.gp_bandit.SMALL_KERNEL",
        "central.marginals.action_release.TOLD_APART",
        "central.marginals.release.ALARM",
        "central.marginals.release.FEW_READ",
        "models.marginals.census.CLOSER",
    ),
    "held against tuning seeds by another command, reproduction/studies/less_work.py --group unresolved": (
        "central.regression.UNRESOLVED",
    ),
    "held against tuning seeds by another command, reproduction/studies/prices_logs.py --only bounds": (
        "central.logged.action_tables.WEIGHTED_BOUND",
    ),
    "held against other values on worlds of their own by another command, reproduction/tuning/prices.py": (
        "central.marginals.action_release.PEOPLE",
        "central.marginals.action_release.CAUTION",
        "central.marginals.action_release.MOST_CAUTION",
        "models.marginals.actions.PRIOR_VARIANCES",
        "models.marginals.actions.PSEUDO_COUNTS",
    ),
    "chosen in short trials on seeds below 1,000 of worlds that a page shows with other seeds": (
        "central.marginals.action_release.FIRST_SHARES",
        "central.marginals.action_release.BINS",
        "central.marginals.action_release.FEWEST_BINS",
        "central.marginals.action_release.MOST_BINS",
        "central.marginals.action_release.BINS_POWER",
        "central.marginals.action_release.FREEDOM",
        "central.marginals.action_release.CAUTION_POWER",
        "models.marginals.actions.COLUMNS_THAT_MATTER",
        "models.marginals.actions.MANY_COLUMNS",
    ),
    "chosen in short trials on worlds of their own by another command, reproduction/tuning/products.py": (
        "central.marginals.product_release.PEOPLE",
        "central.marginals.product_release.GROWTH",
        "central.marginals.product_release.BINS",
        "central.marginals.product_release.FREEDOM",
        "central.marginals.product_release.TOLD_ALONE",
    ),
    "chosen on two scratch seeds without a result; reproduction/tuning/products.py --logs compares it": (
        "central.logged.product_tables.MOST_BINS",
    ),
    "reproduction/tuning/readout.py compares them, on seeds below a million": (
        "central.readout.lattice.ANSWERED",
    ),
    "no trials are known of: what they stand for is written beside them": (
        "central.marginals.learning.WIDEST",
        "central.arm_changes.HELD_TWICE",
        "central.arm_changes.MOST_FORCED",
        "central.gp_bandit.LATE_RELEASES",
        "tables.windows.CLOSE",
        "tables.windows.MOVING",
        "central.marginals.release.FORCED",
        "central.cells.ONE_PLACE",
        "central.cells.PLACE_DIGITS",
        "central.foresight.TYPICAL_VARIANCE",
        "central.choice_of_kind.UNKNOWN_HORIZON",
        "central.schedule.OPEN_ENDED_GROWTH",
        "central.regression.REWARD_VARIANCE",
        "central.regression.SPREADS",
        "central.regression.FORGOTTEN",
        "central.regression.INDISTINCT",
        "central.logged.calibration.ANSWER_SPREAD",
        "central.logged.calibration.NOTHING_TO_LEARN",
        "central.logged.contexts.LARGEST_RATE",
        "central.logged.evaluation.RARER",
        "central.logged.evaluation.SURE",
        "central.logged.estimator.SIGNAL_VARIANCE",
        "central.logged.estimator.NOISE_VARIANCE",
        "central.logged.logged_table.HISTOGRAM_SHARE",
        "central.readout.lattice.ANSWERED_ALONE",
        "central.readout.budget.CONTROL_SEGMENTS",
        "central.readout.segments.COUNTED",
        "central.logged.tables.PAIR_CELLS",
        "central.logged.action_tables.WEIGHT_SHARE",
        "central.logged.action_tables.FEW_ROWS",
        "central.logged.action_tables.FEW_DEVIATIONS",
        "central.logged.contexts.SURE",
        "central.logged.contexts.LEAST_ROWS",
        "central.marginals.learning.VARIANCE",
        "central.marginals.action_release.GROWTH",
        "central.marginals.action_release.LAST_SHARE",
        "central.marginals.product_release.LAST_SHARE",
        "central.marginals.product_release.FIRST_SHARES",
        "models.marginals.actions.ALONE_VARIANCE",
        "models.marginals.actions.ALONE_COUNT",
        "models.marginals.action_basis.PARTS",
        "central.marginals.release.OPEN_ENDED_FIRST",
        "central.marginals.release.FEWEST_COUNTED",
        "models.marginals.census.HELD",
        "models.marginals.census.OUTSIDE",
        "models.marginals.census.WIDEST_WINDOW",
        "models.marginals.action_basis.SHARES",
        "models.marginals.effects.SHARES",
    ),
    "how fine something is computed, or how large it may be": (
        "models.marginals.action_basis.ALONE",
        "central.beginning.POINTS",
        "central.foresight.DRAWS",
        "central.foresight.FLAT_POINTS",
        "central.foresight.MOST_ARMS",
        "central.foresight.POINTS",
        "central.gp_bandit.PUBLIC_POINTS",
        "central.beginning.LEAST_SD",
        "central.cells.ROUNDS_OF_CLUSTERING",
        "central.logged.calibration.RIDGES",
        "central.marginals.learning.SCORED",
        "models.marginals.effects.GATHERED",
        "central.logged.calibration.SHARES",
        "central.logged.people.CELLS",
        "central.logged.people.MOST_CONTEXT_CELLS",
        "central.logged.people.MOST_CONTEXTS",
        "central.logged.sums.REWARD_BITS",
        "central.feature_release.ALL_SOLVED",
        "central.logged.sums.REWARD_UNIT",
        "central.logged.sums.WEIGHT_BITS",
        "central.logged.terms.STEPS",
        "central.logged.terms.HALF",
        "central.logged.terms.LEAST",
        "central.logged.plan.MOST_PER_USER",
        "central.logged.plan.UNITS",
        "central.logged.rows.LARGEST_WEIGHT",
        "central.logged.sums.MOST_ROWS",
        "central.logged.sums.MOST_CELLS",
        "central.marginals.actions.COMPARED",
        "models.marginals.actions.MOST_WEIGHTS",
        "central.marginals.learning.SAMPLE",
        "central.marginals.learning.DRAWS",
        "central.marginals.learning.FIRST_STEPS",
        "central.marginals.learning.STEPS",
        "central.marginals.release.SQUARES",
        "central.marginals.release.UNITS",
        "central.readout.declared.MOST_LOOKS",
        "central.readout.declared.MOST_METRICS",
        "central.readout.declared.MOST_MINIMUM",
        "central.readout.declared.MOST_SHARE",
        "central.readout.groups.CONTROL",
        "central.readout.groups.NEITHER",
        "central.readout.groups.PERMUTED",
        "central.readout.groups.POLICY",
        "central.readout.lattice.MOST_ROUNDS",
        "central.readout.lattice.UNIT",
        "central.readout.run.PUBLIC_NUMBERS",
        "central.readout.segments.MOST_SEGMENTS",
        "central.readout.segments.NOWHERE",
        "central.schedule.MOST_SHORT",
        "central.tuning.LONGEST_HORIZON",
        "models.marginals.census.CENSUS_BINS",
        "models.marginals.census.HALVINGS",
        "models.marginals.census.ROUNDED",
        "central.logged.action_tables.LEAST",
        "central.logged.action_tables.SQUARES",
        "central.logged.action_tables.STEPS",
        "central.logged.tables.EXPECTED_DRAWS",
        "central.logged.tables.EXPECTED_PEOPLE",
        "central.logged.tables.FINE_LEVELS",
        "central.logged.tables.SQUARES",
        "central.logged.tables.SQUARES_AN_ARM",
        "central.logged.tables.MOST_FINE",
        "central.logged.tables.MOST_PAIRED",
        "central.logged.tables.PAIRED_BINS",
        "models.marginals.tables.BIN_CHOICES",
        "models.marginals.designing.LARGEST_TABLE",
        "models.marginals.tables.LARGEST_GROUP",
        "models.marginals.tables.MOST_CELLS",
        "models.marginals.designing.SWEEPS",
        "models.marginals.designing.FEW_COLUMNS",
        "models.marginals.designing.TIE",
        "models.marginals.effects.BINS",
        "models.marginals.effects.MOST_PAIR_COLUMNS",
        "models.marginals.effects.MOST_WEIGHTS",
        "models.marginals.effects.MOST_ENTRIES",
        "models.marginals.effects.FEW_COLUMNS",
        "models.marginals.effects.FINE_FEW",
        "central.logged.engine.LANES",
        "central.logged.rows.ROWS_AT_ONCE",
        "models.marginals.law.LEAST_SHARE",
        "models.marginals.law.LOCATED",
        "models.marginals.law.SWEEPS",
        "models.marginals.law.FEW_COLUMNS",
        "models.marginals.law.PAIR_BINS",
        "models.marginals.inclusion.LEAST",
        "models.marginals.misfit.LEAST_WEIGHT",
        "models.marginals.misfit.LEFT_OUT",
        "models.marginals.misfit.MISFITS",
        "models.features.people.LANDMARKS",
    ),
}
"""All other numbers of `central`, of marginal tables and of features of people; a test looks for more."""


@contextmanager
def changed(constant: Constant | None, value: Any) -> Iterator[None]:
    """A constant with another value for a while; None: the values that all have."""
    if constant is None:
        yield
        return
    kept = constant.present
    try:
        for owner in constant.owners:
            setattr(owner, constant.name, value)
        yield
    finally:
        for owner in constant.owners:
            setattr(owner, constant.name, kept)


@lru_cache(maxsize=32)
def features_of(dim: int, n_features: int) -> tuple[dpb.Box, MercerFeatures]:
    """Return a box of `dim` columns and its features, as in `releases.py`."""
    box = dpb.Box(low=np.zeros(dim), high=np.ones(dim))
    kernel = SquaredExponential(lengthscale=0.3 * dim**0.5)
    m = n_features
    return box, MercerFeatures(kernel=kernel, domain=box, n_features=m, n_landmarks=max(5 * m, 100))


def _kin(way: str) -> str:
    """Ways whose results hang on each other's constants."""
    if way in ("box", "published", "answered"):
        return way
    return "features" if way in BOXED else "marginals"


@dataclass(frozen=True, kw_only=True)
class TuningCell(Cell):
    """One place, with one constant changed, or none ("")."""

    group: str
    constant: str
    value: Any
    world: str
    epsilon: float
    horizon: int

    @property
    def name(self) -> str:
        """Groups that run alike share what was run with no constant changed."""
        own = f"{self.group} {self.constant} {self.value}" if self.constant else GROUPS[self.group].way
        return f"{own} {self.world} {self.epsilon} {self.horizon}"

    @property
    def settings(self) -> Record:
        """Settings on which a result depends besides the seed: all values of the constants."""
        return {
            f"{group} {name}": str(constant.present)
            for group, own in GROUPS.items()
            for name, constant in own.constants.items()
            if _kin(own.way) == _kin(GROUPS[self.group].way)
        }

    def simulate(self, seed: int) -> Record:
        """Return the record of one run."""
        own = GROUPS[self.group]
        with changed(own.constants.get(self.constant), self.value):
            if own.way in ("log", "weighted"):
                return self._logged(seed, weighted=own.way == "weighted")
            if own.way in ("published", "answered"):
                return {"share": self._once(seed, answered=own.way == "answered")}
            if own.way in BOXED:
                return {"share": self._boxed(own.way, seed)}
            return {"share": self._online(seed)}

    def _public(self, seed: int, *, delta: float) -> dict[str, Any]:
        return {
            "horizon": self.horizon,
            "privacy": JointDP(epsilon=self.epsilon, delta=delta, user_ids=False),
            "noise": SimulatedNoise(seed),
            "seed": seed,
        }

    def _boxed(self, way: str, seed: int) -> float:
        drawn = changing_world if way == "fading" else tuning_world
        world: Any = drawn(self.world, self.horizon, seed)
        count = cells.N_FEATURES if way == "box" else feature_release.N_FEATURES
        box, features = features_of(int(self.world.split("-")[1]), count)
        policy = GPBandit(
            domain=box,
            tuning=GPTuning(
                release="cells" if way == "box" else "features",
                forget=HALF_LIFE if way == "fading" else None,
                features=features,
            ),
            reward_range=world.reward_range,
            **self._public(seed, delta=0.0 if way == "box" else 1e-6),
        )
        return lost(policy, world)

    def _online(self, seed: int) -> float:
        world = world_of(tuning_table(self.world, self.horizon, seed), self.world, seed)
        policy = GPBandit(
            contexts=world.schema,
            arms=world.arms.labels,
            tuning=GPTuning(release="marginals"),
            reward_range=world.reward_range,
            **self._public(seed, delta=1e-6),
        )
        return lost(policy, world)

    def _once(self, seed: int, *, answered: bool) -> float:
        table = tuning_table(self.world, self.horizon + NEW_PEOPLE, seed)
        n, arms = self.horizon, table.rewards.shape[1]
        given = np.random.default_rng([seed, 1]).integers(0, arms, n)
        own: dict[str, Any] = {"tuning": ExploreTuning(release="features")}
        if answered:
            own = {
                "privacy": JointDP(epsilon=ANSWERS * ANSWER_EPSILON, user_ids=False),
                "tuning": ExploreTuning(release="features", answer_epsilon=ANSWER_EPSILON),
            }
        policy = ExploreThenCommit(
            contexts=table.schema,
            arms=list(range(arms)),
            reward_range=(0, 1),
            **self._public(seed, delta=0.0 if answered else 1e-6) | own,
        )
        policy.learn(table.contexts[:n], given.tolist(), table.rewards[np.arange(n), given].astype(float))
        if answered:
            truth = table.means[n : n + ANSWERS]
            chosen = np.array([policy.answer(row).arm for row in table.contexts[n : n + ANSWERS]])
        else:
            truth = table.means[n:]
            chosen = policy.publish().predict(table.contexts[n:])[0].argmax(axis=1)
        lost = truth.max(axis=1) - truth[np.arange(len(truth)), chosen]
        return float(lost.sum() / (truth.max(axis=1) - truth.mean(axis=1)).sum())

    def _logged(self, seed: int, *, weighted: bool) -> Record:
        """Run a case on a log; if `weighted`, the first column determines the arm of six rows of ten."""
        people = tuning_table(self.world, self.horizon + NEW_PEOPLE, seed)
        rng, arms, n = np.random.default_rng([seed, 1]), people.rewards.shape[1], self.horizon
        chances = np.full((n, arms), 1.0 / arms)
        if weighted:
            first = people.contexts[:n, 0] / max(1, people.categories[0])
            chances = 0.4 * chances + 0.6 * np.eye(arms)[(first * arms).astype(int) % arms]
        given = (rng.random(n)[:, None] > chances.cumsum(axis=1)).sum(axis=1).clip(0, arms - 1)
        policy = ExploreThenCommit(
            contexts=people.schema,
            arms=list(range(arms)),
            reward_range=(0, 1),
            tuning=ExploreTuning(
                release="marginals", bound=logged_table.WEIGHTED_BOUND / 2 if weighted else None
            ),
            **self._public(seed, delta=1e-6),
        )
        rows = np.arange(n), given
        policy.learn(
            people.contexts[:n],
            given.tolist(),
            people.rewards[rows].astype(float),
            propensities=chances[rows] if weighted else None,
        )
        mean, sd = policy.publish().predict(people.contexts[n:])
        truth = people.means[n:]
        lost = truth.max(axis=1) - truth[np.arange(NEW_PEOPLE), mean.argmax(axis=1)]
        covered = float((np.abs(mean - truth) < 2.0 * sd).mean())
        return {
            "share": float(lost.sum() / (truth.max(axis=1) - truth.mean(axis=1)).sum()),
            "covered": covered,
            "uncovered": abs(covered - 0.95),
            "mistaken": abs(policy.expected_error()["publish"].error - float(lost.mean())),
        }


def lost(policy: GPBandit, world: Any) -> float:
    """Regret as a share of a random policy's."""
    result = run(policy, world)
    return float(result.regret.sum() / (result.best - result.uniform).sum())


def world_of(people: People, name: str, seed: int) -> dpb.lab.worlds.TableBandit:
    """A table whose expected rewards are known, as a bandit."""
    return dpb.lab.worlds.TableBandit(
        name=name,
        schema=people.schema,
        contexts=people.contexts,
        arms=dpb.Arms(people.rewards.shape[1]),
        reward_table=people.rewards.astype(np.float64),
        expected=people.means,
        reward_range=dpb.domains.RewardRange(0.0, 1.0),
        seed=seed,
        horizon=len(people.contexts),
    )


def cells_of(group: str, constant: str, value: Any) -> list[TuningCell]:
    """One cell a place."""
    return [
        TuningCell(group=group, constant=constant, value=value, world=world, epsilon=epsilon, horizon=people)
        for world, epsilon, people in GROUPS[group].places
    ]


def gained(measure: str, before: list[Runs], after: list[Runs]) -> tuple[float, float]:
    """By how much less is lost, and the standard error of that."""
    drops = [one.values(measure) - other.values(measure) for one, other in zip(before, after, strict=True)]
    errors = [drop.var(ddof=1) / len(drop) for drop in drops]
    return float(np.mean([drop.mean() for drop in drops])), float(np.sqrt(np.sum(errors)) / len(drops))


def tuned(group: str, only: list[str], path: Path, jobs: int) -> list[Record]:
    """One row a neighbour and stage."""
    rows: list[Record] = []
    own = GROUPS[group]
    left = [(name, value) for name, one in own.constants.items() if name in only for value in one.values]
    for (stage, first), count in zip(STAGES.items(), own.seeds, strict=True):
        seeds = report_seeds(first, count, tuning=True)
        present = run_cells(cells_of(group, "", None), seeds=seeds, path=path, jobs=jobs) if left else []
        ahead = []
        for name, value in left:
            runs = run_cells(cells_of(group, name, value), seeds=seeds, path=path, jobs=jobs)
            gain, error = gained(own.measure, present, runs)
            row = {
                "group": group,
                "constant": name,
                "present": own.constants[name].present,
                "value": value,
                "stage": stage,
                "worlds": sorted({one.cell.world for one in runs}),
                "first_seed": first,
                "seeds": count,
                "lost": float(np.mean([one.values(own.measure).mean() for one in present])),
                "gain": gain,
                "standard_error": error,
            }
            print(f"{group}, {stage} {name} {value}: {gain:+.4f} +- {error:.4f}", flush=True)
            rows.append(row)
            ahead += [(name, value)] * (gain > 2.0 * error)
        left = ahead
    return rows


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", nargs="+", help="groups, or constants as 'group: constant'")
    parser.add_argument("--records", type=Path, required=True, help="folder of what was run already")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    options.records.mkdir(parents=True, exist_ok=True)
    found = json.loads(options.out.read_text()) if options.out and options.out.exists() else []
    for group, own in GROUPS.items():
        only = [
            name
            for name in own.constants
            if options.only is None or {group, f"{group}: {name}"} & set(options.only)
        ]
        rows = tuned(group, only, options.records / "tune-releases.jsonl", options.jobs) if only else []
        found = [row for row in found if row["group"] != group or row["constant"] not in only] + rows
        if options.out is not None:
            options.out.write_text(json.dumps(found, indent=1, allow_nan=False) + "\n")


if __name__ == "__main__":
    from reproduction.tuning import releases  # by its name, so that workers find its cells

    releases.main()
