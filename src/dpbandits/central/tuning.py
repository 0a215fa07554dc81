"""What of a `GPBandit` most people leave as it is: `GPTuning`."""

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
"""What is released of a block; see `GPTuning.release`."""

LONGEST_HORIZON = 1 << 22
"""What int64 sums hold: the horizon when none is given."""


@worded
@dataclass(frozen=True, kw_only=True, eq=False)
class GPTuning(Configured):
    """What of a `GPBandit` most people leave as it is; all of it is public and fixed before any data.

    Args:
        release: the kind of release: "features" (mixed sums with Gaussian noise, for any domain; see
            `dpbandits.central.feature_release`), "cells" (rewards summed in cells, pure epsilon, for
            candidates in a domain of few dimensions; see `dpbandits.central.cells`) or, of contexts and
            arms, "marginals" (tables of few columns at a time, pure epsilon where delta is 0; see
            `dpbandits.central.marginals`). None for the kind that `dpbandits.central.gp_bandit.kind_for`
            takes by public numbers, which `GPBandit.diagnostics` names. Every kind has defaults of its own
            for what is left out here, and ignores what it has no use for.
        n_features: size of the Mercer feature map of the kernel over the domain, or over contexts where there
            are arms; more of them fit finer functions and carry more noise. Default 20, of contexts 8, in
            cells 16. Of more than 32 over a box of up to three columns, those that so many rounds cannot tell
            anything about are left as they were believed to be (`central.regression.resolved`).
        features: another feature map with norm at most 1, instead of a kernel; of encoded contexts with the
            arm's code as last column.
        decision_sets: "private" (decision sets and rewards are protected), or "public" (everybody may
            know what every user was offered; only rewards are protected and the Gram is exact). Where
            everybody is offered the whole domain nothing but rewards is private, and "public" needs no noise
            for the Gram.
        blocks: round indices at which to release, strictly increasing; default `default_blocks`.
        reporting_delay: what a block's release waits for its last rewards, from the block's last ask on:
            rounds, or a time. How to choose it, and what it costs: `dpbandits.policy.deadlines`. With a time,
            asks take place at the wall clock's or at `ask(..., at=...)`, and there is no `lag`.
        lag: rounds that go on being answered by the releases before, from there on, while noise is drawn and
            the posterior fitted beside the answers. A release takes effect where it ends, however long the
            work took: an ask that comes sooner waits. With 0 the ask that is due does the work.
        factor: how the blocks are mixed; default the one that `factor_for` takes.
        public_decision_sets: the law of the candidates that people are expected to bring, known without their
            data: (S, n, d) example sets; or "whole" where nobody brings candidates, so that each is offered
            the whole domain and candidates are refused. None where no law is known: uniform sets are
            expected, releases correct for it as far as they can, and the automatic choice takes no cells,
            which cannot. A wrong law costs reward, never privacy.
        prior_variance: of the function where the kernel's variance is 1, in squared widths of the reward
            range; a weight of features with `scale` s has s^2 times as much. Default .2, in cells .25.
        forget: half-life in rounds, where people change: a release counts for half as much so many rounds
            after its block, and public data after so many rounds. Blocks are then short, and each has fresh
            noise that is mixed with no other's, unless `blocks` and `factor` say otherwise. What was released
            stays released; that it counts for less is computed from releases and costs no privacy. None where
            the past stays true.
        census: whether the first block of marginal tables counts people in bins of each range and nothing
            else; ranges that people fill to a small part only are then cut where people are (see
            `dpbandits.central.marginals.release`). Its people are answered at random. It is refused with
            `forget` or an unknown horizon. None makes a census if `blocks` and `forget` are left out, there
            is a range, and the census takes at most 4% of a known horizon.
        thompson_scale: multiplies posterior deviations in Thompson draws; 0 is greedy. With a known horizon,
            and without `forget`, marginal tables also multiply them by the share of releases still to come.
            Default .25, in cells .2.

    Raises:
        InvalidParameter: a number out of its range.

    Example:
        A law of candidates that is known without people's data. Each visitor brings a context, age as a share
        of its range, and is offered eleven prices; a census says that visitors are mostly young:

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
        check_half_life(self.forget)
        check_delay(self.reporting_delay)
        if _checks.integer(self.lag, name="lag", minimum=0) and isinstance(self.reporting_delay, timedelta):
            raise InvalidParameter("lag: is counted in rounds, and needs a reporting_delay in rounds")

    def schedule(self, horizon: int | None) -> tuple[tuple[int, ...], Factor]:
        """Blocks and how they are mixed, as a policy of this horizon uses them."""
        rounds = LONGEST_HORIZON if horizon is None else horizon
        blocks = check_boundaries(self.blocks, rounds) if self.blocks is not None else None
        if blocks is None:
            blocks = open_ended_blocks(rounds) if horizon is None else default_blocks(rounds)
            blocks = fading_blocks(blocks, self.forget, longest=rounds)
        mixed_for = None if self.forget is not None else horizon
        factor = factor_for(blocks, horizon=mixed_for) if self.factor is None else self.factor
        if factor.n_blocks != len(blocks):
            raise InvalidParameter(
                f"factor mixes {factor.n_blocks} blocks and the schedule has {len(blocks)}"
            )
        return blocks, factor
