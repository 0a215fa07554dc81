"""A Gaussian-process bandit under joint differential privacy that learns from a few noisy releases.

The policy makes a release at each of a few block boundaries, which are fixed in advance. All its answers are
computed from these releases. A `Kind` (`kinds.py`) defines the content of a release. This module has the
parts that all kinds share: asks and tells, blocks, releases in another thread, the log of releases, saving,
publishing and public data.

Privacy: (epsilon, delta)-joint DP. The unit is one user's whole contribution: decision sets and rewards of
at most `rounds_per_user` rounds. A round belongs to the block of its ask, whether or not its reward arrives.
Only the kind's `draw` adds noise to raw data.
"""

import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Unpack

import numpy as np

from dpbandits import _checks, domains
from dpbandits._calls import caller_level
from dpbandits._memory import check_fits
from dpbandits._threads import one_thread
from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.central.arguments import check_kinds, tuned
from dpbandits.central.arm_changes import ARMS, HELD_TWICE, ArmChange, ArmHistory, in_effect
from dpbandits.central.beginning import Beginning, observations_of
from dpbandits.central.choice_of_kind import KINDS, kind_for
from dpbandits.central.foresight import FLAT, FLAT_POINTS, NOTHING_TO_LEARN, flat_column
from dpbandits.central.kinds import BlockRows, Past, Setup
from dpbandits.central.marginals.release import MarginalRelease
from dpbandits.central.marginals.statement import changed_arms
from dpbandits.central.published_function import PublishedPosterior
from dpbandits.central.readout.budget import for_learning
from dpbandits.central.readout.declared import Readout
from dpbandits.central.readout.policy import ReadoutPolicy
from dpbandits.central.readout.run import ReadoutRun, check_supported
from dpbandits.central.regression import REWARD_VARIANCE
from dpbandits.central.statement import RELEASE_NOTE, WHOLE_DOMAIN, Setting, on_a_public_clock
from dpbandits.central.tuning import LONGEST_HORIZON, GPTuning
from dpbandits.domains import RewardRange
from dpbandits.domains.arms import Label
from dpbandits.errors import (
    CorruptState,
    InvalidData,
    InvalidParameter,
    NothingReleased,
    NothingToLearn,
    ProtocolError,
)
from dpbandits.models.features import Features, Placed, block_entries
from dpbandits.models.kernels import Kernel
from dpbandits.models.noisy_regression import WeightPosterior
from dpbandits.policy import PolicyOptions
from dpbandits.policy.beside import Beside
from dpbandits.policy.deadlines import Deadlines, public_time
from dpbandits.privacy.definitions import JointDP, counted, warn_if_delta_large
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.privacy.noise import NoiseSource
from dpbandits.privacy.release_terms import Release
from dpbandits.privacy.sentences import in_order
from dpbandits.state.holder import in_turn
from dpbandits.state.release_log import ReleaseLog
from dpbandits.tables import Actions, Products, Schema
from dpbandits.tables.columns import Column
from dpbandits.tables.windows import Window

__all__ = ["GPBandit", "GPTuning"]


PUBLIC_POINTS = 512
"""Number of points of the domain at which diagnostics compare predictions with the reward range."""

BEYOND, BEYOND_SDS = 0.5, 2.0
"""Thresholds for the warning about predictions outside the reward range.

Diagnostics warn if a prediction is outside by more than the first number of widths of the range, and by more
than the second number of standard deviations. On 16 tuning seeds in eight settings, with candidates of the
expected law, predictions were outside by at most 0.37 widths and 1.74 deviations. With contexts of visitors
in the candidates, predictions of the cell release were outside by up to 5.7 widths and 20.6 deviations
(`reproduction/tuning/foresight.py`).
"""

OUT_OF_RANGE = (
    "Predictions from {lowest:.3g} to {highest:.3g} contradict the reward range {low:g} to {high:g}. The "
    "releases do not fit the model: {cause}."
)

CAUSE = "candidates may follow another law than public_decision_sets, or the kernel may be wrong"
CAUSE_OF_ACTIONS = (
    "available= may have left out actions that the policy would have chosen, or outcomes may jump between "
    "neighbouring actions"
)

HARDLY_LEARNS = (
    "Too little can be learned from {facts}. What is learned will correlate by about {correlation:.2f} with "
    "a typical reward function, on average over runs (below {least:g}), and decisions will keep about that "
    "share of a best decision's advantage. {advice}"
)

LATE_RELEASES = 20
"""A late change of arms plans, or suggests, blocks of the horizon divided by this number."""

TAKE_MORE = "Take more rounds, a larger epsilon, fewer arms or fewer columns{or_kernel}."

KERNEL_TOO_SMALL = (
    "The kernel's variance is {variance:g}, so its features are small beside the noise. Pass a kernel of "
    "variance 1, and GPTuning(prior_variance=...) for a narrower prior."
)

FEWER = "take fewer columns, arms, features (GPTuning(n_features=...)) or blocks"

SMALL_KERNEL = 0.1
"""Variance of a kernel below which the warning `NothingToLearn` names it as the cause."""

HARDLY_VARIES = (
    "kernel: only {varies:.1%} of its variance lies in differences between points of the domain, so it "
    "describes a nearly constant function. A lengthscale is a share of each range of a box: pass 0.3, not "
    "0.3 times the range."
)


_Made = tuple[Past, WeightPosterior | None]


@dataclass(eq=False, repr=False)
class _PendingRelease:
    """Release that another thread makes. If fitting fails, its noise is not drawn again.

    Attributes:
        block: Index of the block.
        rows: Rows of the block, as `RoundBook.block` returns them.
        done: Future of the release; None if the work has not begun.
        drawn: Past with this release; None before it is drawn.
        noise_position: Position of a simulated noise source after the draw.
    """

    block: int
    rows: BlockRows
    done: Future[_Made] | None = None
    drawn: Past | None = None
    noise_position: int = 0


class GPBandit(ReadoutPolicy):
    """Gaussian-process bandit that learns from a few noisy releases.

    Args:
        contexts: Public columns of a user's context. An ask passes a context and returns one of the `arms`.
        arms: Labels of the arms: strings, numbers or booleans, all different. Or `Products(table, ...)`, many
            arms with public features, whose effects all arms share.
        actions: Numbers to choose from, instead of arms: `Range(1, 20, steps=20)`, a schema of one to three
            such columns, or `Actions(schema, value=...)`. Rewards are then outcomes, and the value of the
            predicted outcome is maximised.
        domain: Public set of actions, instead of contexts and arms. An ask passes candidates from it, or
            nothing to choose from the whole domain.
        reward_range: Public range (low, high) of rewards.
        horizon: Total number of rounds; noise is calibrated to the blocks they are divided into. None for an
            unknown horizon: every block then gets fresh noise (parallel composition), which costs more.
        privacy: Promise: epsilon, delta and `rounds_per_user`.
        kernel: Public model of the reward function. It is over the columns of the domain, or over encoded
            contexts (ranges in [0, 1], categories as codes), and then separate for every arm. A lengthscale
            is a share of each range of a box or context: 0.3 is three tenths of the range. Default for a box:
            `models.features.people.box_kernel`. Contexts without a kernel use marginal tables, which learn
            main effects and interactions (`dpbandits.central.marginals`). The release "features" with
            contexts uses `models.features.people.context_kernel` by default.
        tuning: Further options; see `GPTuning`.
        readout: Private comparison with a control group, for contexts and arms with labels.
        **options: `seed`, `noise`, `account`; see `PolicyOptions`.

    Raises:
        InvalidParameter: Arguments do not fit together.

    Warns:
        NothingToLearn: Public numbers alone show that hardly anything can be learned, or that the kernel
            hardly varies over the domain. A later `warm_start` is not taken into account. There is no
            such forecast for `actions`.

    Privacy: (epsilon, delta)-joint DP; `guarantee.explain()` describes it in words.

    References:
        Denisov et al. 2022 (matrix mechanism on adaptive streams); compare Dubey2021, Algorithm 1.

    Example:
        >>> import dpbandits as dpb
        >>> people = dpb.Schema(age=dpb.Range(18, 90), region=dpb.Categories(["north", "south", "west"]))
        >>> policy = GPBandit(
        ...     contexts=people, arms=["mail", "call", "nothing"], reward_range=(0, 1), horizon=1000,
        ...     privacy=JointDP(epsilon=1, delta=1e-6))
        >>> decision = policy.ask({"age": 44, "region": "west"}, user="u-17")
        >>> decision.arm in ("mail", "call", "nothing")
        True
        >>> policy.tell(decision.id, True).value
        'counted'

        Candidates as rows:

        >>> policy = GPBandit(
        ...     kernel=dpb.kernels.SquaredExponential(lengthscale=0.3), domain=dpb.Box(low=[0], high=[1]),
        ...     reward_range=(0, 1), horizon=1000, privacy=JointDP(epsilon=1, delta=1e-6))
        >>> decision = policy.ask(np.array([[0.1], [0.9]]), user="u-17")
        >>> policy.tell(decision.id, 1.0).value
        'counted'

        Over the whole domain:

        >>> policy.ask(user="u-18").action.shape, policy.recommend().shape
        ((1,), (1,))
    """

    kind = "central.GPBandit"
    takes_products = True
    noise: NoiseSource
    privacy: JointDP
    features: Features
    bytes_needed: float
    config_omits = ReadoutPolicy.config_omits | {"kernel", "readout"}  # the features replace the kernel
    config_parsers: ClassVar[Mapping[str, Any]] = {
        **ReadoutPolicy.config_parsers,
        "tuning": GPTuning.from_config,
        "readout": Readout.from_config,
    }

    def __init__(
        self,
        *,
        contexts: Schema | None = None,
        arms: Sequence[Label] | Products | None = None,
        actions: Actions | Schema | Column | None = None,
        domain: domains.Domain | None = None,
        reward_range: RewardRange | tuple[float, float],
        horizon: int | None,
        privacy: JointDP,
        kernel: Kernel | None = None,
        tuning: GPTuning | None = None,
        readout: Readout | None = None,
        **options: Unpack[PolicyOptions],
    ) -> None:
        check_kinds(
            domain=domain,
            privacy=privacy,
            kernel=kernel,
            noise=options.get("noise"),
            optional=("domain", "kernel", "noise"),
        )
        rounds = LONGEST_HORIZON if horizon is None else horizon
        super().__init__(
            domain=domain,
            contexts=contexts,
            arms=arms,
            actions=actions,
            reward_range=reward_range,
            horizon=rounds,
            privacy=privacy,
            **options,
        )
        if rounds > LONGEST_HORIZON:
            raise InvalidParameter(f"horizon: int64 sums hold at most {LONGEST_HORIZON} rounds")
        if horizon is not None:
            warn_if_delta_large(privacy.delta, -(-horizon // privacy.rounds_per_user))
        tuning = tuned(tuning, GPTuning)
        products = None if self.menu is None else self.menu.products
        if products is not None and (kernel is not None or tuning.release not in (None, "marginals")):
            raise InvalidParameter(
                "arms: products are learned with marginal tables: leave kernel= and release= out"
            )
        if self.actions is not None and (kernel is not None or tuning.release not in (None, "marginals")):
            raise InvalidParameter(
                "actions= are learned with marginal tables: leave kernel= and release= out"
            )
        self.open_ended = horizon is None
        sets = tuning.public_decision_sets
        if isinstance(sets, str):
            if self.menu is not None:
                raise InvalidParameter("public_decision_sets: 'whole' is for a domain, not for arms")
        elif sets is not None:
            sets = self.domain.validate(sets, name="public sets")
            if sets.ndim != 3:
                raise InvalidParameter("public_decision_sets: expected shape (S, n, d)")
        setup = Setup(
            domain=self.domain,
            menu=self.menu,
            reward_range=self.reward_range,
            horizon=horizon,
            longest=rounds,
            privacy=privacy,
            kernel=kernel,
            tuning=replace(tuning, public_decision_sets=sets),
            noise=self.noise,
            seed=self.seed,
            charged=self._holder.charged,
            actions=self.actions or products,
        )
        if tuning.release is None and sets is None and kind_for(setup) == "cells":
            setup = replace(setup, tuning=replace(setup.tuning, public_decision_sets="whole"))
        if readout is not None:
            setup = self._with_control(readout, setup)
        with one_thread():
            self._kind = KINDS[tuning.release or kind_for(setup)](setup)
        if readout is not None:
            self._run = self._begun_run(readout, setup)
            self._book.companion = self._run.rows
        self.bytes_needed = self._bytes()
        check_fits(self.bytes_needed, instead=FEWER)
        self.features = self._kind.features
        self.tuning = replace(self._kind.tuning, features=self.features)
        self._take_blocks()
        if tuning.lag:
            self._book.ended = self._rounds_ended
        self._beside, self._drawn_ahead = Beside(), -1
        self._pending_releases: list[_PendingRelease] = []
        self._position_kept = 0
        self._fitted: tuple[int, WeightPosterior | None] = (0, None)
        self._first_menu, self._history = self.menu, ArmHistory(self.arms or ())
        self._offered: tuple[ArmHistory, tuple[int, ...]] | None = None
        self.features(self.domain.sample(1, np.random.default_rng(0)))  # raises for a map of another domain
        self._past: Past = self._kind.nothing()
        self._posterior: WeightPosterior | None = None
        self._public_data: tuple[FloatArray, FloatArray] | None = None
        self._beginning: Beginning | None = None
        with one_thread():
            self._foresight = None if self.open_ended else self._kind.foresight()
        self._warn_of_silent_failure(kernel)

    def _with_control(self, readout: Readout, setup: Setup) -> Setup:
        """Return the setup of learning beside a control group, with its part of the promise."""
        release = setup.tuning.release or kind_for(setup)
        check_supported(readout, setup, release=release)
        return replace(
            setup,
            privacy=for_learning(self.privacy, readout.spent, gaussian=release == "features"),
            learning_share=1.0 - readout.control.share,
            minimum=readout.minimum,
        )

    def _begun_run(self, readout: Readout, setup: Setup) -> ReadoutRun:
        return ReadoutRun(
            readout,
            reward_range=self.reward_range,
            contexts=self.contexts,
            labels=self.arms or (),
            horizon=setup.longest,
            delay=setup.tuning.reporting_delay,
            privacy=self.privacy,
            learned=self._kind.record().certificate,
            learning=setup.privacy,
            noise=self.noise,
            coins=self._coins,
            charged=setup.charged,
        )

    def _bytes(self) -> float:
        return self._kind.bytes_needed() + (0.0 if self._run is None else self._run.bytes_needed)

    def _warn_of_silent_failure(self, kernel: Kernel | None) -> None:
        """Warn if public arguments alone show that hardly anything can be learned."""
        found, privacy = self._foresight, self.privacy
        flat = None if kernel is None else self._flat_column(kernel)
        if found is None or self.horizon is None:
            said = flat
        elif kernel is not None and self.menu is None and found.varies < FLAT:
            said = HARDLY_VARIES.format(varies=found.varies)
        elif flat is not None:
            said = flat
        elif found.correlation < NOTHING_TO_LEARN:
            of_kernel = self.tuning.release != "marginals"
            counts = [counted(self.horizon, "round")]
            counts.append(counted(self.domain.dim - (self.menu is not None), "column"))
            if self.arms is not None:
                counts.append(counted(len(self.arms), "arm"))
            advice = TAKE_MORE.format(or_kernel=", or a longer lengthscale" if of_kernel else "")
            if kernel is not None and kernel.max_variance < SMALL_KERNEL:
                advice = KERNEL_TOO_SMALL.format(variance=kernel.max_variance)
            said = HARDLY_LEARNS.format(
                facts=f"{', '.join(counts)}, epsilon {privacy.epsilon:g} and delta {privacy.delta:g}"
                + (" with this kernel" if of_kernel else ""),
                correlation=found.correlation,
                least=NOTHING_TO_LEARN,
                advice=advice,
            )
        else:
            said = None
        if said is not None:
            warnings.warn(said, NothingToLearn, stacklevel=caller_level())

    def _flat_column(self, kernel: Kernel) -> str | None:
        """Return a warning about a column of a box or of contexts along which the kernel is flat."""
        rng = np.random.default_rng(0)
        if self.menu is not None and isinstance(self.domain, domains.Product):
            contexts = domains.Product(*self.domain.parts[:-1])
            return flat_column(kernel, contexts.sample(FLAT_POINTS, rng))
        if isinstance(self.domain, domains.Box):  # lengthscales are shares of the range
            return flat_column(kernel, rng.random((FLAT_POINTS, self.domain.dim)))
        return None

    def _take_blocks(self) -> None:
        self.blocks, tuning = self._kind.blocks, self.tuning
        self._deadlines = Deadlines(self.blocks, tuning.reporting_delay)
        self._boundaries = tuple(index + tuning.lag for index in self._deadlines.boundaries)

    # -- what is promised -----------------------------------------------------------------------

    @property
    def guarantee(self) -> Guarantee:
        """Guarantee of (epsilon, delta)-joint DP, which is the same before, during and after the run.

        After the first change of arms it has one more assumption, on which this promise rests.
        After `warm_start` from a published function the guarantee says so. For users who may be in the
        function's data and in the policy's, it adds up both guarantees.
        """
        own = self._own_guarantee()
        return own if self._beginning is None else self._beginning.stated(own)

    def _own_guarantee(self) -> Guarantee:
        setting = Setting.of(self._holder, noise=self.noise, user_ids=self.user_ids)
        found = self._kind.guarantee(self.privacy, setting)
        found = self._stated(found)
        if self._history.changes:
            assumed = (*found.assumptions, changed_arms(len(self._history.changes)))
            found = replace(found, assumptions=in_order(assumed))
        found = on_a_public_clock(found) if self._deadlines.timed else found
        if self.privacy.delta == 0.0:
            found = replace(found, notes=(*found.notes, RELEASE_NOTE.format(release=self.tuning.release)))
        return found if self.menu is not None else replace(found, notes=(*found.notes, WHOLE_DOMAIN))

    @property
    def batch_boundaries(self) -> tuple[int, ...]:
        """Numbers of rounds after which released statistics can change: ask in batches between them.

        `add_arm` may change those that are still to come.
        """
        return self._boundaries

    @property
    def released(self) -> IntArray:
        """All releases, as integers.

        - features: block sums combined by the matrix mechanism, shape (blocks released, D), in units of
          `prefix_sums.RELEASE_UNIT`;
        - cells: sums in cells, shape (blocks released, C), in units of `cell_sums.CENTRED`;
        - marginals: each block's sums, in 1024ths of the reward range, and counts, as one array, block after
          block.
        """
        return self._past.released(self.blocks_released)

    @property
    def blocks_released(self) -> int:
        """Number of durable releases. A release whose saving failed is not counted and not shown."""
        return (0, *self.blocks).index(self._settled)

    # -- arms that come and go ------------------------------------------------------------------

    @property
    def arm_changes(self) -> tuple[ArmChange, ...]:
        """Changes of arms in the order of their announcement, including those that are not in effect yet."""
        return self._history.changes

    @in_turn
    def add_arm(
        self,
        arm: Label,
        *,
        like: Label | None = None,
        features: Mapping[str, Any] | None = None,
        minimum: float | None = None,
        at: float | None = None,
    ) -> ArmChange:
        """Announce a new arm, which is offered from the next release on.

        Its first prediction lies between the average of all arms and that of the arm that it is `like`, or
        equals the average. A new product starts from the effects of its `features`. Until two releases hold
        its rounds it gets at least a public share of the decisions. If fewer than two releases would follow,
        later blocks are planned anew: `blocks` and `batch_boundaries` change. Calling this again with the
        same arguments changes nothing.

        Args:
            arm: Label that no arm of the policy had before.
            like: Label of an arm that was offered before; not for products.
            features: Features of a new product by column, such as {"kind": "shoes", "price": 30}. They are
                required if the policy has `Products`.
            minimum: Share of the decisions, rounded up to a multiple of 1/48. Default: 0.1.
            at: Time of the announcement in seconds since 1970. Default: now.

        Returns:
            The change. `version` is the number of releases from which it is in effect.

        Privacy: The call charges nothing and changes no sensitivity. It is an assumption of the statement
        that arm, arguments and time do not depend on private data.

        Raises:
            ProtocolError: Arms of this policy cannot change, no release would hold rounds of the arm, or it
                was announced with other arguments.
            InvalidParameter: The label was used before, `like` is no arm, `features` do not fit the columns,
                or `minimum` is no valid share; or the policy with one more arm needs too much memory.
            StateError, OSError: The change could not be stored, and there is no change.
        """
        self._check_arms_change("add_arm")
        products = None if self._first_menu is None else self._first_menu.products
        row = self._history.features_of(products, like=like, features=features)
        asked: dict[str, Any] = {"like": like, "minimum": minimum, "features": row}
        before = self._history.found("add", arm)
        if before is not None:
            if not self._history.same(before, **asked):
                raise ProtocolError(
                    "add_arm: this arm was announced with another like=, features= or minimum="
                )
            return before
        when = self._next_version("add_arm", least=1, wanted=HELD_TWICE)
        kept = () if self._run is None else self._run.readout.minimum.values()
        fields = self._history.adding(arm, **asked, version=when["version"], others=kept)
        return self._change_arms(fields | when, at)

    @in_turn
    def retire_arm(self, arm: Label, *, at: float | None = None) -> ArmChange:
        """Announce that an arm is no longer offered from the next release on.

        Its open rounds can still be told, and count in the release of their block. Later releases have no
        table of it, and so no noise. Earlier releases of it still inform effects that all arms share. Calling
        this again changes nothing.

        Args:
            arm: Label of an arm.
            at: Time of the announcement in seconds since 1970. Default: now.

        Returns:
            The change. `version` is the number of releases from which it is in effect.

        Privacy: As for `add_arm`.

        Raises:
            ProtocolError: Arms of this policy cannot change, no arm would be left, or no release follows:
                then leave the arm out of `available=`.
            InvalidParameter: The policy has no such arm.
            StateError, OSError: The change could not be stored, and there is no change.
        """
        self._check_arms_change("retire_arm")
        self._check_control("retire_arm", arm)
        before = self._history.found("retire", arm)
        if before is not None:
            return before
        when = self._next_version("retire_arm", least=0)
        return self._change_arms(self._history.retiring(arm, version=when["version"]) | when, at)

    def _check_arms_change(self, call: str) -> None:
        kind, why = self._kind, "it has no marginal tables of contexts and arms"
        if self.menu is not None and isinstance(kind, MarginalRelease):
            why = kind.can_change() or ""
        self._check_control(call)
        if why:
            raise ProtocolError(f"{call}: arms of this policy cannot change, as {why}: build a new policy")

    def _next_version(self, call: str, *, least: int, wanted: int = 0) -> dict[str, Any]:
        """Return the `version` of a change that is announced now, and its `ends` if it plans blocks anew.

        Raises:
            ProtocolError: Fewer than `least` releases would hold rounds after the change.
        """
        kind, most = self._kind, max(1, (self.horizon or 0) // LATE_RELEASES)
        found = in_effect(
            self.blocks,
            asked=self._book.asked,
            begun=self._releases_begun,
            counted_first=kind.counted_first,
            anew=kind.planned_anew(self._book.asked, most) if isinstance(kind, MarginalRelease) else (),
            least=least,
            wanted=wanted,
        )
        if found is None:
            raise ProtocolError(
                f"{call}: no release follows that could make the change. To leave an arm out, pass "
                "available=. If arms come late, build the policy with later releases: "
                f"GPTuning(longest_block={most})"
            )
        return found

    @property
    def _releases_begun(self) -> int:
        """Number of releases that were drawn, or begun in another thread."""
        return max([self._past.count, *(one.block + 1 for one in self._pending_releases)])

    def _change_arms(self, fields: dict[str, Any], at: float | None) -> ArmChange:
        """Store a change, which takes effect for later releases; if this fails, nothing is changed."""
        when = public_time(at)
        change = ArmChange(**fields, asked=self._book.asked, at=float(when))
        history, log = self._history, self._holder.log
        try:
            self._take_change(change)
            if isinstance(self._kind, MarginalRelease) and change.what == "add":
                check_fits(self._kind.bytes_needed(), instead="take fewer arms")
            if self._holder.live:
                self._holder.note(ARMS, change.to_bytes())
            else:
                self._holder.commit()
        except BaseException:
            self._holder.log = log
            self._know_arms(history)
            raise
        return change

    def _take_change(self, change: ArmChange) -> None:
        if change in self._history.changes:
            return
        self._holder.log = ReleaseLog.from_json(self._holder.log.to_json())
        self._holder.log.note(change.to_config())
        self._know_arms(ArmHistory.of(self._history.first, self._holder.log.events))

    def _know_arms(self, history: ArmHistory) -> None:
        self._history = history
        if isinstance(self._kind, MarginalRelease):
            self._kind.know(history)
            if self.blocks != self._kind.blocks:
                self._take_blocks()
            self.bytes_needed = self._bytes()  # reads the features of new products
        self._offer(self._version)

    @property
    def _version(self) -> int:
        """Number of releases that decide now."""
        return self._past.count

    def _offer(self, version: int) -> None:
        """Offer the arms of a version from now on."""
        if self._first_menu is None:
            return
        offered = self._history, tuple(self._history.offered(version).tolist())
        if offered != self._offered:
            self._offered, codes = offered, np.array(offered[1], dtype=np.int64)
            some = self._first_menu.offering(self._history.labels, codes)
            self.menu = some if self._history.changes else self._first_menu
            self.domain = self.menu.domain

    def _replay(self, kind: bytes, content: bytes) -> None:
        if kind == ARMS:
            self._take_change(ArmChange.from_bytes(content))
        else:
            super()._replay(kind, content)

    # -- releasing ------------------------------------------------------------------------------

    @property
    def _rounds_out(self) -> int:
        return (0, *self.blocks)[self._past.count]

    def _is_due(self) -> bool:
        block = self._past.count
        if self.tuning.lag:
            return block < len(self.blocks) and self._book.asked >= self.batch_boundaries[block]
        return block < self._deadlines.due(self._book.asked)

    def _release(self) -> None:
        if self.tuning.lag:
            made = next(one for one in self._pending_releases if one.block == self._past.count)
            drawn, posterior = self._wait_for(made)
            self._position_kept, self._fitted = made.noise_position, (made.block + 1, posterior)
        else:
            block = self._past.count
            drawn = self._draw(block, self._closing(block), self._past, self._posterior)
        self._past = drawn

    def _closing(self, block: int) -> BlockRows:
        start, stop = (0, *self.blocks)[block : block + 2]
        rows = BlockRows(*self._book.block(start, stop))
        use = self._uses()[0]
        if isinstance(self._kind, MarginalRelease):
            # A release may be entered again after a crash and an addition, and has the same terms then.
            use = replace(use, record=self._kind.record(first=True))
        self._enter_release(use, block)
        return rows if self._run is None else rows.only(self._run.learns(start, stop))

    def _draw(
        self,
        block: int,
        rows: BlockRows,
        before: Past,
        posterior: WeightPosterior | None,
    ) -> Past:
        with one_thread():
            design = self._kind.design(block, posterior, self._coins)
            after: Past = self._kind.draw(block, rows, design, before)
        return after

    # -- releases in another thread -------------------------------------------------------------

    def _prepare(self) -> None:
        if self.tuning.lag:
            if self._rounds_out > self._settled:  # save the last release before new noise is drawn
                self._settle()
            self._begin_releases()
        super()._prepare()
        block = self._past.count
        ahead = self._kind.draw_ahead() if self._drawn_ahead < block < len(self.blocks) else None
        if ahead is not None:
            with suppress(RuntimeError):  # no thread is available: the release draws its noise itself
                self._beside.begin(ahead)
                self._drawn_ahead = block

    def _rounds_ended(self, asked: int) -> int:
        return (0, *self.blocks)[self._deadlines.due(asked)]

    def _begin_releases(self) -> None:
        """Begin the releases that are due, one after the other; raise the error of an earlier release."""
        self._pending_releases = [one for one in self._pending_releases if one.block >= self._past.count]
        for one in self._pending_releases:
            if one.done is not None and one.done.done():
                self._wait_for(one)
        self._book.end()
        if not self._pending_releases:
            self._position_kept = super()._noise_position()
        begun = self._past.count + len(self._pending_releases)
        for block in range(begun, self._deadlines.due(self._book.asked)):
            self._pending_releases.append(_PendingRelease(block, self._closing(block)))
        before: Future[_Made] = Future()
        before.set_result((self._past, self._posterior))
        for one in self._pending_releases:
            if one.done is None:
                one.done = self._beside.begin(partial(self._make, one, before))
            before = one.done

    def _make(self, one: _PendingRelease, before: Future[_Made]) -> _Made:
        drawn, posterior = before.result()
        if one.drawn is None:
            one.drawn = self._draw(one.block, one.rows, drawn, posterior)
            one.noise_position = super()._noise_position()
        return one.drawn, self._posterior_of(one.drawn)

    def _wait_for(self, one: _PendingRelease) -> _Made:
        done = one.done
        if done is None:
            raise ProtocolError("the release was not begun: ask again")
        try:
            return done.result()
        except BaseException:
            if done.done():
                for later in self._pending_releases[self._pending_releases.index(one) :]:
                    later.done = None
            raise

    def _noise_position(self) -> int:
        return self._position_kept if self._pending_releases else super()._noise_position()

    def _uses(self) -> tuple[Release, ...]:
        record, drawn = self._kind.record(), self._past.count
        block = Release(purpose="block", record=record, noise=self.noise, drawn=drawn, charge="")
        beside = () if self._run is None else self._run.uses(self.noise)
        return (block, *(() if self._beginning is None else (self._beginning.release(),)), *beside)

    # -- post-processing of releases ------------------------------------------------------------

    def _fit(self) -> None:
        number, posterior = self._fitted
        if number == 0 or number != self._past.count:
            posterior = self._posterior_of(self._past)
        self._posterior = posterior
        if self._history.changes:
            self._offer(self._version)

    def _posterior_of(self, past: Past) -> WeightPosterior | None:
        with one_thread():
            return self._kind.believed(past, self._public_data)

    def _choose(
        self, candidates: FloatArray, available: BoolArray | None, start: int
    ) -> tuple[IntArray, FloatArray | None]:
        found = self._kind.choose(self._posterior, candidates, available, start, self._coins)
        return self._in_groups(found, candidates, available, start, self._posterior)

    def _choose_one(
        self, candidates: FloatArray, available: BoolArray | None, start: int
    ) -> tuple[int, float | None]:
        # a subclass has another rule, or a control group another arm
        theirs = type(self)._choose is not GPBandit._choose or self._run is not None
        if theirs or self._posterior is None or available is not None or not self._kind.draws_every_round:
            return super()._choose_one(candidates, available, start)
        return self._kind.choose_one(self._posterior, candidates, start, self._coins), None

    def _rows_of(self, candidates: FloatArray, axes: tuple[str, ...]) -> FloatArray:
        if self._history.changes:
            raise InvalidData("candidates: arms of this policy have changed: pass contexts, not rows")
        if isinstance(self.tuning.public_decision_sets, str):
            raise InvalidData(
                "candidates: expected none, as this policy chooses from the whole domain. To pass "
                "candidates, build it with GPTuning(public_decision_sets=...), example sets known without "
                f"users' data, or with GPTuning(release={self.tuning.release!r}) for uniform candidates"
            )
        return super()._rows_of(candidates, axes)

    def _over_domain(self, start: int | None, count: int) -> FloatArray:
        if start is None:
            return self._maximiser.of_weights((self._posterior or self._kind.prior).mean[None])
        return self._kind.choose_over(self._maximiser, self._posterior, start, count, self._coins)

    @property
    def _window(self) -> Window | None:
        return getattr(self._posterior, "window", None) or super()._window

    def _predict(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return means and standard deviations at points; before any release they are those of the prior."""
        law = self._posterior or self._kind.prior
        mean, spread = law.predict_function(
            self._kind.features_of(law), points, weight_variance=self._kind.weight_variance
        )
        return self.reward_range.from_centred(mean), self.reward_range.width * spread

    @in_turn
    def publish(self, *, prior: bool = False) -> PublishedPosterior:
        """Return the learned function, which can decide for anybody without further loss of privacy.

        A release that is due is made first, as before the next ask. The function is computed only from
        releases and public numbers.

        Args:
            prior: True to return the prior without a warning if there is no release yet.

        Warns:
            NothingReleased: No rewards were released, and there is no public data.
        """
        self._prepare()
        if self._kind.says_nothing(self._posterior) and not prior:
            warnings.warn(
                "publish: nothing was released yet, so every prediction is the middle of the reward range. "
                f"The first release is made after {self.batch_boundaries[self._kind.counted_first]} rounds "
                "(GPTuning(blocks=...) changes that): publish after it, or pass prior=True.",
                NothingReleased,
                stacklevel=caller_level(),
            )
        law = self._posterior or self._kind.prior
        return PublishedPosterior(
            menu=None if self.menu is None else self.menu.alone,
            domain=self.domain,
            reward_range=self.reward_range,
            features=self._kind.features_of(law).written_out(),
            posterior=law,
            weight_variance=self._kind.weight_variance,
            guarantee=self.guarantee,
            window=self._window,
        )

    @in_turn
    def public_draws(self, count: int) -> FloatArray:
        """Return the Thompson weights (count, m) of the next rounds, valid until the next release.

        They come from public coins and releases, like every decision, and cost no further privacy. Pass them
        to `PublishedPosterior.to_decisions`, so that replicas explore as this policy does.

        Raises:
            InvalidParameter: `count` is no positive integer.
            ProtocolError: No rewards were released, so that arms are chosen uniformly.
        """
        _checks.integer(count, name="count")
        self._prepare()
        if self._posterior is None or self._kind.says_nothing(self._posterior):
            raise ProtocolError("public_draws: nothing was released, and arms are drawn uniformly")
        return self._kind.draws_for(self._posterior, self._book.asked, count, self._coins)

    def diagnostics(self) -> dict[str, Any]:
        """Return public numbers and released quantities, with warnings about the run.

        | key | meaning |
        |---|---|
        | `release` | kind of release: "features", "cells" or "marginals" |
        | `expected_correlation` | forecast correlation of estimate and typical reward function, or None |
        | `predictions` | extremes at public points; `share_outside` is the share out of the reward range |
        | `told_share`, `read_share` | share of the rounds that are in the released sums, or counts |
        | `window` | window of `Actions(explore=)` now: low and high end of each explored column, or None |
        | `readout` | released looks, their ends, noise, and whether the rule of `Readout.stop` has stopped |
        | `warnings` | list of sentences: problems found in the releases, and remedies |

        Privacy: everything is computed from durable releases and public numbers.
        """
        count = self.blocks_released
        numbers, warned = self._kind.findings(self._past, count)
        with self._holder.still():  # arms and posterior change together
            predictions = self._predictions()
        if count and predictions["outside"]:
            low, high = self.reward_range.low, self.reward_range.high
            ends = {name: predictions[name] for name in ("lowest", "highest")}
            cause = CAUSE if self.actions is None else CAUSE_OF_ACTIONS
            warned = [OUT_OF_RANGE.format(**ends, low=low, high=high, cause=cause), *warned]
        return {
            **super().diagnostics(),
            "release": self.tuning.release,
            "blocks": list(self.blocks),
            "blocks_released": count,
            "expected_correlation": None if self._foresight is None else self._foresight.correlation,
            **self._kind.diagnostics(),
            **numbers,
            "predictions": predictions,
            "window": self._window,
            "warnings": warned,
        }

    def _predictions(self) -> dict[str, Any]:
        """Return entries of the diagnostics about predictions at `PUBLIC_POINTS` public points.

        `share_outside` is the share of predictions outside the reward range. `outside` is the number of
        predictions beyond the thresholds of the warning.
        """
        points = self.domain.sample(PUBLIC_POINTS, np.random.default_rng(0))
        mean, sd = self._predict(points)
        low, high = self.reward_range.low, self.reward_range.high
        beyond = np.maximum(low - mean, mean - high)
        outside = beyond > np.maximum(BEYOND * self.reward_range.width, BEYOND_SDS * sd)
        return {
            "lowest": float(mean.min()),
            "highest": float(mean.max()),
            "share_outside": float(np.mean(beyond > 0.0)),
            "outside": int(np.count_nonzero(outside)),
        }

    # -- configuration and state ----------------------------------------------------------------

    def to_config(self) -> dict[str, Any]:
        """Return all public arguments for JSON, from which this policy can be rebuilt."""
        found = super().to_config() | ({"horizon": None} if self.open_ended else {})
        if self._first_menu is None or not self._history.changes:
            return found
        products = self._first_menu.products
        return found | {"arms": list(self._history.first) if products is None else products.to_config()}

    def _learn_public(self, points: FloatArray, rewards: FloatArray) -> None:
        self._refuse_changed_arms()
        self._add_public(self.features.placed(points), self.reward_range.to_centred(rewards))

    def _begin_from(self, published: Any, *, disjoint: bool | None, charged_as: str | None) -> None:
        self._refuse_changed_arms()
        beginning = Beginning.from_function(published, disjoint=disjoint, charged_as=charged_as)
        if self._beginning is not None:
            raise ProtocolError("warm_start: this policy already started from a published function")
        rows, values = observations_of(
            published,
            features=self.features,
            domain=self.domain,
            menu=self.menu,
            reward_range=self.reward_range,
            reward_variance=REWARD_VARIANCE,
        )
        beginning = beginning.paid_by(self._holder, charged_as=charged_as)
        self._enter_release(beginning.release(), 0)
        self._beginning = beginning
        self._add_public(rows, values)

    def _refuse_changed_arms(self) -> None:
        if self._history.changes:
            raise ProtocolError("warm_start has to come before arms are added or retired")

    def _charge(self) -> None:
        super()._charge()
        if self._beginning is not None:  # an account that was added later pays for the function as well
            self._beginning = self._beginning.paid_by(self._holder)

    def _add_public(self, rows: Placed, values: FloatArray) -> None:
        """Add public data, or a published function, as features and centred rewards (n,)."""
        supports = self.features.supports
        gram, vector = rows.gram(supports), rows.vector(supports, values)
        if self._public_data is not None:
            gram, vector = gram + self._public_data[0], vector + self._public_data[1]
        self._public_data = (gram, vector)
        self._fit()

    def _own_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        gram, vector = self._public_data or (np.zeros(0), np.zeros(0))
        beside = {} if self._run is None else self._run.arrays()
        return {**beside, **self._past.arrays(), "public_gram": gram, "public_vector": vector} | (
            {} if self._beginning is None else {"beginning": self._beginning.to_array()}
        )

    def _restore_own(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        if self._holder.log.events:
            self._know_arms(ArmHistory.of(self._history.first, self._holder.log.events))
        gram, vector, m = arrays["public_gram"], arrays["public_vector"], self.features.n_features
        if vector.size and (gram.shape, vector.shape) != ((block_entries(self.features.supports),), (m,)):
            raise CorruptState("the saved public data contradicts the saved configuration")
        self._kind.features, self._kind.noise = self.features, self.noise
        if self._run is not None:
            self._run.restore(arrays, asked=self._book.asked)
        self._past = self._kind.taken_up(arrays)
        self._public_data = (gram, vector) if vector.size else None
        self._beginning = Beginning.of(arrays)
        if self._beginning is not None and self._beginning.paid is not None and not self._holder.charged:
            raise CorruptState("the state says that an account has paid, but names no account")
