"""Policies of other libraries in our laboratory: `ForeignPolicy`, behind our protocol, of guarantee `none`.

`mabwiser_policy`, `sklearn_policy` and `obp_policy` build them. What they learn they keep as that
library keeps it: everything raw, for ever. Use them on data that everyone may know.
"""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, NoReturn, Protocol, Required, TypedDict, Unpack

import numpy as np

from dpbandits import _checks
from dpbandits._typing import BoolArray, FloatArray, IntArray, Seed
from dpbandits.domains import RewardRange
from dpbandits.domains.arms import Label
from dpbandits.errors import InvalidData, InvalidParameter, ProtocolError
from dpbandits.policy import RoundPolicy, uniform_choice
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.privacy.sentences import shown_to
from dpbandits.tables import Schema
from dpbandits.tables.menu import Menu

__all__ = ["ForeignOptions", "ForeignPolicy", "Player", "menu_of"]


def menu_of(policy: Any) -> Menu:
    """The contexts and arms of one of our policies that are asked and told.

    Raises:
        InvalidParameter: it has none, or is no policy that chooses among arms.
    """
    _checks.an(policy, RoundPolicy, name="policy", pass_="GPBandit(contexts=..., arms=..., ...)")
    menu: Menu | None = getattr(policy, "menu", None)
    if menu is None:
        raise InvalidParameter("policy: expected one that was built with contexts= and arms=")
    return menu


class Player(Protocol):
    """Another library's policy: arms by code, contexts as the schema encodes them."""

    def choose(self, contexts: FloatArray) -> IntArray:
        """Arms (B,) for contexts (B, d)."""

    def learn(self, contexts: FloatArray, arms: IntArray, rewards: FloatArray) -> None:
        """Rewards (n,) of arms (n,) for contexts (n, d)."""

    def expect(self, contexts: FloatArray) -> FloatArray:
        """Expected rewards (B, K); ProtocolError where the library has none."""


class ForeignOptions(TypedDict, total=False):
    """What every such policy takes, as in `lab.baselines`.

    Attributes:
        contexts: public columns of a person's context.
        arms: labels of the arms.
        reward_range: public (low, high).
        horizon: rounds to answer, or None for no bound.
        user_ids: whether asks name their user.
        clip: clip rewards into the range instead of refusing.
        seed: public randomness, until something was learned.
    """

    contexts: Required[Schema]
    arms: Required[Sequence[Label]]
    reward_range: Required[RewardRange | tuple[float, float]]
    horizon: int | None
    user_ids: bool
    clip: bool
    seed: Seed


class ForeignPolicy(RoundPolicy):
    """Another library's policy behind our protocol, for comparisons.

    Until it has learned something every arm is equally likely. It chooses among all arms, and cannot be
    saved: what it learned is another library's object.

    Args:
        player: chooses and learns.
        name: of it in `diagnostics`.
        **options: see `ForeignOptions`.

    Privacy: none.
    """

    kind = "adapters.ForeignPolicy"

    def __init__(self, player: Player, *, name: str, **options: Unpack[ForeignOptions]) -> None:
        given: dict[str, Any] = {"horizon": None, "user_ids": False, "clip": False, **options}
        super().__init__(**given, privacy=None)
        self._player, self._name, self._learned = player, name, False

    @property
    def guarantee(self) -> Guarantee:
        """None is given."""
        return Guarantee.without_privacy(
            observers=(
                shown_to("every other user", "arms computed from everybody's raw contexts and rewards"),
                shown_to("anyone who asks", "predictions computed from the same"),
            ),
            notes=(f"This is {self._name}, in the laboratory. Use it on data that everyone may know.",),
        )

    def _choose(
        self, candidates: FloatArray, available: BoolArray | None, start: int
    ) -> tuple[IntArray, FloatArray | None]:
        if not self._learned:
            ties = self._coins.uniform("ties", start, start + len(candidates), 1)[:, 0]
            return uniform_choice(ties, candidates.shape[1], available)
        if available is not None and not available.all():
            raise InvalidData(f"available: {self._name} chooses among all of its arms")
        codes = np.asarray(self._player.choose(candidates[:, 0, :-1]), dtype=np.int64)
        matches = candidates[:, :, -1] == codes[:, None]
        if not matches.any(axis=1).all():
            raise InvalidData("candidates: expected one row an arm, in the manner of contexts and arms")
        return np.argmax(matches, axis=1).astype(np.int64), None

    def _learn(self, rounds: IntArray, actions: FloatArray, rewards: FloatArray) -> None:
        self._learn_public(actions, rewards)

    def _learn_public(self, points: FloatArray, rewards: FloatArray) -> None:
        self._player.learn(points[:, :-1], points[:, -1].astype(np.int64), rewards)
        self._learned = True

    def _predict(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Its expected rewards, and no deviations (NaN); before it has learned, the middle of the range."""
        nothing = np.full(len(points), np.nan)
        if not self._learned:
            return np.full(len(points), self.reward_range.middle), nothing
        expected = np.asarray(self._player.expect(points[:, :-1]), dtype=np.float64)
        return expected[np.arange(len(points)), points[:, -1].astype(np.int64)], nothing

    def diagnostics(self) -> dict[str, Any]:
        """What it is."""
        return super().diagnostics() | {"policy": self._name}

    def to_config(self) -> NoReturn:
        """Refused: the configuration is another library's."""
        raise ProtocolError(f"{self._name} is another library's object, which has no configuration here")

    def save(self, path: str | PathLike[str], *, key: object = None) -> NoReturn:
        """Refused: the state is another library's."""
        raise ProtocolError(f"{self._name} is another library's object, and cannot be saved here")

    def _arrays(self) -> NoReturn:
        self.to_config()

    def _restore(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        self.to_config()
