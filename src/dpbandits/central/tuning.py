"""`GPTuning`: options of a `GPBandit` that most users leave at their defaults."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from dpbandits import _checks
from dpbandits._calls import worded
from dpbandits._config import Configured
from dpbandits._typing import FloatArray
from dpbandits.central.arguments import check_kinds
from dpbandits.central.schedule import (
    check_boundaries,
    check_half_life,
    default_blocks,
    fading_blocks,
    open_ended_blocks,
)
from dpbandits.errors import InvalidParameter
from dpbandits.models import features
from dpbandits.models.features import Features
from dpbandits.policy.deadlines import check_delay, delay_from_config
from dpbandits.privacy.prefix_sums import Factor, factor_for

__all__ = ["LONGEST_HORIZON", "GPTuning", "KindName"]

KindName = Literal["features", "cells", "marginals"]
"""Name of a kind of release; see `GPTuning.release`."""

LONGEST_HORIZON = 1 << 22
"""Largest number of rounds that int64 sums allow, which is the horizon when none is given."""


@worded
@dataclass(frozen=True, kw_only=True, eq=False)
class GPTuning(Configured):
    """Options of a `GPBandit` that most users leave at their defaults.

    All are public and fixed before any data.

    Args:
        release: Kind of release. None chooses by public numbers
            (`dpbandits.central.choice_of_kind.kind_for`), and `GPBandit.diagnostics` names the choice. Each
            kind has its own defaults for the options below, and ignores options that it does not use.

            - "features": matrix mechanism on sums of features with Gaussian noise, for any domain; see
              `dpbandits.central.feature_release`.
            - "cells": rewards summed in cells, pure epsilon, for candidates in a domain of few dimensions;
              see `dpbandits.central.cells`.
            - "marginals": for contexts and arms, tables over few columns at a time, pure epsilon if delta is
              0; see `dpbandits.central.marginals`.
        n_features: Number of features in the Mercer feature map of the kernel over the domain, or over
            contexts if there are arms. More features fit finer functions and carry more noise. Default 20,
            for contexts 8, in cells 16. If there are more than 32, over a box of up to three columns,
            features that this number of rounds cannot resolve keep their prior law
            (`central.regression.resolved`).
        features: Another feature map with norm at most 1, which replaces the kernel's. For contexts and arms
            its input is the encoded context, with the arm's code as last column.
        decision_sets: "private" protects decision sets and rewards. "public" means that anyone may know which
            decision set each user had: only rewards are protected, and the Gram matrix is exact. If every
            user is offered the whole domain, only rewards are private, and "public" avoids noise on the Gram.
        blocks: Round indices at which to release, strictly increasing; default `default_blocks`.
        reporting_delay: Time from a block's last ask to its release, in which rewards may still arrive: a
            number of rounds, or a `timedelta`. `dpbandits.policy.deadlines` says how to choose it and what it
            costs. With a `timedelta`, asks happen at the wall clock's time or at `ask(..., at=...)`, and
            `lag` must be 0.
        lag: Number of rounds after a release is due that the earlier releases still answer. Meanwhile noise
            is drawn and the posterior is fitted in another thread. The release takes effect exactly after
            `lag` rounds: an ask that comes before the work is done waits. With 0 the ask that is due does the
            work.
        factor: Mixing matrix of the blocks; default the one that `factor_for` chooses.
        public_decision_sets: Expected law of users' candidates, known without their data: example sets of
            shape (S, n, d), or "whole" if users bring no candidates. With "whole" each user is offered the
            whole domain, and candidates are refused. None means that no law is known. Uniform sets are then
            expected, and releases correct for other sets as far as they can. The automatic choice then avoids
            cells, which cannot correct. A wrong law costs reward, never privacy.
        prior_variance: Prior variance of the function for a kernel of variance 1, in squared widths of the
            reward range. A weight of features with `scale` s has s^2 times as much. Default .2, in cells .25.
        forget: Half-life in rounds, for non-stationary rewards: the weight of a release, and of public data,
            halves after this many rounds. Blocks are then short and have fresh noise without mixing, unless
            `blocks` and `factor` say otherwise. Discounting is computed from releases and costs no privacy;
            earlier releases remain public. None means no discounting.
        census: True if the first block of marginal tables only counts users in bins of each range. Ranges
            that users fill only in part then get finer bins where users are (see
            `dpbandits.central.marginals.release`). The users of this block are answered at random. It is not
            available with `forget` or an unknown horizon. None makes a census if `blocks` and `forget` are
            left out, there is a range, and the census takes at most 4% of a known horizon.
        longest_block: Largest number of rounds of a block of marginal tables, for policies whose arms change
            (`GPBandit.add_arm`): arms change at releases. The default schedule has long late blocks. With
            `longest_block`, blocks grow up to this length and keep it. It is instead of `blocks`.
        thompson_scale: Factor on posterior deviations in Thompson sampling; 0 is greedy. With a known
            horizon, and without `forget`, marginal tables also multiply deviations by the share of releases
            still to come. Default .25, in cells .2.

    Raises:
        InvalidParameter: A number is out of its range.

    Example:
        A law of candidates that is known without users' data. Each visitor brings a context, age as a share
        of its range, and is offered eleven prices. A census says that visitors are mostly young:

        >>> import numpy as np
        >>> ages, prices = np.random.default_rng(0).beta(2, 5, size=(400, 1)), np.linspace(0, 1, 11)
        >>> sets = np.stack(np.broadcast_arrays(ages, prices), axis=-1)
        >>> sets.shape
        (400, 11, 2)
        >>> tuning = GPTuning(public_decision_sets=sets)
    """

    config_parsers: ClassVar[Mapping[str, Any]] = {
        "factor": Factor.from_config,
        "features": features.from_config,
        "public_decision_sets": lambda sets: sets if isinstance(sets, str) else np.asarray(sets),
        "reporting_delay": delay_from_config,
    }

    release: KindName | None = None
    n_features: int | None = None
    features: Features | None = None
    decision_sets: Literal["private", "public"] = "private"
    blocks: Sequence[int] | None = None
    reporting_delay: int | timedelta = 0
    lag: int = 0
    factor: Factor | None = None
    public_decision_sets: FloatArray | Literal["whole"] | None = None
    prior_variance: float | None = None
    thompson_scale: float | None = None
    forget: int | None = None
    census: bool | None = None
    longest_block: int | None = None

    def __post_init__(self) -> None:
        if self.release is not None:
            _checks.one_of(self.release, get_args(KindName), name="release")
        check_kinds(features=self.features, optional=("features",))
        _checks.one_of(self.decision_sets, ("private", "public"), name="decision_sets")
        if isinstance(self.public_decision_sets, str):
            _checks.one_of(self.public_decision_sets, ("whole",), name="public_decision_sets")
        if self.prior_variance is not None:
            _checks.scale(self.prior_variance, name="prior_variance", largest=_checks.TUNABLE)
        if self.thompson_scale is not None:
            _checks.number(
                self.thompson_scale, name="thompson_scale", exclusive=False, maximum=_checks.TUNABLE
            )
        if self.n_features is not None:
            _checks.integer(self.n_features, name="n_features")
        if self.census is not None:
            _checks.an(self.census, bool, name="census", pass_="True or False")
        if self.longest_block is not None:
            _checks.integer(self.longest_block, name="longest_block")
            if self.blocks is not None:
                raise InvalidParameter("longest_block: is instead of blocks: pass one of them")
        check_half_life(self.forget)
        check_delay(self.reporting_delay)
        if _checks.integer(self.lag, name="lag", minimum=0) and isinstance(self.reporting_delay, timedelta):
            raise InvalidParameter("lag: is counted in rounds, and needs a reporting_delay in rounds")

    def schedule(self, horizon: int | None) -> tuple[tuple[int, ...], Factor]:
        """Return the ends of the blocks and their mixing matrix, for a policy of this horizon."""
        rounds = LONGEST_HORIZON if horizon is None else horizon
        blocks = check_boundaries(self.blocks, rounds) if self.blocks is not None else None
        if blocks is None:
            blocks = open_ended_blocks(rounds) if horizon is None else default_blocks(rounds)
            blocks = fading_blocks(blocks, self.forget, longest=rounds)
        mixed_for = None if self.forget is not None else horizon
        factor = factor_for(blocks, horizon=mixed_for) if self.factor is None else self.factor
        if factor.n_blocks != len(blocks):
            raise InvalidParameter(
                f"factor mixes {factor.n_blocks} blocks, expected the {len(blocks)} of the schedule"
            )
        return blocks, factor
