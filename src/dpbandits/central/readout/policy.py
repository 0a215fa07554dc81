"""`ReadoutPolicy`: asks, tells and releases of a policy with a readout, on top of `RoundPolicy`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpbandits import _checks
from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.central.marginals.learning import EffectPosterior
from dpbandits.central.published_function import PublishedPosterior
from dpbandits.central.readout.minimum import propensities
from dpbandits.central.readout.reading import ReadoutResult, read_looks
from dpbandits.central.readout.run import ReadoutRun
from dpbandits.errors import InvalidCall, ProtocolError
from dpbandits.models.noisy_regression import WeightPosterior
from dpbandits.models.readout import Look
from dpbandits.policy import RoundPolicy
from dpbandits.policy.bookkeeping import is_plain
from dpbandits.policy.decision import Decision, DecisionBatch, Receipt
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.state.holder import in_turn

__all__ = ["ReadoutPolicy"]

NO_READOUT = "tell: this policy has no readout= and takes no metrics: pass the reward alone"


class ReadoutPolicy(RoundPolicy):
    """Base class of policies that may have a readout; `_run` is None without one."""

    _run: ReadoutRun | None = None

    # -- asking -----------------------------------------------------------------------------------

    def _admit(
        self, count: int, users: Sequence[object] | None, at: object = None, *, batch: bool = False
    ) -> list[bytes]:
        run = self._run
        digests = super()._admit(count, users, at, batch=batch)
        if run is not None:
            run.admit(self._book.asked, count, digests)
        return digests

    def _advance(self, at: object) -> None:
        super()._advance(at)
        if self._run is not None:
            self._run.deadlines.advance(at)

    def _in_groups(
        self,
        found: tuple[IntArray, FloatArray | None],
        candidates: FloatArray,
        available: BoolArray | None,
        start: int,
        posterior: WeightPosterior | None,
    ) -> tuple[IntArray, FloatArray | None]:
        if self._run is None:
            return found
        chosen, chances = found
        if chances is None and self._run.readout.minimum and isinstance(posterior, EffectPosterior):
            chances = propensities(posterior, candidates, available, chosen)
        if chances is None:
            chances = np.full(len(chosen), np.nan)
        return self._run.instead(chosen, chances, candidates, available, start)

    def _decided_one(self, *given: Any) -> Decision:
        found = super()._decided_one(*given)
        if self._run is None:
            return found
        (group,) = self._run.coming
        known = None if found.propensity is None or np.isnan(found.propensity) else found.propensity
        return Decision(found.id, found.index, found.action, known, found.arm, group)

    def ask_batch(
        self,
        brought: Any = None,
        users: Sequence[object] | None = None,
        *,
        available: Any = None,
        at: object = None,
    ) -> DecisionBatch:
        """Choose for B users, all from the same releases; see `RoundPolicy.ask_batch`."""
        found = super().ask_batch(brought, users, available=available, at=at)
        if self._run is None or not len(found):
            return found
        parts = (found.ids, found.indices, found.actions, found.propensities, found.refused, found.labels)
        return DecisionBatch(*parts, found.choices, self._groups_of(self._run, found.ids))

    def _groups_of(self, run: ReadoutRun, ids: Sequence[str]) -> tuple[str | None, ...]:
        with self._holder.still():
            first = int(self._book.rounds_of(ids[:1])[0])
            return run.names(first, first + len(ids))

    # -- telling ----------------------------------------------------------------------------------

    @in_turn
    def tell(self, /, decision_id: str, reward: float, *, at: object = None, **metrics: Any) -> Receipt:
        """Record the reward of a decision, and further metrics of the readout; see `RoundPolicy.tell`.

        Args:
            decision_id: Id of the decision, `Decision.id`.
            reward: Number in the reward range; None or NaN means that it will never have a reward.
            at: Time at which the reward occurred, if `reporting_delay` is a time.
            **metrics: Values of metrics of the readout, by name. They count if the reward counts. A value
                that is left out, or cannot be read, counts as the metric's public default.

        Raises:
            InvalidData: The reward is not a number in the range, or a metric is unknown; the decision stays
                pending.
            UnknownDecision, AlreadyTold: As for `RoundPolicy.tell`.
            InvalidCall: The policy has no readout, and metrics were passed.
        """
        if metrics and self._run is None:
            raise InvalidCall(NO_READOUT)
        if self._run is None or not metrics:
            return super().tell(decision_id, reward, at=at)
        read = self._run.read_one(metrics) if at is None and is_plain(reward) else None
        if read is not None:
            receipt = self._told_one(decision_id, reward, read)
        else:
            self._book.round_of(decision_id)
            columns = {name: [value] for name, value in metrics.items()}
            receipt = self.tell_batch([decision_id], [reward], at=at, metrics=columns)[0]
        if receipt is Receipt.REFUSED:
            raise self._refused_reward()
        return receipt

    @in_turn
    def tell_batch(
        self,
        decision_ids: Sequence[str],
        rewards: ArrayLike,
        *,
        at: object = None,
        metrics: Mapping[str, Any] | None = None,
    ) -> tuple[Receipt, ...]:
        """Record the rewards of several decisions, and further metrics; see `RoundPolicy.tell_batch`.

        Args:
            decision_ids: Ids of B decisions.
            rewards: Rewards (B,). None or NaN means that a decision will never have one.
            at: Time at which the rewards occurred: one time, or a sequence of B times.
            metrics: Values (B,) of metrics of the readout, by name; see `tell`.

        Raises:
            UnknownDecision, InvalidData: As for `RoundPolicy.tell_batch`; or a metric is unknown, or has
                another number of values. No reward was taken.
            InvalidCall: The policy has no readout, and metrics were passed.
        """
        if self._run is None:
            if metrics:
                raise InvalidCall(NO_READOUT)
            return super().tell_batch(decision_ids, rewards, at=at)
        count = len(self._book.rounds_of(decision_ids))
        return self._told(decision_ids, rewards, at, self._run.read(metrics, count))

    # -- releases ---------------------------------------------------------------------------------

    def _prepare(self) -> None:
        super()._prepare()
        if self._run is not None:
            self._release_looks(self._run)

    def _release_looks(self, run: ReadoutRun) -> None:
        """Make all looks that are due. Each is durable before it is shown, and is drawn once."""
        while True:
            if run.unsaved:  # includes a look whose saving failed before
                run.close(self._book.asked)
                self._holder.commit()
                run.settle()
            if self.noise is None or not run.due(self._book.asked):
                return
            for use in run.coming_uses(self.noise):
                self._enter_release(use, use.drawn)
            run.release(self.noise)

    @in_turn
    def released_looks(self) -> tuple[Look, ...]:
        """Return the released looks, after making those that are due, as before the next ask.

        Sums are in the units of `models.readout.Group`, the reward first.

        Raises:
            ProtocolError: The policy has no readout.
        """
        run = self._readout_run()
        self._prepare()
        return run.looks(run.settled)

    @in_turn
    def readout(self, *, confidence: float = 0.95, at: float | None = None) -> ReadoutResult:
        """Return what the policy earns against its control group, from the looks that are released.

        A look that is due is released first, as before the next ask.

        Args:
            confidence: Confidence of the intervals.
            at: Public time in seconds, as for `ask`, for a look that waits for its delay.
                Default: the time of the last ask.

        Raises:
            ProtocolError: The policy has no readout, or no look was released yet.
            InvalidParameter: `confidence` is no probability.

        Privacy: The result is computed from releases and public numbers. It is an assumption of the statement
            that the times of calls do not depend on private data.
        """
        run = self._readout_run()
        if at is not None:
            self._advance(at)
        self._prepare()
        return read_looks(run, confidence=confidence)

    @in_turn
    def end_readout(self, *, confidence: float = 0.95, at: float | None = None) -> ReadoutResult:
        """End the comparison now: release its last look, and then sums in segments. Return `readout()`.

        The last look holds the rounds so far; with a `reporting_delay` in rounds, those that have passed it.
        With a delay in time, call this when late rewards have come. From the next ask on the policy serves
        everybody, and goes on learning from the policy group alone. Calling this again, or after the last
        look, changes nothing.

        Args:
            confidence: Confidence of the intervals.
            at: As for `readout`.

        Raises:
            ProtocolError: The policy has no readout, or no round has passed its `reporting_delay`.
            InvalidParameter: `confidence` is no probability.
            StateError, OSError: The end could not be stored. Nothing was shown: call this again.

        Privacy: As for `readout`. The call itself may depend on released looks.
        """
        run = self._readout_run()
        _checks.probability(confidence, name="confidence")
        if at is not None:
            self._advance(at)
        self._prepare()
        run.end(self._book.asked)
        self._prepare()
        return read_looks(run, confidence=confidence)

    def diagnostics(self) -> dict[str, Any]:
        """Return released quantities, which are safe to log, with the state of the readout."""
        found = super().diagnostics()
        return found if self._run is None else found | {"readout": self._run.diagnostics()}

    def _readout_run(self) -> ReadoutRun:
        if self._run is None:
            raise ProtocolError("readout: this policy was built without readout=dpb.Readout(...)")
        return self._run

    def _check_control(self, call: str, arm: object = None) -> None:
        readout = None if self._run is None else self._run.readout
        if readout is None:
            return
        if isinstance(readout.control.arm, PublishedPosterior):
            raise ProtocolError(f"{call}: the control is a published function of the present arms")
        if arm is not None and (arm == readout.control.arm or arm in readout.minimum):
            raise ProtocolError(f"{call}: the readout needs this arm, as its control or with a minimum")

    # -- state ------------------------------------------------------------------------------------

    def to_config(self) -> dict[str, Any]:
        """Return the configuration, with the readout if there is one."""
        found = super().to_config()
        return found if self._run is None else found | {"readout": self._run.readout.to_config()}

    def _stated(self, found: Guarantee) -> Guarantee:
        from dpbandits.central.readout.statement import with_readout

        return found if self._run is None else with_readout(found, self._run)
