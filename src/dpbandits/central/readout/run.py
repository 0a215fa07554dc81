"""`ReadoutRun`: the looks of one policy's readout, its control group's arms, and what was released.

A look covers the rounds after the look before, up to its own end. The ends divide the horizon, less a
`reporting_delay` in rounds, into equal parts. A look is released before the next ask after its deadline, as a
block is. Ends and deadlines depend on numbers and times of asks only. Every round up to the last end is in
exactly one look. A reward counts for the readout if it counts for the policy, and is told before its look is
released.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpbandits import _checks
from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.central.kinds import Setup
from dpbandits.central.published_function import PublishedPosterior
from dpbandits.central.readout.budget import BothNoises
from dpbandits.central.readout.declared import UNIFORM, Readout, ToldMetric
from dpbandits.central.readout.groups import CONTROL, NAMES, POLICY, Groups
from dpbandits.central.readout.lattice import MOST_ROUNDS, Lattice
from dpbandits.central.readout.rows import Rows
from dpbandits.domains import RewardRange
from dpbandits.domains.arms import Arms, Label
from dpbandits.errors import CorruptState, InvalidData, InvalidParameter
from dpbandits.models.readout import Group, Look, Metric, crossed
from dpbandits.models.ties import first_best
from dpbandits.policy import PublicCoins, uniform_choice
from dpbandits.policy.deadlines import Deadlines
from dpbandits.privacy.certificates import Certificate
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.noise import NoiseSource
from dpbandits.privacy.release_terms import Release

__all__ = ["ReadoutRun"]

PURPOSES = ("readout: policy", "readout: control")
"""Purposes of both groups' sums in the log of releases, in the order of the groups' codes."""

PUBLIC_NUMBERS = 4
"""Number of public integers of a group at a look: rounds, users, squared rounds, overlap."""


class _Released(NamedTuple):
    """Released look: noisy integers (2, D) and public numbers (2, 4) of the policy and the control group."""

    sums: IntArray
    public: IntArray


class ReadoutRun:
    """Readout of one policy.

    Args:
        readout: Public arguments.
        reward_range: Range of the reward.
        labels: Labels of the policy's arms.
        horizon: Number of rounds.
        delay: `GPTuning.reporting_delay`.
        privacy: Whole promise.
        learned: Certificate of the policy's learning; every kind has one.
        learning: Promise to which learning is calibrated.
        noise: Noise source.
        coins: Public coins of the policy.
        charged: True if an account of a ledger is charged.

    Attributes:
        learning: Promise to which learning is calibrated.
        readout, noises: Public arguments and the noise of both groups' sums.
        rows: Groups and outcomes of the rounds, for `RoundBook.companion`.
        ends: Number of rounds up to the end of each look.
        deadlines: Deadlines of the looks.
        settled: Number of looks that are durable.

    Raises:
        InvalidParameter: The arguments do not fit together.
    """

    def __init__(
        self,
        readout: Readout,
        *,
        reward_range: RewardRange,
        labels: Sequence[Label],
        horizon: int,
        delay: int | timedelta,
        privacy: JointDP,
        learned: Certificate | None,
        learning: JointDP,
        noise: NoiseSource,
        coins: PublicCoins,
        charged: bool,
    ) -> None:
        self.readout, self.learning, self._coins = readout, learning, coins
        self.outcomes: tuple[ToldMetric, ...] = readout.outcomes(reward_range)
        self.lattice = Lattice(self.outcomes, privacy.rounds_per_user > 1)
        self.rows = Rows(self.lattice, Groups(coins, readout.control.share, privacy.user_ids))
        rounds = horizon - (0 if isinstance(delay, timedelta) else delay)
        if rounds < readout.looks:
            raise InvalidParameter(f"readout: {readout.looks} looks need more rounds than {max(0, rounds)}")
        self.ends = tuple(rounds * number // readout.looks for number in range(1, readout.looks + 1))
        self.deadlines = Deadlines(self.ends, delay)
        if learned is None:
            raise InvalidParameter("readout: nothing is proven of the policy's learning")
        self.noises = BothNoises.planned(
            learned, privacy, noise, self.lattice, looks=readout.looks, charged=charged
        )
        self._arms = Arms(tuple(labels))
        self._looks: tuple[_Released, ...] = ()
        self.settled = 0
        self._judged: tuple[int, int | None] = 0, None
        self._coming: NDArray[np.int8] = np.zeros(0, dtype=np.int8)

    def __repr__(self) -> str:
        return f"ReadoutRun(looks={self.settled})"

    @property
    def bytes_needed(self) -> float:
        """Bytes of the outcomes of the rounds of the longest look, and of every round's group."""
        longest = int(np.diff((0, *self.ends)).max())
        return 2.0 * longest * (8 * len(self.outcomes) + 17) + 2.0 * self.ends[-1]

    # -- groups and the control's arms ------------------------------------------------------------

    def admit(self, start: int, count: int, digests: Sequence[bytes]) -> None:
        """Find the groups of the rounds that are asked next."""
        self._coming = self.rows.coming(start, count, digests)

    def instead(
        self,
        chosen: IntArray,
        propensities: FloatArray,
        candidates: FloatArray,
        available: BoolArray | None,
        start: int,
    ) -> tuple[IntArray, FloatArray]:
        """Return rows and propensities (B,), with the control's for its rounds and after a stop.

        Args:
            chosen: Rows (B,) that the policy chose.
            propensities: Probabilities of these rows, NaN where not known.
            candidates: Decision sets (B, n, d), contexts followed by the arm's code.
            available: Mask of available rows (B, n); None if all are available.
            start: Round of the first set.
        """
        served = self._coming == CONTROL
        if self.rows.stopped is not None and start >= self.rows.stopped:
            served = np.ones(len(served), dtype=np.bool_)
        if not served.any():
            return chosen, propensities
        theirs, chances = self._served(candidates, available, start)
        return np.where(served, theirs, chosen), np.where(served, chances, propensities)

    def _served(
        self, candidates: FloatArray, available: BoolArray | None, start: int
    ) -> tuple[IntArray, FloatArray]:
        """Return the control's rows (B,) and their probabilities (B,)."""
        arm, (count, n) = self.readout.control.arm, candidates.shape[:2]
        ties = self._coins.uniform("readout/control", start, start + count, 1)[:, 0]
        rows, chances = uniform_choice(ties, n, available)
        if isinstance(arm, PublishedPosterior):
            mean = arm.at_points(candidates.reshape(count * n, -1))[0].reshape(count, n)
            mean = mean if available is None else np.where(available, mean, -np.inf)
            return np.asarray(first_best(mean, unit=arm.reward_range.width)), np.ones(count)
        if arm == UNIFORM:
            return rows, chances
        fits = candidates[..., -1] == self._arms.code(arm)
        fits &= True if available is None else available
        found = fits.any(axis=1)
        return np.where(found, fits.argmax(axis=1), rows), np.where(found, 1.0, chances)

    @property
    def coming(self) -> tuple[str | None, ...]:
        """`Decision.group` of the rounds that `admit` was called for last."""
        return tuple(NAMES[code] for code in self._coming.tolist())

    def names(self, start: int, stop: int) -> tuple[str | None, ...]:
        """Return `Decision.group` of rounds start..stop-1."""
        return tuple(NAMES[code] for code in self.rows.codes(start, stop).tolist())

    def learns(self, start: int, stop: int) -> BoolArray:
        """Return a mask of the rounds start..stop-1 that learning may use: those of the policy group."""
        return np.asarray(self.rows.codes(start, stop) == POLICY)

    def read(self, metrics: Mapping[str, Any] | None, count: int) -> FloatArray:
        """Return told metrics (count, M - 1), in their units: NaN where missing, infinity where unreadable.

        Raises:
            InvalidData: A name is not that of a metric, or there is another number of values.
        """
        if not isinstance(metrics, Mapping | None) and not hasattr(metrics, "keys"):
            raise InvalidData("metrics: expected a dict of values by the names of metrics")
        told = {} if metrics is None else dict(metrics)
        names = [one.name for one in self.outcomes[1:]]
        if not told.keys() <= set(names):
            known = ", ".join(names) or "none beside the reward"
            raise InvalidData(f"metrics: an unknown name; the readout has {known}")
        found = np.full((count, len(names)), np.nan)
        for place, name in enumerate(names):
            if name in told:
                values = _checks.column(told[name], name=name)
                if values.shape != (count,):
                    raise InvalidData(f"{name} has shape {values.shape}, expected ({count},)")
                found[:, place] = values
        return found

    # -- releases ---------------------------------------------------------------------------------

    @property
    def drawn(self) -> int:
        """Number of looks that were drawn, durable or not."""
        return len(self._looks)

    def due(self, asked: int) -> bool:
        """Return True if a look is due after `asked` asks."""
        return self.rows.stopped is None and self.drawn < self.deadlines.due(asked)

    def uses(self, noise: NoiseSource) -> tuple[Release, ...]:
        """Return both purposes of noise, for the log of releases."""
        pairs = zip(PURPOSES, (self.noises.policy, self.noises.control), NAMES, strict=False)
        return tuple(
            Release(
                purpose=purpose,
                record=own.record(str(name), self.readout.looks),
                noise=noise,
                drawn=self.drawn,
                charge="",
            )
            for purpose, own, name in pairs
        )

    def release(self, noise: NoiseSource) -> None:
        """Draw the look that is due; an interrupt leaves either no change or a complete one."""
        start, stop = (0, *self.ends)[self.drawn : self.drawn + 2]
        sums, public = [], []
        for code, own in ((POLICY, self.noises.policy), (CONTROL, self.noises.control)):
            rows = self.rows.of_group(code, start, stop)
            exact = self.lattice.sums(rows.values, rows.answered, rows.people, gaussian=own.gaussian)
            sums.append(exact + own.draw(noise))
            public.append([rows.rounds, rows.users, rows.squared_rounds, rows.overlap])
        self._looks = (*self._looks, _Released(np.array(sums), np.array(public, dtype=np.int64)))

    def close(self, asked: int) -> None:
        """Delete the outcomes of the rounds whose looks were drawn, and stop after `asked` rounds if due."""
        self.rows.close((0, *self.ends)[self.drawn])
        stop = self.readout.stop
        ends = stop is not None and stop.then is not None and self.rows.stopped is None
        if ends and self.stopped_at(self.drawn) is not None:
            self.rows.stopped = asked

    # -- post-processing --------------------------------------------------------------------------

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Public descriptions of the metrics, the reward first."""
        stop = self.readout.stop
        return tuple(
            Metric(
                name=one.name,
                low=one.bounds.low,
                high=one.bounds.high,
                default=one.default,
                yes_no=one.yes_no,
                harm=stop is not None and stop.harm == one.name,
            )
            for one in self.outcomes
        )

    def looks(self, count: int) -> tuple[Look, ...]:
        """Return the first `count` released looks."""
        share = self.readout.control.share
        return tuple(
            Look(
                policy=self._group(one, POLICY),
                control=self._group(one, CONTROL),
                share=share,
            )
            for one in self._looks[:count]
        )

    def stopped_at(self, count: int) -> int | None:
        """Return the first of `count` looks, from 1, at which the rule has stopped; None if it has not."""
        stop = self.readout.stop
        if stop is None or not count:
            return None
        seen, found = self._judged
        if found is None and seen < count:
            found = crossed(
                self.looks(count),
                self.metrics,
                harm=stop.harm,
                above=stop.above,
                planned_looks=len(self.ends),
                first=seen + 1,
            )
            self._judged = count, found
        return found if found is not None and found <= count else None

    @property
    def sum_sds(self) -> tuple[float, float]:
        """Standard deviation of a look's sum of rewards, in rounds of the full range: policy and control."""
        policy, control = (
            own.sd * float(self.lattice.scales(gaussian=own.gaussian)[0][0])
            for own in (self.noises.policy, self.noises.control)
        )
        return policy, control

    def diagnostics(self) -> dict[str, Any]:
        """Return public numbers and what releases say of the rule."""
        stop = self.readout.stop
        found = {
            "looks_released": self.settled,
            "look_ends": list(self.ends),
            "control_share": self.readout.control.share,
            "noise_sd": list(self.sum_sds),
        }
        if stop is not None:
            found |= {"stop": {**stop.to_config(), "stopped_at_look": self.stopped_at(self.settled)}}
        return found

    def _group(self, one: _Released, code: int) -> Group:
        own = (self.noises.policy, self.noises.control)[code]
        m, squared = len(self.outcomes), self.lattice.squared
        of_sums, of_squares, of_count = self.lattice.scales(gaussian=own.gaussian)
        released, public = one.sums[code], one.public[code].tolist()
        squares = np.full(m, np.nan)
        squares[squared] = released[m:-1] * of_squares[squared]
        return Group(
            rounds=public[0],
            users=public[1],
            squared_rounds=public[2],
            overlap=public[3],
            sums=released[:m] * of_sums,
            squares=squares,
            answered=float(released[-1] * of_count),
            sum_laws=tuple(own.law_of(step) for step in of_sums.tolist()),
            square_laws=tuple(own.law_of(step) for step in np.nan_to_num(of_squares).tolist()),
            answered_law=own.law_of(of_count),
        )

    # -- state ------------------------------------------------------------------------------------

    def shown(self) -> dict[str, Any]:
        """Return the durable looks and the rule's state as public JSON, for `follow`."""
        looks = [[one.sums.tolist(), one.public.tolist()] for one in self._looks[: self.settled]]
        return {"looks": looks, "closed": self.rows.closed, "stopped": self.rows.stopped}

    def follow(self, shown: Mapping[str, Any]) -> None:
        """Take over what `shown` has returned in the process that releases the looks."""
        self._looks = tuple(
            _Released(*(np.array(part, dtype=np.int64) for part in one)) for one in shown["looks"]
        )
        self.settled, self.rows.stopped = len(self._looks), shown["stopped"]

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the secret arrays of a saved state, by name."""
        count, size = len(self._looks), self.lattice.size
        found = {
            **self.rows.arrays(),
            "readout_sums": np.array([one.sums for one in self._looks], dtype=np.int64).reshape(
                count, 2, size
            ),
            "readout_public": np.array([one.public for one in self._looks], dtype=np.int64).reshape(
                count, 2, PUBLIC_NUMBERS
            ),
        }
        kept = self.deadlines.arrays()
        return found | {f"readout_{name}": array for name, array in kept.items()}

    def restore(self, arrays: Mapping[str, np.ndarray[Any, Any]], *, asked: int) -> None:
        """Restore the arrays of a saved state with `asked` rounds.

        Raises:
            CorruptState: The arrays contradict each other or the configuration.
        """
        sums, public = arrays["readout_sums"], arrays["readout_public"]
        count = len(sums)
        fits = sums.dtype == public.dtype == np.int64 and count <= len(self.ends)
        fits &= sums.shape == (count, 2, self.lattice.size) and public.shape == (count, 2, PUBLIC_NUMBERS)
        if not fits:
            raise CorruptState("the saved looks contradict the saved configuration")
        self.rows.restore(arrays, asked=asked)
        self._looks = tuple(_Released(*one) for one in zip(sums, public, strict=True))
        if self.rows.closed != (0, *self.ends)[count]:
            raise CorruptState("the saved rounds of the readout contradict its looks")
        names = ("deadlines",) if "readout_deadlines" in arrays else ()
        self.deadlines.restore({name: arrays[f"readout_{name}"] for name in names})
        self.settled = count


def check_supported(readout: Readout, setup: Setup, *, release: str) -> None:
    """Raise `InvalidParameter` for another type, and if a policy cannot have this readout.

    Args:
        readout: Public arguments of the readout.
        setup: Public arguments of the policy, with the whole promise.
        release: Kind of release.
    """
    _checks.an(readout, Readout, name="readout", pass_='readout=Readout(control=Control(arm="nothing"))')
    menu, privacy, tuning = setup.menu, setup.privacy, setup.tuning
    if menu is None or setup.actions is not None:
        raise InvalidParameter(
            "readout: needs contexts= and a list of arms=; actions=, Products and domain= have no readout yet"
        )
    if setup.horizon is None or tuning.lag or tuning.decision_sets == "public":
        raise InvalidParameter("readout: needs a known horizon, GPTuning(lag=0) and private decision sets")
    if privacy.rounds_per_user > (MOST_ROUNDS if privacy.user_ids else 1):
        raise InvalidParameter(
            f"readout: a user stays in one group, so several rounds a user need user ids, and are at most "
            f"{MOST_ROUNDS}"
        )
    arm, labels = readout.control.arm, menu.arms
    if isinstance(arm, PublishedPosterior):
        same = arm.menu is not None and arm.menu.contexts.to_config() == menu.contexts.to_config()
        if not same or arm.arms != labels.labels:
            raise InvalidParameter(
                "Control: the published function has other contexts or arms than the policy"
            )
    elif (arm == UNIFORM) == (labels.code(arm) >= 0):
        raise InvalidParameter(
            "Control: expected the label of an arm, or 'uniform', which must not be the label of an arm"
        )
    most = 1.0 / labels.n_arms
    if readout.minimum and release != "marginals":
        raise InvalidParameter("minimum: needs GPTuning(release='marginals'), whose propensities are known")
    if any(labels.code(label) < 0 or least > most for label, least in readout.minimum.items()):
        raise InvalidParameter(
            f"minimum: expected labels of arms, each with a share of at most one over their number, {most:g}"
        )
