"""Intervals of a private readout: `python -m reproduction.studies.readout --jobs 2`.

The study measures how often the intervals of `dpbandits.models.readout` cover, and how wide they are. A
policy group and a control group of a public share are read at four looks. Noise is that of the defaults, in
its continuous form. The control's share is .1. The control spends (1, 1e-6) as Laplace noise of epsilon 1.
The policy group spends a share of .05, as Gaussian noise of mu^2/20 or, for pure kinds, as Laplace noise of
epsilon/20. The sum of answers has the weight w = 9/16. With a metric its sensitivity is 1 + w/2 in L1, and
sqrt(1 + w^2/4) in L2. With squares it is 1 + w/2 + w^2/16 in L1.

| scenario | outcomes |
|---|---|
| `rare` | 1% against 1.2% |
| `revenue` | 5% buyers, Pareto amounts clipped at 500; the policy has 6% buyers |
| `small` | 30% against 30.5% |
| `none` | 30% in both groups |
| `drift` | the control moves from 10% to 40% over the looks, and the policy is .02 above |
| `adaptive` | the same drift; shares of the control .4, .2, .1, .05; effects 0, .01, .02, .04 |

Every scenario, kind of noise and number of people is run `RUNS` times: multinomial outcomes, groups by
independent coins. Rows are written as JSON. Beside ours are three crude intervals: without the noise in the
interval, 1.96 deviations at every look, and means pooled over looks. `width_over_open` is the mean width over
that of the usual normal interval on the same outcomes without noise. Further rows hold sample ratios, repeat
visits and segments (a quarter of the runs).

Two parts run the policy itself with a readout at its defaults, under simulated noise. `--only policy` counts
how often the intervals cover the expectation of policy minus control over the users of `WORLD`, given the
policy's releases. `--only cost` measures what a readout costs the policy group on `cps-income`.

`--only local` reads randomised bits of devices (`local.ReadoutSpec`, control's share 1/2). The counts of
each group are drawn as binomial sums, which is the law of adding up reports. `ever_excludes` is the share of
runs in which the interval for all times excludes the truth at one of `LOCAL_TIMES` equally spaced times.
`randomisation_left_out_coverage` is that of the usual interval, as if every bit were true.
`unequal_found` has 5% fewer reports of the control group.
"""

import argparse
import json
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from joblib import Parallel, delayed

import dpbandits as dpb
from dpbandits.lab.evaluation.summary import Estimate
from dpbandits.lab.planning import plan_local_readout
from dpbandits.lab.worlds import cps_income
from dpbandits.local.server.readout import group_sizes, outcome_intervals
from dpbandits.models.readout import SAMPLE_RATIO_THRESHOLD, CellTable, Group, Look, NoiseScales, half_width
from dpbandits.models.readout.boundaries import any_number_level, planned_levels
from dpbandits.models.readout.estimates import Contrast, Side
from dpbandits.models.readout.segments import cell_contrast, holm
from dpbandits.privacy.calibration import gaussian_mu

RUNS, SEED = 20_000, 7_600_000
LOOKS, SHARE, POLICY_SHARE, ANSWERED = 4, 0.1, 0.05, 9 / 16
EPSILON, DELTA = 1.0, 1e-6
PEOPLE = (2_000, 10_000, 100_000)
KINDS = ("gaussian", "pure")
PARTS = ("simulated", "policy", "cost", "local")
SCENARIOS = ("rare", "revenue", "small", "none", "drift", "adaptive")
RESULTS = Path(__file__).resolve().parents[1] / "results" / "readout.json"

NONE = NoiseScales()


def amounts() -> tuple[np.ndarray, np.ndarray]:
    """Values of z and their chances among buyers: Pareto amounts with index 1.5 from 20, clipped at 500."""
    edges = np.concatenate([20.0 * 25.0 ** (np.arange(25) / 24.0), [np.inf]])
    chance = (20.0 / edges[:-1]) ** 1.5 - np.where(np.isinf(edges[1:]), 0.0, (20.0 / edges[1:]) ** 1.5)
    middle = np.append(np.sqrt(edges[:-2] * edges[1:-1]), 500.0)
    return middle / 500.0, chance


def laws(scenario: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Values (V,) of z, chances (looks, V) of policy and control, and the control's share (looks,)."""
    share, yes = np.full(LOOKS, SHARE), np.array([0.0, 1.0])
    rates = {
        "rare": (0.012, 0.01),
        "small": (0.305, 0.3),
        "none": (0.3, 0.3),
        "revenue": (0.06, 0.05),
        "drift": (np.linspace(0.12, 0.42, LOOKS), np.linspace(0.1, 0.4, LOOKS)),
        "adaptive": (
            np.linspace(0.1, 0.4, LOOKS) + np.array([0.0, 0.01, 0.02, 0.04]),
            np.linspace(0.1, 0.4, LOOKS),
        ),
    }[scenario]
    if scenario == "adaptive":
        share = np.array([0.4, 0.2, 0.1, 0.05])
    policy, control = (np.broadcast_to(np.asarray(rate, dtype=float), (LOOKS,)) for rate in rates)
    if scenario == "revenue":
        z, chance = amounts()
        values = np.append(0.0, z)
        return (
            values,
            *(np.column_stack([1.0 - rate, rate[:, None] * chance]) for rate in (policy, control)),
            share,
        )
    return yes, np.column_stack([1 - policy, policy]), np.column_stack([1 - control, control]), share


def laws_of(kind: str, *, squares: bool) -> tuple[NoiseScales, NoiseScales]:
    """Noise of a sum of the policy and of the control group."""
    l1 = 1.0 + ANSWERED / 2.0 + (ANSWERED**2 / 16.0 if squares else 0.0)
    pure = NoiseScales(laplace=l1 / (EPSILON * POLICY_SHARE))
    l2 = float(np.hypot(1.0, ANSWERED / 2.0))
    gaussian = NoiseScales(gaussian=l2 / (gaussian_mu(EPSILON, DELTA) * POLICY_SHARE**0.5))
    return pure if kind == "pure" else gaussian, NoiseScales(laplace=l1 / EPSILON)


def noise(rng: np.random.Generator, law: NoiseScales, shape: tuple[int, ...]) -> np.ndarray:
    return rng.laplace(size=shape) * law.laplace + rng.standard_normal(shape) * law.gaussian


def squares_noise(law: NoiseScales) -> NoiseScales:
    """Noise of squares: 4 b beside Laplace noise, sd/.78125 beside Gaussian noise."""
    return NoiseScales(4.0 * law.laplace, law.gaussian / 0.78125)


def side(
    rounds: np.ndarray,
    sums: np.ndarray,
    squares: np.ndarray | None,
    law: NoiseScales,
    weights: np.ndarray,
    rng: np.random.Generator,
    *,
    users: np.ndarray | None = None,
    squared_rounds: np.ndarray | None = None,
    overlap: np.ndarray | None = None,
) -> Side:
    """One group's sums (runs, looks) of z - 1/2 with noise drawn."""
    ones, wide = np.ones_like(sums), squares_noise(law)
    return Side(
        weights=weights,
        rounds=rounds.astype(float),
        squared_rounds=(rounds if squared_rounds is None else squared_rounds).astype(float),
        overlap=np.zeros_like(ones) if overlap is None else overlap.astype(float),
        sums=sums + noise(rng, law, sums.shape),
        squares=np.full_like(ones, np.nan) if squares is None else squares + noise(rng, wide, sums.shape),
        laplace=law.laplace * ones,
        gaussian=law.gaussian * ones,
        square_sd=wide.sd * ones,
        users=(rounds if users is None else users).astype(float),
    )


def with_noise(part: Side, law: NoiseScales, rng: np.random.Generator) -> Side:
    """Return the same sums with further independent noise, as columns without rounds.

    The number of answered rounds is the sum of answers plus half the metric's sum, which has its own noise.
    """
    drawn, ones = noise(rng, law, part.sums.shape), np.ones_like(part.sums)
    added = {"sums": drawn, "laplace": law.laplace * ones, "gaussian": law.gaussian * ones}
    added |= {"squared_rounds": 0.0 * ones, "overlap": 0.0 * ones}
    names = [name for name in Side.__dataclass_fields__ if name != "moments"]
    fields = ((name, getattr(part, name)) for name in names)
    return Side(**{name: np.concatenate([own, added.get(name, own)], axis=-1) for name, own in fields})


def world(scenario: str, kind: str, people: int, runs: int, rng: np.random.Generator) -> tuple[Contrast, ...]:
    """The comparison with noise and the same without, and the true difference and ratio."""
    values, policy, control, share = laws(scenario)
    per_look = people // LOOKS
    rounds = rng.binomial(per_look, share, (runs, LOOKS))
    weights = np.full((runs, LOOKS), 1.0 / LOOKS)
    sides = []
    own, theirs = laws_of(kind, squares=len(values) > 2)
    for number, chances, law in ((per_look - rounds, policy, own), (rounds, control, theirs)):
        counts = rng.multinomial(number, np.broadcast_to(chances, (runs, *chances.shape)))
        sums = counts @ (values - 0.5)
        squares = counts @ (2.0 * values - 1.0) ** 2 if len(values) > 2 else None
        sides.append([side(number, sums, squares, used, weights, rng) for used in (law, NONE)])
    means = [float((chances @ values).mean()) for chances in (policy, control)]
    (noisy, open_policy), (noisy_control, open_control) = sides
    return (
        Contrast(noisy, noisy_control),
        Contrast(open_policy, open_control),
        means[0] - means[1],
        means[0] / means[1],
    )


def open_width(contrast: Contrast) -> np.ndarray:
    """Half width of the usual normal interval without privacy."""
    total = 0.0
    for part in (contrast.policy, contrast.control):
        centre = part.sums / part.rounds
        second = np.where(np.isnan(part.squares), part.rounds, part.squares) / (4.0 * part.rounds)
        total = total + (part.per_sum**2 * part.rounds * np.maximum(second - centre**2, 0.0)).sum(-1)
    return 1.96 * np.sqrt(total)


def covers(ends: tuple[np.ndarray, np.ndarray], truth: float | np.ndarray) -> np.ndarray:
    return (ends[0] <= truth) & (truth <= ends[1])


def main_row(scenario: str, kind: str, people: int, runs: int, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng([SEED, seed])
    contrast, without, truth, true_ratio = world(scenario, kind, people, runs, rng)
    fixed = contrast.interval(0.025)
    base = open_width(without)
    planned, mixture, naive, upper = (np.zeros(runs, dtype=bool) for _ in range(4))
    planned_width = mixture_width = np.zeros(runs)
    for look in range(1, LOOKS + 1):
        seen = contrast.first(look)
        looked = seen.increments
        level = planned_levels(looked, LOOKS, side=0.025)[..., -1]
        truth_now = truth_at(scenario, look)
        ends = seen.interval(level)
        planned |= ~covers(ends, truth_now)
        planned_width = 0.5 * (ends[1] - ends[0])
        ends = seen.interval(any_number_level(looked, side=0.025))
        mixture |= ~covers(ends, truth_now)
        mixture_width = 0.5 * (ends[1] - ends[0])
        sd = np.sqrt(sum(looked.T))
        naive |= np.abs(seen.difference - truth_now) > 1.96 * sd
        low, _ = seen.interval(planned_levels(looked, LOOKS, side=0.05)[..., -1])
        upper |= low > truth_now
    _, ratio_ends = contrast.ratio(0.025)
    guard = contrast.interval(0.05)
    means = [part.interval(0.025) for part in (contrast.policy, contrast.control)]
    true_means = [float((chances @ laws(scenario)[0]).mean()) for chances in laws(scenario)[1:3]]
    pooled = [part.sums.sum(-1) / part.rounds.sum(-1) for part in (contrast.policy, contrast.control)]
    half = 0.5 * (fixed[1] - fixed[0])
    return {
        "part": "main",
        "scenario": scenario,
        "kind": kind,
        "people": people,
        "runs": runs,
        "coverage": float(covers(fixed, truth).mean()),
        "below": float((fixed[1] < truth).mean()),
        "above": float((fixed[0] > truth).mean()),
        "planned_ever_excludes": float(planned.mean()),
        "mixture_ever_excludes": float(mixture.mean()),
        "false_stops": float(upper.mean()),
        "guardrail_low": float((guard[0] <= truth).mean()),
        "guardrail_high": float((guard[1] >= truth).mean()),
        "ratio_coverage": float(covers(ratio_ends, true_ratio).mean()),
        "ratio_unbounded": float(np.isinf(ratio_ends[1]).mean()),
        "policy_coverage": float(covers(means[0], true_means[0]).mean()),
        "control_coverage": float(covers(means[1], true_means[1]).mean()),
        "bias": float(contrast.difference.mean() - truth),
        "half_width": float(half.mean()),
        "planned_half_width": float(planned_width.mean()),
        "mixture_half_width": float(mixture_width.mean()),
        "width_over_open": float(half.mean() / base.mean()),
        "noise_left_out_coverage": float((np.abs(contrast.difference - truth) <= base).mean()),
        "every_look_ever_excludes": float(naive.mean()),
        "pooled_means_bias": float((pooled[0] - pooled[1]).mean() - truth),
        "forecast": forecast(scenario, kind, people),
    }


def truth_at(scenario: str, look: int) -> float:
    """True difference over the first looks."""
    values, policy, control, _ = laws(scenario)
    return float(((policy - control) @ values)[:look].mean())


def forecast(scenario: str, kind: str, people: int) -> float | None:
    """Half width that `half_width` says beforehand, where the share of the control is constant."""
    values, _, control, share = laws(scenario)
    if len(set(share)) > 1:
        return None
    chances = control.mean(axis=0)
    sd = float(np.sqrt(chances @ values**2 - (chances @ values) ** 2))
    policy, own = laws_of(kind, squares=len(values) > 2)
    return half_width(people, share=SHARE, looks=LOOKS, policy_law=policy, control_law=own, sd=sd)


def answered_row(kind: str, people: int, shares: tuple[float, float], runs: int, seed: int) -> dict[str, Any]:
    """Sample-ratio check by answered shares of the policy and of the control."""
    rng = np.random.default_rng([SEED, seed])
    per_look = people // LOOKS
    rounds = rng.binomial(per_look, SHARE, (runs, LOOKS))
    weights = np.full((runs, LOOKS), 1.0 / LOOKS)
    sides = []
    both = zip((per_look - rounds, rounds), shares, laws_of(kind, squares=False), strict=True)
    for number, share, law in both:
        own = NoiseScales(law.laplace / ANSWERED, law.gaussian / ANSWERED)
        told = side(number, rng.binomial(number, share) - 0.5 * number, None, own, weights, rng)
        sides.append(with_noise(told, NoiseScales(0.5 * law.laplace, 0.5 * law.gaussian), rng))
    p = Contrast(*sides).equal()
    return {
        "part": "answered",
        "kind": kind,
        "people": people,
        "policy": shares[0],
        "control": shares[1],
        "runs": runs,
        "found": float((p < 0.001).mean()),
    }


def visits_row(pattern: str, correlation: float, kind: str, runs: int, seed: int) -> dict[str, Any]:
    """Users with several rounds, in a look (`within`) or one in every look (`across`), without effect."""
    rng = np.random.default_rng([SEED, seed])
    users, rate = 4_000, 0.3
    strength = 1.0 / correlation - 1.0
    chance = {"a": rate * strength, "b": (1.0 - rate) * strength}
    weights = np.full((runs, LOOKS), 1.0 / LOOKS)
    shares = {"policy": 1.0 - SHARE, "control": SHARE}
    counts = {"control": rng.binomial(users, SHARE, (runs,))}
    counts["policy"] = users - counts["control"]
    sides = []
    for name, law in zip(("policy", "control"), laws_of(kind, squares=True), strict=True):
        number = counts[name]
        if pattern == "across":
            table = beta_binomial(LOOKS, **chance)
            # given the number of yes in four rounds, every order is equally likely
            patterns = (np.arange(2**LOOKS)[:, None] >> np.arange(LOOKS)) & 1
            yes = patterns.sum(axis=1)
            law_of = table[yes] / np.bincount(yes)[yes]
            drawn = rng.multinomial(number, law_of)
            rounds = np.repeat(number[:, None], LOOKS, axis=1)
            sums = drawn @ (patterns - 0.5)
            most = LOOKS
            squared, squares, people = rounds, rounds.astype(float), rounds
            overlap = rounds * np.arange(LOOKS)
        else:
            most = 5
            visits = rng.multinomial(
                rng.multinomial(number, np.full(LOOKS, 1.0 / LOOKS)), np.array([0.4, 0.25, 0.15, 0.1, 0.1])
            )
            rounds = visits @ np.arange(1, most + 1)
            squared = visits @ np.arange(1, most + 1) ** 2
            sums = np.zeros((runs, LOOKS))
            squares = np.zeros((runs, LOOKS))
            for m in range(1, most + 1):
                drawn = rng.multinomial(visits[..., m - 1], beta_binomial(m, **chance))
                t = 2.0 * np.arange(m + 1) - m
                sums += drawn @ (0.5 * t)
                squares += drawn @ (t**2 / m)
            people, overlap = visits.sum(-1), np.zeros_like(rounds)
        # a user has at most `most` rounds, which multiplies the sensitivity and with it the noise
        wide = NoiseScales(most * law.laplace, most * law.gaussian)
        sides.append(
            side(
                rounds,
                sums,
                squares,
                wide,
                weights,
                rng,
                users=people,
                squared_rounds=squared,
                overlap=overlap,
            )
        )
    contrast = Contrast(*sides)
    ends = contrast.interval(0.025)
    as_visits = Contrast(*(replaced(part) for part in sides)).interval(0.025)
    return {
        "part": "visits",
        "pattern": pattern,
        "correlation": correlation,
        "kind": kind,
        "users": users,
        "share": shares["control"],
        "runs": runs,
        "coverage": float(covers(ends, 0.0).mean()),
        "half_width": float(0.5 * (ends[1] - ends[0]).mean()),
        "visits_as_users_coverage": float(covers(as_visits, 0.0).mean()),
    }


def replaced(part: Side) -> Side:
    """Return these sums as if every round were of another user."""
    fields = {name: getattr(part, name) for name in Side.__dataclass_fields__ if name != "moments"}
    none = np.full_like(part.sums, np.nan)
    return Side(**{**fields, "squares": none, "squared_rounds": part.rounds, "overlap": 0.0 * part.rounds})


def beta_binomial(m: int, *, a: float, b: float) -> np.ndarray:
    """Chances (m + 1,) of each number of yes in m rounds of one user."""
    from scipy.special import betaln, gammaln

    k = np.arange(m + 1)
    log = gammaln(m + 1) - gammaln(k + 1) - gammaln(m - k + 1) + betaln(k + a, m - k + b) - betaln(a, b)
    chance = np.exp(log)
    return chance / chance.sum()


CELLS = np.array([0.3, 0.25, 0.2, 0.12, 0.08, 0.05])
"""Shares of users in six cells of a private column."""

EFFECTS = {"none": np.zeros(6), "some": np.array([0.0, 0.0, 0.0, 0.05, 0.1, -0.05])}


def segments_row(effects: str, kind: str, metric: str, people: int, runs: int, seed: int) -> dict[str, Any]:
    """Six cells; yes/no outcomes around 30%, or `revenue` with 5% buyers; counts have the weight 1/2.

    Sums are released once, after all looks. The control spends half its epsilon and the policy group a share
    of .05, each on this readout alone.
    """
    rng = np.random.default_rng([SEED, seed])
    squares = metric == "revenue"
    one, two = (2.5, (5.0 / 8.0 + 0.5) ** 0.5) if squares else (2.0, 1.0)
    z = np.append(0.0, amounts()[0]) if squares else np.array([0.0, 1.0])
    share, extra = np.full(1, SHARE), EFFECTS[effects] * (0.3 if squares else 1.0)
    base = np.full(6, 0.06 if squares else 0.3)
    tables = []
    for part, rates, spent in ((1.0 - SHARE, base + extra, "policy"), (SHARE, base, "control")):
        chance = amounts()[1] if squares else np.ones(1)
        law_of = np.column_stack([1.0 - rates, rates[:, None] * chance]) * CELLS[:, None]
        number = rng.binomial(people, part, runs)
        drawn = rng.multinomial(number, law_of.ravel() / law_of.sum()).reshape(runs, 6, 1, -1)
        if spent == "control":
            law = NoiseScales(laplace=one / (0.5 * EPSILON))
        elif kind == "pure":
            law = NoiseScales(laplace=one / (EPSILON * POLICY_SHARE))
        else:
            law = NoiseScales(gaussian=two / (gaussian_mu(EPSILON, DELTA) * POLICY_SHARE**0.5))
        counts, wide = (
            NoiseScales(2.0 * law.laplace, 2.0 * law.gaussian),
            NoiseScales(4.0 * law.laplace, 4.0 * law.gaussian),
        )
        shape = (runs, 6, 1)
        tables.append(
            CellTable(
                drawn.sum(-1) + noise(rng, counts, shape),
                drawn @ (z - 0.5) + noise(rng, law, shape),
                drawn @ (2.0 * z - 1.0) ** 2 + noise(rng, wide, shape) if squares else np.full(shape, np.nan),
                counts,
                law,
                wide,
            )
        )
    contrast, enough = cell_contrast(*tables, share)
    truth = extra * float(amounts()[0] @ amounts()[1] if squares else 1.0)
    low, high = contrast.interval(0.025 / 6)
    inside = ((low <= truth) & (truth <= high)) | ~enough
    alone = contrast.interval(0.025)
    single = (alone[0] <= truth) & (truth <= alone[1])
    adjusted = holm(np.where(enough, contrast.equal(), 1.0))
    return {
        "part": "segments",
        "metric": metric,
        "effects": effects,
        "kind": kind,
        "people": people,
        "runs": runs,
        "all_covered": float(inside.all(-1).mean()),
        "one_cell_coverage": float(single[enough].mean()) if enough.any() else None,
        "false_finding": float(((adjusted < 0.05) & (truth == 0.0)).any(-1).mean()),
        "enough": float(enough.mean()),
        "half_width": [round(float(width), 5) for width in 0.5 * (high - low).mean(axis=0)],
    }


WORLD = np.array([[0.2, 0.35, 0.15], [0.25, 0.2, 0.4], [0.3, 0.3, 0.3], [0.35, 0.3, 0.5]])
"""Chances of yes in four regions, each with a quarter of the users, of `ARMS`; the first is the control's."""

REGIONS, ARMS = np.array(["north", "east", "south", "west"]), ("nothing", "mail", "call")
ROUNDS, POLICY_SEED = 2_000, 7_610_000
PEOPLE_SERVED, COST_RUNS, COST_SEED = 10_000, 200, 7_620_000


def policy_of(
    horizon: int, epsilon: float, seed: int, *, visits: int = 1, readout: dpb.Readout | None, **known: Any
) -> dpb.central.GPBandit:
    """The policy. The secret key of the digests follows from the seed, so that runs can be repeated."""
    with patch.object(secrets, "token_bytes", np.random.default_rng([seed, 1]).bytes):
        return dpb.central.GPBandit(
            **known,
            horizon=horizon,
            privacy=dpb.JointDP(epsilon=epsilon, delta=DELTA, rounds_per_user=visits),
            seed=seed,
            noise=dpb.SimulatedNoise(seed),
            readout=readout,
        )


def policy_run(epsilon: float, visits: int, seed: int) -> tuple[tuple[Look, ...], np.ndarray, Any]:
    """Released looks, true differences (LOOKS,) over the first looks, and the last readout of the reward.

    A user has one region. With chance 1/2 the same uniform number decides on yes at every return. The
    decisions of a batch rest on the same releases. The batch's truth is a mean over regions: the known mean
    of the arms that the policy group got there, minus that of the control's arm.
    """
    rng, readout = np.random.default_rng(seed), dpb.Readout(control=dpb.Control(arm=ARMS[0]))
    policy = policy_of(
        ROUNDS,
        epsilon,
        seed,
        visits=visits,
        readout=readout,
        contexts=dpb.Schema(region=dpb.Categories(REGIONS.tolist())),
        arms=ARMS,
        reward_range=(0, 1),
    )
    users = rng.permutation(np.repeat(np.arange(ROUNDS // visits), visits))
    region = rng.integers(0, len(REGIONS), ROUNDS // visits)[users]
    again = rng.random(ROUNDS // visits)[users]
    coins = np.where(rng.random(ROUNDS) < 0.5, again, rng.random(ROUNDS))
    looks = [ROUNDS * look // LOOKS for look in range(1, LOOKS + 1)]
    earned, served, start = np.zeros(LOOKS), np.zeros(LOOKS), 0
    for end in sorted({*policy.blocks, *looks}):
        rows = np.arange(start, end)
        decided = policy.ask_batch({"region": REGIONS[region[rows]]}, users=users[rows].tolist())
        means = WORLD[region[rows], decided.indices]
        policy.tell_batch(decided.ids, (coins[rows] < means).astype(np.float64))
        own = np.array(decided.groups) == "policy"
        place, here = np.searchsorted(looks, end), region[rows][own]
        earned[place] += own.sum() * (np.bincount(here, means[own]) / np.bincount(here)).mean()
        served[place] += own.sum()
        start = end
    truths = np.cumsum(earned / served - WORLD[:, 0].mean()) / np.arange(1, LOOKS + 1)
    return policy.released_looks(), truths, policy.readout().reward


def released(runs: list[tuple[Look, ...]], name: str) -> Side:
    """Rewards (runs, LOOKS) of one group as the policies released them."""
    groups = [[getattr(look, name) for look in looks] for looks in runs]

    def of(read: Callable[[Group], float]) -> np.ndarray:
        return np.array([[read(group) for group in looks] for looks in groups], dtype=np.float64)

    return Side(
        weights=np.full((len(runs), LOOKS), 1.0 / LOOKS),
        rounds=of(lambda group: group.rounds),
        squared_rounds=of(lambda group: group.squared_rounds),
        overlap=of(lambda group: group.overlap),
        users=of(lambda group: group.users),
        sums=of(lambda group: group.sums[0]),
        squares=of(lambda group: group.squares[0]),
        laplace=of(lambda group: group.sum_laws[0].laplace),
        gaussian=of(lambda group: group.sum_laws[0].gaussian),
        square_sd=of(lambda group: group.square_laws[0].sd),
    )


def policy_row(epsilon: float, visits: int, runs: int) -> dict[str, Any]:
    found = [policy_run(epsilon, visits, POLICY_SEED + run) for run in range(runs)]
    looks, truths, rewards = zip(*found, strict=True)
    truth, excluded = np.array(truths), np.zeros(runs, dtype=bool)
    contrast = Contrast(released(looks, "policy"), released(looks, "control"))
    for look in range(1, LOOKS + 1):
        seen = contrast.first(look)
        ends = seen.interval(planned_levels(seen.increments, LOOKS, side=0.025)[..., -1])
        excluded |= ~covers(ends, truth[:, look - 1])
    fixed = np.array([one.interval for one in rewards]).T
    always = np.array([one.always for one in rewards]).T
    values = {
        "covered": covers((fixed[0], fixed[1]), truth[:, -1]),
        "always_covered": covers((always[0], always[1]), truth[:, -1]),
        "excluded": excluded,
        "half_width": 0.5 * (fixed[1] - fixed[0]),
        "bias": np.array([one.difference for one in rewards]) - truth[:, -1],
        "truth": truth[:, -1],
    }
    row: dict[str, Any] = {"part": "policy", "epsilon": epsilon, "visits": visits, "runs": runs}
    for name, value in values.items():
        one = Estimate.of(value.astype(np.float64))
        row |= {name: one.mean, f"{name}_error": one.standard_error}
    return row


def cost_run(seed: int) -> tuple[float, float]:
    """Mean reward of the policy group with a readout, and of the same people served without one."""
    table = cps_income(seed=seed, horizon=PEOPLE_SERVED)
    known = {"contexts": table.schema, "arms": table.arms.labels, "reward_range": table.reward_range}
    readout = dpb.Readout(control=dpb.Control(arm=table.arms.labels[0]))
    got, own = np.empty((2, PEOPLE_SERVED)), np.zeros(PEOPLE_SERVED, dtype=np.bool_)
    for place, asked in enumerate((readout, None)):
        policy, start = policy_of(PEOPLE_SERVED, EPSILON, seed, readout=asked, **known), 0
        for end in sorted({*policy.blocks, PEOPLE_SERVED}):
            decided = policy.ask_batch(table.people(start, end), users=table.users(start, end))
            got[place, start:end] = table.rewards(start, end, decided.indices)
            policy.tell_batch(decided.ids, got[place, start:end])
            if asked:
                own[start:end] = np.array(decided.groups) == "policy"
            start = end
    with_readout, without = got[:, own].mean(axis=1).tolist()
    return with_readout, without


def cost_row(runs: int) -> dict[str, Any]:
    found = np.array([cost_run(COST_SEED + run) for run in range(runs)])
    cost = Estimate.of(found[:, 1] - found[:, 0])
    return {
        "part": "cost",
        "people": PEOPLE_SERVED,
        "epsilon": EPSILON,
        "runs": runs,
        "with_readout": float(found[:, 0].mean()),
        "without": float(found[:, 1].mean()),
        "cost": cost.mean,
        "cost_error": cost.standard_error,
    }


LOCAL_RATES = {"rare": (0.012, 0.01), "tenth": (0.1, 0.1), "small": (0.305, 0.3), "half": (0.5, 0.5)}
"""Mean outcomes of the policy and of the control group."""

LOCAL_EPSILONS, LOCAL_TIMES, LOCAL_SEED, LOST = (1.0, 4.0), 20, 7_630_000, 0.05


def local_spec(epsilon: float, people: int) -> dpb.local.ReadoutSpec:
    """A readout of two arms without contexts that matter."""
    promise = dpb.LocalDP(epsilon=epsilon)
    target = dpb.local.Spec(contexts=dpb.Box([0], [1]), arms=range(2), privacy=promise)
    version = dpb.local.Server(target).publish()
    return dpb.local.ReadoutSpec(target=target, policy=version, control=0, privacy=promise, n_users=people)


def local_row(scenario: str, epsilon: float, people: int, runs: int, seed: int) -> dict[str, Any]:
    """One row of `local`: coverage, widths, and the check of the groups' sizes."""
    rng, rates = np.random.default_rng([LOCAL_SEED, seed]), np.array(LOCAL_RATES[scenario][::-1])
    spec, step = local_spec(epsilon, people), people // LOCAL_TIMES
    p, q = map(float, spec.protocol.bit.rates)
    control = rng.binomial(step, spec.share, (LOCAL_TIMES, runs))
    reports = np.cumsum(np.stack([control, step - control], axis=-1), axis=0)
    each = np.diff(reports, axis=0, prepend=0)
    ones = np.cumsum(rng.binomial(each, q + (p - q) * rates), axis=0)
    truth, excluded = rates[1] - rates[0], np.zeros(runs, dtype=bool)
    for time in range(LOCAL_TIMES):
        _, _, always = outcome_intervals(spec, reports[time], ones[time])
        excluded |= ~covers(always, (p - q) * truth)
    contrast, fixed, always = outcome_intervals(spec, reports[-1], ones[-1])
    found = contrast.difference / (p - q)
    means = np.clip((ones[-1] / reports[-1] - q) / (p - q), 0.0, 1.0)
    crude = 1.96 * np.sqrt((means * (1.0 - means) / reports[-1]).sum(-1))
    plan = plan_local_readout(users=people, epsilon=epsilon, rate=float(rates[0]))
    lost = reports[-1] - np.stack([rng.binomial(reports[-1, :, 0], LOST), 0 * control[0]], axis=-1)
    return {
        "part": "local",
        "scenario": scenario,
        "epsilon": epsilon,
        "people": people,
        "share": spec.share,
        "runs": runs,
        "coverage": float(covers(fixed, (p - q) * truth).mean()),
        "ever_excludes": float(excluded.mean()),
        "bias": float(found.mean() - truth),
        "half_width": float(0.5 * (fixed[1] - fixed[0]).mean() / (p - q)),
        "always_half_width": float(0.5 * (always[1] - always[0]).mean() / (p - q)),
        "forecast": plan.half_width,
        "always_forecast": plan.always,
        "without_privacy": plan.without_privacy,
        "randomisation_left_out_coverage": float((np.abs(found - truth) <= crude).mean()),
        "false_alarms": float((group_sizes(spec, reports[-1]) < SAMPLE_RATIO_THRESHOLD).mean()),
        "unequal_found": float((group_sizes(spec, lost) < SAMPLE_RATIO_THRESHOLD).mean()),
    }


def local_jobs(runs: int) -> list[Any]:
    rows = [(one, e, people) for one in LOCAL_RATES for e in LOCAL_EPSILONS for people in PEOPLE]
    return [delayed(local_row)(*row, runs, number) for number, row in enumerate(rows)]


def jobs_of(part: str, runs: int) -> list[Any]:
    """Return the work of one part: `simulated`, `policy`, `cost` or `local`."""
    if part == "local":
        return local_jobs(runs)
    if part == "policy":
        return [
            delayed(policy_row)(epsilon, visits, runs // 100) for epsilon in (8.0, 1.0) for visits in (1, 2)
        ]
    return [delayed(cost_row)(COST_RUNS)] if part == "cost" else jobs(runs)


def part_of(row: dict[str, Any]) -> str:
    """Return the part that makes a row."""
    return row["part"] if row["part"] in PARTS else "simulated"


def jobs(runs: int) -> list[Any]:
    found: list[Any] = []
    for scenario in SCENARIOS:
        for kind in KINDS:
            found += [
                delayed(main_row)(scenario, kind, people, runs, len(found) + i)
                for i, people in enumerate(PEOPLE)
            ]
    for kind in KINDS:
        for people in PEOPLE:
            for shares in ((0.85, 0.85), (0.9, 0.8)):
                found.append(delayed(answered_row)(kind, people, shares, runs, len(found)))
        for metric in ("yes", "revenue"):
            for effects in EFFECTS:
                for people in (10_000, 100_000):
                    found.append(delayed(segments_row)(effects, kind, metric, people, runs // 4, len(found)))
        for pattern in ("within", "across"):
            for correlation in (0.05, 0.5, 0.95):
                found.append(delayed(visits_row)(pattern, correlation, kind, runs, len(found)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--only", choices=PARTS, help="rows of other parts in --out are kept")
    asked = parser.parse_args()
    parts = [asked.only] if asked.only else PARTS
    rows = Parallel(n_jobs=asked.jobs, verbose=5)(
        [one for part in parts for one in jobs_of(part, asked.runs)]
    )
    # rows of other parts are read now, so that parts may run at the same time
    kept = json.loads(asked.out.read_text()) if asked.only else []
    rows += [row for row in kept if part_of(row) != asked.only]
    rows.sort(key=lambda row: PARTS.index(part_of(row)))
    asked.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
