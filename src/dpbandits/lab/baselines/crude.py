"""`CrudePolicy`: base class of two simple private baselines, with doubling blocks and fresh noise in each.

The first block is answered at random, and every later round greedily from all releases. Every round belongs
to one block, so the guarantee of one block's release holds for the releases of all blocks together.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dpbandits import _checks, domains
from dpbandits._calls import worded
from dpbandits._config import Configured
from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.central.arguments import check_kinds, tuned
from dpbandits.central.schedule import check_boundaries, growing_blocks
from dpbandits.central.tuning import LONGEST_HORIZON
from dpbandits.errors import CorruptState, InvalidParameter
from dpbandits.policy import RoundPolicy, best_choice, uniform_choice
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.guarantee import MechanismRecord
from dpbandits.privacy.noise import NoiseSource
from dpbandits.privacy.release_terms import Release

__all__ = ["CrudePolicy", "CrudeTuning"]

FIRST_SHARE = 1 / 32
"""Share of the horizon in the first block, which is answered at random. Each later block is twice as long."""


@worded
@dataclass(frozen=True, kw_only=True, eq=False)
class CrudeTuning(Configured):
    """Settings of `PrivateRidge` and `CellHistogram` that most users leave at their defaults.

    Args:
        blocks: Round indices at which blocks end and are released. By default they double.
    """

    blocks: Sequence[int] | None = None


class CrudePolicy(RoundPolicy):
    """A policy that releases sums of every block with fresh noise, and is greedy on all of them.

    Args:
        tuning: See `CrudeTuning`.
        contexts, arms, domain, reward_range, horizon, privacy, **options: See `central.GPBandit`.

    Attributes:
        _mechanism: Mechanism that adds the noise, a dataclass with a field `noise`.
        _released: Noisy integer sums of the first k blocks, shape (k, D) for D sums per block.
        _public: Sums of public data, in the units of the estimates.
    """

    noise: NoiseSource
    privacy: JointDP
    _mechanism: Any
    _released: IntArray
    _public: FloatArray
    config_parsers: ClassVar[Mapping[str, Any]] = {
        **RoundPolicy.config_parsers,
        "tuning": CrudeTuning.from_config,
    }

    def __init__(
        self,
        *,
        horizon: int,
        privacy: JointDP,
        tuning: CrudeTuning | None,
        domain: domains.Domain | None,
        **options: Any,
    ) -> None:
        check_kinds(domain=domain, privacy=privacy, noise=options.get("noise"), optional=("domain", "noise"))
        _checks.integer(horizon, name="horizon")
        if horizon > LONGEST_HORIZON:
            raise InvalidParameter(
                f"horizon is {horizon}, expected at most {LONGEST_HORIZON}: sums are int64"
            )
        super().__init__(domain=domain, horizon=horizon, privacy=privacy, **options)
        first = max(1, round(FIRST_SHARE * horizon))
        given = tuned(tuning, CrudeTuning).blocks
        chosen = growing_blocks(horizon, first=first, growth=2.0) if given is None else given
        self.blocks = self.batch_boundaries = check_boundaries(chosen, horizon)
        self.tuning = CrudeTuning(blocks=self.blocks)

    @abstractmethod
    def _record(self) -> MechanismRecord:
        """Return the record of the mechanism that adds the policy's noise."""

    @abstractmethod
    def _draw(self, block: int, actions: FloatArray, rewards: FloatArray, told: BoolArray) -> IntArray:
        """Return the D noisy sums of a block, shape (D,). Here raw data meets noise.

        `actions`, `rewards` and `told` are the block's rounds, as `RoundBook.block` returns them.
        """

    @abstractmethod
    def _scores(self, candidates: FloatArray) -> FloatArray:
        """Return centred estimates of rewards, (B, n), for B decision sets of n candidates, (B, n, d).

        The estimates are computed from releases alone.
        """

    @property
    def _rounds_out(self) -> int:
        return (0, *self.blocks)[len(self._released)]

    def _is_due(self) -> bool:
        block = len(self._released)
        return block < len(self.blocks) and self._book.asked >= self.blocks[block]

    def _uses(self) -> tuple[Release, ...]:
        record, drawn = self._record(), len(self._released)
        return (Release(purpose="block", record=record, noise=self.noise, drawn=drawn, charge=""),)

    def _release(self) -> None:
        block = len(self._released)
        actions, rewards, told, _ = self._book.block(self._rounds_out, self.blocks[block])
        self._enter_release(self._uses()[0], block)
        self._released = np.vstack([self._released, self._draw(block, actions, rewards, told)])

    def _choose(
        self, candidates: FloatArray, available: BoolArray | None, start: int
    ) -> tuple[IntArray, FloatArray | None]:
        n_sets, n = candidates.shape[:2]
        ties = self._coins.uniform("ties", start, start + n_sets, 1)[:, 0]
        if not len(self._released) and not self._public.any():
            return uniform_choice(ties, n, available)
        return best_choice(self._scores(candidates), ties, available), None

    def _own_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        return {"released": self._released, "public": self._public}

    def _restore_own(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        released, public = arrays["released"], arrays["public"]
        wide = (released.ndim, released.shape[-1]) == (2, self._released.shape[1])
        fits = wide and released.dtype == np.int64 and public.shape == self._public.shape
        if not fits or len(released) > len(self.blocks):
            raise CorruptState("the saved releases contradict the saved configuration")
        self._released, self._public = released, public
        self._mechanism = replace(self._mechanism, noise=self.noise)
