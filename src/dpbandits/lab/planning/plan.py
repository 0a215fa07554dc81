"""`PrivacyPlan`: the result of `plan`, with its text, its table and its picture."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dpbandits.distributed import DistributedSpec
from dpbandits.lab.planning.answers import LEVEL, Curve
from dpbandits.lab.planning.facts import Facts
from dpbandits.lab.worlds import TableBandit
from dpbandits.privacy.definitions import DistributedDP

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PrivacyPlan", "TrustAnswer", "reported_cells"]

BANNER = "Simulated from public facts: nobody was asked, and nothing here is a release."
"""Text that is shown with every plan."""

FEWEST_WORLDS = 4
"""Number of simulated worlds below which an answer is preliminary.

With fewer, typical values from tuning worlds (`answers.COUNTS`) have more weight in the answer's interval
than the simulated worlds.
"""

_CODE = {
    "GPBandit": "central.GPBandit(privacy=JointDP(epsilon={epsilon:g}, delta={delta:g}), horizon={users}, "
    "...)",
    "PrivateRidge": "lab.baselines.PrivateRidge(privacy=JointDP(epsilon={epsilon:g}, delta={delta:g}), ...)",
    "CellHistogram": "lab.baselines.CellHistogram(privacy=JointDP(epsilon={epsilon:g}), ...)",
    "DistributedSpec": "distributed.DistributedSpec(privacy=DistributedDP(epsilon={epsilon:g}), "
    "horizon={users}, ...)",
    "Spec": "local.Spec(privacy=LocalDP(epsilon={epsilon:g}), ...)",
    "Spec smooth": 'local.Spec(privacy=LocalDP(epsilon={epsilon:g}), learner="smooth", ...)',
}
"""Code that creates a policy, by the policy's name. The dots stand for contexts, arms and reward range."""


@dataclass(frozen=True, kw_only=True)
class TrustAnswer:
    """Answer of a plan for one trust model.

    Attributes:
        trust: Trust model.
        policy: Recommended policy, a name of `lab.comparing.RIVALS`.
        epsilon: Smallest epsilon that reaches the target with the requested certainty for all users; None if
            there is none.
        people: Smallest number of users that reaches the target at the promised epsilon; None if all users
            are too few.
        along_epsilon: Predicted retained uplift by epsilon; None if nothing is learned even without privacy.
        along_people: Predicted retained uplift by number of users; None if nothing is learned even without
            privacy.
        better_after: Number of users after which, in half of the worlds, decisions are better than the best
            fixed arm; None if this happens in fewer than half of the worlds.
        better_at: Epsilon at which `better_after` was simulated. It is the smallest simulated epsilon that
            is at least `epsilon`, or the largest if the target is not reachable; None without a simulation.
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
        """True if an epsilon up to the largest one allowed reaches the target."""
        return self.epsilon is not None

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary without the curves, with epsilon rounded up to two digits."""
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
        source: Facts, or a public table.
        users: Number of users to come.
        target: Retained uplift to reach.
        certainty: Probability with which the target is to be reached.
        largest_epsilon: Largest epsilon that may be promised.
        promise: Epsilon for which the smallest sufficient number of users is computed.
        delta: Probability with which the central guarantee may fail.
        answers: Answer of each trust model.
        worlds: Number of simulated worlds.
        seconds: Time of the simulation, in seconds.
        banner: Statement that the plan is a simulation and no release.
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
        """True if there are so few simulated worlds that the answer may still change much."""
        return 0 < self.worlds < FEWEST_WORLDS

    def __str__(self) -> str:
        lines = [self.banner, f"{self.users:,} people, {self.worlds} worlds like theirs"]
        if self.preliminary:
            lines.append(
                f"PRELIMINARY: an answer needs at least {FEWEST_WORLDS} worlds, and this one may change "
                "much. Allow more seconds and worlds."
            )
        for answer in self.answers.values():
            label = " (experimental)" if answer.trust == "distributed" else ""
            lines += ["", f"{answer.trust}{label}:", *(f"  {line}" for line in self._lines(answer))]
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
        if answer.trust == "distributed":
            said = reported_cells(self.source, users=self.users, epsilon=self.promise)
            lines.append(
                f"at epsilon {self.promise:g} there are {said['cells']} cells of contexts, and the noise in "
                "a cell's successes minus failures has standard deviation "
                f"{said['cell_noise']:.1f} a version"
            )
        return lines

    def settings(self, trust: str) -> str | None:
        """Return code that creates the recommended policy of a trust model.

        It is None if the target is not reachable.
        """
        answer = self.answers[trust]
        if answer.epsilon is None:
            return None
        return _CODE[answer.policy].format(epsilon=_up(answer.epsilon), delta=self.delta, users=self.users)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one row per trust model and epsilon or number of users.

        A row has the share, its interval and standard error, and the scatter of a run.

        The curve by epsilon and the curve by users both have a row for the promised epsilon and all users.
        These two rows may differ, because each curve is made increasing along its own axis.
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
        """Return a JSON-ready dictionary of the answers and of `to_rows()`."""
        return {
            "banner": self.banner,
            "users": self.users,
            "target": self.target,
            "certainty": self.certainty,
            "promise": self.promise,
            "level": LEVEL,
            "worlds": self.worlds,
            "preliminary": self.preliminary,
            "answers": {trust: self._told(trust) for trust in self.answers},
            "rows": self.to_rows(),
        }

    def _told(self, trust: str) -> dict[str, Any]:
        told = {**self.answers[trust].to_dict(), "take": self.settings(trust)}
        if trust == "distributed":
            told |= reported_cells(self.source, users=self.users, epsilon=self.promise)
        return told

    def to_json(self) -> str:
        """Return `to_dict` as JSON."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False)

    def picture(self) -> "Figure":
        """Draw the predicted retained uplift by epsilon and by number of users, with intervals and target."""
        from dpbandits.lab.planning.pictures import plan_picture

        return plan_picture(self.to_dict())


def reported_cells(source: Facts | TableBandit, *, users: int, epsilon: float) -> dict[str, float]:
    """Return the number of cells of contexts, of all tables together, and the noise of a cell.

    `cell_noise` is the standard deviation of the noise in a cell's successes minus failures, in reports. It
    is that of one version, from both aggregators.

    Raises:
        InvalidParameter: Columns and arms need more places than there may be.
    """
    spec = DistributedSpec(
        contexts=source.contexts if isinstance(source, Facts) else source.schema,
        arms=tuple(source.arms) if isinstance(source, Facts) else source.arms.labels,
        privacy=DistributedDP(epsilon=epsilon),
        horizon=users,
    )
    cells = spec.grid.size if spec.effects is None else spec.places // spec.n_arms
    return {"cells": cells, "cell_noise": math.sqrt(2.0 * spec.histogram.noise_variance)}


def _up(epsilon: float) -> float:
    unit = 10.0 ** (math.floor(math.log10(epsilon)) - 1)
    return float(f"{math.ceil(epsilon / unit - 1e-9) * unit:.2g}")


def _interval(at: Mapping[str, float]) -> str:
    return f"expected: {at['share']:.0%}; {at['low']:.0%} to {at['high']:.0%} with probability {LEVEL:g}"
