"""Answers of `plan`: `PrivacyPlan`, with its text, its table and its picture."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dpbandits.lab.planning.answers import LEVEL, Curve
from dpbandits.lab.planning.facts import Facts
from dpbandits.lab.worlds import TableBandit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PrivacyPlan", "TrustAnswer"]

BANNER = "Simulated from public facts: nobody was asked, and nothing here is a release."
"""Said of every plan."""

FEWEST_WORLDS = 4
"""Simulated worlds below which an answer is called preliminary: with fewer, what is typical of other worlds
(`answers.COUNTS`) weighs more in its interval than the worlds themselves."""

_CODE = {
    "GPBandit": "central.GPBandit(privacy=JointDP(epsilon={epsilon:g}, delta={delta:g}), horizon={users}, "
    "...)",
    "PrivateRidge": "lab.baselines.PrivateRidge(privacy=JointDP(epsilon={epsilon:g}, delta={delta:g}), ...)",
    "CellHistogram": "lab.baselines.CellHistogram(privacy=JointDP(epsilon={epsilon:g}), ...)",
    "Spec": "local.Spec(privacy=LocalDP(epsilon={epsilon:g}), ...)",
    "Spec smooth": 'local.Spec(privacy=LocalDP(epsilon={epsilon:g}), learner="smooth", ...)',
}
"""Policy -> how it is written, with contexts, arms and reward range where the dots are."""


@dataclass(frozen=True, kw_only=True)
class TrustAnswer:
    """Answer of a plan for one trust model.

    Attributes:
        trust: whom people trust.
        policy: which policy to take, a name of `lab.comparing.RIVALS`.
        epsilon: smallest that reaches the target with the certainty asked for, with all users; or None.
        people: fewest that reach it at the promise; None: not even all users.
        along_epsilon, along_people: predicted shares; None where nothing is learned even without privacy.
        better_after: people after whom, in half of the worlds, decisions are better than the best fixed arm;
            None: in less than half of them.
        better_at: epsilon at which that was simulated: the smallest tried that is no smaller than `epsilon`,
            or the largest where the target is not reachable; None: nothing was simulated.
    """

    trust: str
    policy: str
    epsilon: float | None
    people: int | None
    along_epsilon: Curve | None
    along_people: Curve | None
    better_after: int | None
    better_at: float | None

    @property
    def reachable(self) -> bool:
        """Return whether some epsilon that may be promised reaches the target."""
        return self.epsilon is not None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, without the curves; epsilon to two digits, upwards."""
        return {
            "reachable": self.reachable,
            "epsilon": None if self.epsilon is None else _up(self.epsilon),
            "people": self.people,
            "better_after": self.better_after,
            "better_at": self.better_at,
            "policy": self.policy,
        }


@dataclass(frozen=True, kw_only=True)
class PrivacyPlan:
    """Predicted cost of privacy: a simulation from public facts, with no release and no promise.

    Attributes:
        source: facts, or a public table.
        users: people to come.
        target, certainty: what is to be kept of the non-private uplift, and with which probability.
        largest_epsilon, promise, delta: what may be promised, what the number of people was asked at, and
            delta of central promises.
        answers: trust model -> answer.
        worlds: how many were simulated.
        seconds: how long that took.
        banner: says what it rests on.
    """

    source: Facts | TableBandit = field(repr=False)
    users: int
    target: float
    certainty: float
    largest_epsilon: float
    promise: float
    delta: float
    answers: Mapping[str, TrustAnswer]
    worlds: int
    seconds: float
    banner: str = field(default=BANNER, init=False)

    @property
    def preliminary(self) -> bool:
        """Return whether the answer rests on so few simulated worlds that it may still change much."""
        return 0 < self.worlds < FEWEST_WORLDS

    def __str__(self) -> str:
        lines = [self.banner, f"{self.users:,} people, {self.worlds} worlds like theirs"]
        if self.preliminary:
            lines.append(
                f"PRELIMINARY: an answer needs at least {FEWEST_WORLDS} worlds, and this one may change "
                "much. Allow more seconds and worlds."
            )
        for answer in self.answers.values():
            lines += ["", f"{answer.trust}:", *(f"  {line}" for line in self._lines(answer))]
        return "\n".join(lines)

    def _lines(self, answer: TrustAnswer) -> list[str]:
        kept = f"{self.target:.0%} of the non-private uplift"
        if answer.along_epsilon is None:
            return [f"not reachable: with {self.users:,} people nothing is learned even without privacy"]
        if answer.epsilon is None:
            curve, most = answer.along_epsilon, f"{self.largest_epsilon:g}"
            lines = [
                f"not reachable: with {self.users:,} people no epsilon up to {most} keeps {kept} with "
                f"probability {self.certainty:g}; epsilon {most} keeps at least {curve.sure[-1]:.0%} of it "
                f"with that probability ({_interval(curve.at(curve.places[-1]))})"
            ]
        else:
            shown = _up(answer.epsilon)
            there = answer.along_epsilon.at(min(shown, self.largest_epsilon))
            lines = [
                f"epsilon {shown:g} keeps at least {kept} with probability {self.certainty:g} "
                f"({_interval(there)})",
                f"take {self.settings(answer.trust)}",
            ]
        fewest = "more people than that" if answer.people is None else f"{answer.people:,} people"
        lines.append(f"at epsilon {self.promise:g} it takes {fewest}")
        if answer.better_after is None:
            better = "decisions do not become better than the best fixed arm in half of the worlds"
        else:
            better = f"decisions are better than the best fixed arm after {answer.better_after:,} people"
        lines.append(f"at epsilon {answer.better_at:g} {better}")
        return lines

    def settings(self, trust: str) -> str | None:
        """The policy to take, and with which promise, as one writes it; None: not reachable."""
        answer = self.answers[trust]
        if answer.epsilon is None:
            return None
        return _CODE[answer.policy].format(epsilon=_up(answer.epsilon), delta=self.delta, users=self.users)

    def to_rows(self) -> list[dict[str, Any]]:
        """One row a trust model and place of either curve: share, its interval, error, scatter of a run.

        Where the curves meet, at the promise and all users, they say two things: each is a prediction of its
        own, made increasing along its axis, from the same runs there and other ones beside.
        """
        found = []
        for answer in self.answers.values():
            fixed = {"trust": answer.trust, "policy": answer.policy}
            if answer.along_epsilon is not None:
                rows = answer.along_epsilon.to_rows()
                found += [{**fixed, "along": "epsilon", "people": self.users, **row} for row in rows]
            if answer.along_people is not None:
                rows = answer.along_people.to_rows()
                found += [{**fixed, "along": "people", "epsilon": self.promise, **row} for row in rows]
        return found

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: the answers and `to_rows`."""
        return {
            "banner": self.banner,
            "users": self.users,
            "target": self.target,
            "certainty": self.certainty,
            "promise": self.promise,
            "level": LEVEL,
            "worlds": self.worlds,
            "preliminary": self.preliminary,
            "answers": {
                trust: {**answer.to_dict(), "take": self.settings(trust)}
                for trust, answer in self.answers.items()
            },
            "rows": self.to_rows(),
        }

    def to_json(self) -> str:
        """`to_dict` as JSON."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False)

    def picture(self) -> "Figure":
        """Predicted shares along epsilon and along people, with their intervals and the target."""
        from dpbandits.lab.planning.pictures import plan_picture

        return plan_picture(self.to_dict())


def _up(epsilon: float) -> float:
    """To two digits, upwards."""
    unit = 10.0 ** (math.floor(math.log10(epsilon)) - 1)
    return float(f"{math.ceil(epsilon / unit - 1e-9) * unit:.2g}")


def _interval(at: Mapping[str, float]) -> str:
    return f"expected: {at['share']:.0%}; {at['low']:.0%} to {at['high']:.0%} with probability {LEVEL:g}"
