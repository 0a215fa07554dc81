"""Warm start from private data: a published function as a policy's prior.

`GPBandit.warm_start(published, disjoint=...)` takes the function's predictions over the domain, mean and
standard deviation. It converts them to statistics of artificial observations: about as many as features,
each as uncertain as the function. The policy adds these statistics to those of its releases. It uses nothing
but the published function.

**Privacy.** For users in the function's data, the function is a release and the policy is post-processing of
it. With `disjoint=True`, which nobody checks, the policy has other users, and their guarantee is unchanged.
With `disjoint=False` both guarantees add up, in the statement and, if an account is charged, in its ledger.
In both cases the log of releases has the function's terms and the value of `disjoint`. A state that
contradicts them is refused.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from dpbandits._reading import json_object, reading
from dpbandits._typing import FloatArray
from dpbandits.budget import cost_of_guarantee
from dpbandits.central.published_function import PublishedFunction
from dpbandits.central.statement import OF_OTHERS, OF_THE_SAME
from dpbandits.domains import Domain, RewardRange
from dpbandits.errors import CorruptState, InvalidParameter
from dpbandits.models.features import Features, Placed
from dpbandits.privacy import sentences
from dpbandits.privacy.certificates import rounded_up
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.guarantee import Assumption, Guarantee, MechanismRecord, Status
from dpbandits.privacy.release_terms import Release
from dpbandits.state.holder import Holder
from dpbandits.tables.menu import Menu

__all__ = ["Beginning", "observations_of"]

POINTS = 1 << 12
"""Number of points of the domain at which the function is
evaluated, which is at least a hundred per feature.
"""

LEAST_SD = 1e-3
"""Smallest assumed standard deviation of a published function, as a share of the reward range."""

PART = "Published function"
"""Name of the part of a statement to which assumptions about the function belong."""

DISJOINT = sentences.unchecked(
    "disjoint users",
    "Nobody whose data is in the published function given to warm_start is a user of this policy. (For "
    "somebody who is, both promises together hold: build with disjoint=False to have them added up.)",
)
EARLIER = sentences.unchecked(
    "earlier users",
    "Nobody whose data is in an earlier function, from which the published function began, is a user of this "
    "policy. This concerns functions that were given as other people's.",
)
ITS_EARLIER = "its earlier users"
"""Name that the assumption `EARLIER` of the function's own statement gets in the policy's statement."""

BEGAN = (
    "The policy began from a published function, whose own promise to the people in its data is {title} at "
    "epsilon = {epsilon}, delta = {delta}, and is unchanged: this policy sees nothing of them but the "
    "published function."
)
TOGETHER = (
    "The promise covers both releases together, for a user who is also in the data of the published function "
    "given to warm_start: {own} for asks and tells here, {theirs} for the function."
)
SIMULATED_PRIOR = "Noise of the published function was simulated: nobody in its data is protected."
PAID_HERE = sentences.enforced(
    "function charged", "The account of this policy paid for the function given to warm_start as well."
)
PAID_BEFORE = sentences.unchecked(
    "earlier charge",
    "The earlier charge named to warm_start was for the published function. By it the account of this policy "
    "paid no less than that function costs.",
)
BOTH_ADD_UP = (
    " The published function given to warm_start was released before; releases here follow it adaptively, "
    "and the losses of both add up."
)


@dataclass(frozen=True, kw_only=True)
class Beginning:
    """Published function from which a policy started.

    Args:
        guarantee: Guarantee of the function.
        disjoint: True if the caller declares that nobody in the function's data is a user of the policy.
        paid: "here" if the policy's account was charged for the function, "before" if an earlier charge is
            named; None if no account was charged.

    Raises:
        InvalidParameter: The function has no certificate, or its guarantee cannot be added to the policy's.
    """

    guarantee: Guarantee
    disjoint: bool
    paid: Literal["here", "before"] | None = None

    def __post_init__(self) -> None:
        if self.guarantee.certificate is None:
            raise InvalidParameter(
                f"warm_start: the function's own statement has status {self.guarantee.status!r}, and nothing "
                "is proven of it: pass public data as points and rewards instead"
            )
        if not self.disjoint and not isinstance(self.guarantee.definition, JointDP):
            raise InvalidParameter(
                f"warm_start: the function promises {self.guarantee.definition.title}, which does not add up "
                "with joint differential privacy: only disjoint=True is possible"
            )

    @classmethod
    def from_function(cls, published: Any, *, disjoint: bool | None, charged_as: str | None) -> "Beginning":
        """Build a `Beginning` from the arguments of `warm_start`.

        Raises:
            InvalidParameter: `published` is not a published function, or `disjoint` is missing.
        """
        if not isinstance(published, PublishedFunction):
            raise InvalidParameter(
                f"warm_start: a {type(published).__name__} without rewards: pass points and rewards, or a "
                "central.PublishedFunction"
            )
        if not isinstance(disjoint, bool):
            raise InvalidParameter(
                "warm_start: pass disjoint=True if nobody in the function's data is a user of this policy, "
                "or disjoint=False if some may be: their two promises are then added up"
            )
        if disjoint and charged_as is not None:
            raise InvalidParameter("charged_as: with disjoint=True the account pays nothing for the function")
        return cls(guarantee=published.guarantee, disjoint=disjoint)

    def paid_by(self, holder: Holder, *, charged_as: str | None = None) -> "Beginning":
        """Return a copy with `paid` set, after finding the charge `charged_as` or charging the account now.

        Raises:
            InvalidParameter: There is no charge with this id, or it is too small.
            BudgetExceeded: The account cannot pay.
        """
        if self.disjoint or self.paid is not None:
            return self
        if holder.ledger is None or holder.account is None:
            if charged_as is not None:
                raise InvalidParameter("charged_as: this policy has no account")
            return self
        cost = cost_of_guarantee(self.guarantee)
        if charged_as is None:
            holder.charge("prior", cost=cost)
            return replace(self, paid="here")
        needed = cost.charged_to(holder.ledger.balance(holder.account).terms, account=holder.account)
        paid = holder.ledger.charged(holder.account, charged_as)
        own = charged_as.startswith(holder.lineage)  # a charge of this policy pays for its own releases
        if own or paid is None or not paid.covers(needed):
            raise InvalidParameter(
                "charged_as: the account has not paid for this function under that id: name the charge that "
                "published it, or leave charged_as out and the account pays for it here"
            )
        return replace(self, paid="before")

    # -- the statement --------------------------------------------------------------------------

    def stated(self, own: Guarantee) -> Guarantee:
        """Return the policy's statement with this warm start added, given the statement `own` without it."""
        theirs = self.guarantee
        simulated = (SIMULATED_PRIOR,) if theirs.status == "simulated" else ()
        if self.disjoint:
            note = BEGAN.format(
                title=theirs.definition.title, epsilon=f"{theirs.epsilon:g}", delta=f"{theirs.delta:g}"
            )
            assumptions = sentences.in_order((*own.assumptions, DISJOINT))
            limits = (*own.limits, *simulated)
            return replace(own, assumptions=assumptions, limits=limits, notes=(*own.notes, note))
        if own.certificate is None or theirs.certificate is None or not isinstance(own.definition, JointDP):
            raise InvalidParameter("the policy has no certificate, so there is no promise to add up")
        delta = own.delta + theirs.delta
        both = own.certificate.closest_beside(theirs.certificate, delta=delta)
        epsilon = float(rounded_up(both.epsilon_at(delta) * (1.0 + 1e-9), 9))
        note = TOGETHER.format(own=_numbers(own), theirs=_numbers(theirs))
        return replace(
            own,
            definition=replace(own.definition, epsilon=epsilon, delta=delta),
            epsilon=epsilon,
            delta=delta,
            certificate=both,
            mechanisms=(*own.mechanisms, self.record()),
            assumptions=sentences.in_order((*own.assumptions, *self._payment(), *self._carried(own))),
            theorem=own.theorem + BOTH_ADD_UP,
            unit=f"{own.unit}; in the published function {theirs.unit.removeprefix('one user: ')}",
            neighbours=f"{own.neighbours}; and of the published function's data, {theirs.neighbours}",
            limits=(*own.limits, *simulated),
            notes=(*own.notes, note),
        )

    def _carried(self, own: Guarantee) -> tuple[Assumption, ...]:
        """Return the function's unchecked assumptions, if the policy's guarantee covers users of both."""
        said = {one.text for one in own.assumptions}
        theirs = [one for one in self.guarantee.assumptions if not one.enforced]
        before = {one.text for one in theirs} & {DISJOINT.text, EARLIER.text}
        carried = [one for one in theirs if one.text not in said]
        # the function's own assumption about its earlier functions is another one
        carried = [replace(one, name=ITS_EARLIER) if one.text == EARLIER.text else one for one in carried]
        found = (*([EARLIER] if before else []), *carried)
        return tuple(dict.fromkeys(replace(one, part=PART) for one in found))

    def _payment(self) -> tuple[Assumption, ...]:
        if self.paid == "here":
            return (PAID_HERE,)
        return () if self.paid is None else (replace(PAID_BEFORE, part=PART),)

    # -- the log of releases --------------------------------------------------------------------

    def record(self) -> MechanismRecord:
        """Return the function's last mechanism, with the certificate of all its mechanisms together."""
        name = "published function given to warm_start"
        if not self.guarantee.mechanisms:
            raise InvalidParameter("warm_start: the function's guarantee lists no mechanism")
        last = self.guarantee.mechanisms[-1]
        return replace(last, name=name, certificate=self.guarantee.certificate, releases=1)

    def release(self) -> Release:
        """Return the entry of the function in the log of releases."""
        source: Any = _ExternalNoise(self.guarantee.status)
        purpose = OF_OTHERS if self.disjoint else OF_THE_SAME
        return Release(purpose=purpose, record=self.record(), noise=source, drawn=1, charge=None)

    # -- state ------------------------------------------------------------------------------------

    def to_array(self) -> np.ndarray[Any, Any]:
        """Return this object as the bytes of its JSON, for a saved state."""
        config = {
            "disjoint": self.disjoint,
            "paid": self.paid,
            "guarantee": json.loads(self.guarantee.to_json()),
        }
        return np.frombuffer(json.dumps(config).encode(), dtype=np.uint8).copy()

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray[Any, Any]]) -> "Beginning | None":
        """Read a `Beginning` from a saved state; None if the state has none.

        Raises:
            CorruptState: The state has something else in its place.
        """
        kept = arrays.get("beginning", np.zeros(0, dtype=np.uint8))
        if not kept.size:
            return None
        with reading("the saved warm start", CorruptState):
            what = "the saved warm start"
            config = json_object(kept.astype(np.uint8).tobytes().decode(), what, CorruptState)
            if not isinstance(config["disjoint"], bool) or config["paid"] not in (None, "here", "before"):
                raise CorruptState("the saved warm start cannot be read")
            return cls(
                guarantee=Guarantee.from_json(json.dumps(config["guarantee"])),
                disjoint=config["disjoint"],
                paid=config["paid"],
            )


@dataclass(frozen=True)
class _ExternalNoise:
    """Noise source that stands for the noise in a release that another object made."""

    status: Status

    def to_config(self) -> dict[str, Any]:
        return {"kind": "elsewhere"}


def _numbers(guarantee: Guarantee) -> str:
    return f"epsilon = {guarantee.epsilon:g}, delta = {guarantee.delta:g}"


def observations_of(
    published: PublishedFunction,
    *,
    features: Features,
    domain: Domain,
    menu: Menu | None,
    reward_range: RewardRange,
    reward_variance: float,
) -> tuple[Placed, FloatArray]:
    """Return features and values (k,) of artificial observations that are as informative as the function.

    At each of N points of the domain, where the function has mean y and deviation s, there is an observation
    y of variance s^2 N/m, for m features. A function known by these observations alone has deviation s, on
    average over the domain. Features and values are divided by the ratio of the observation's deviation to
    that of a reward. Arms that the function does not have get no observations.

    Args:
        published: Published function.
        features, domain, menu, reward_range: Attributes of the policy.
        reward_variance: Variance of a reward given its mean in the model, in squared widths of the range.

    Raises:
        InvalidParameter: The function has other contexts, another domain, or none of the arms.
    """
    points = domain.sample(POINTS, np.random.Generator(np.random.Philox(0)))
    known, asked = published.asked_at(points, menu=menu, domain=domain)
    mean, sd = published.at_points(asked)
    spread = np.maximum(sd / reward_range.width, LEAST_SD)
    weight = np.sqrt(reward_variance * features.n_features / POINTS) / spread
    support, phi = features.placed(points[known])
    rows = Placed(support, weight[:, None] * phi)
    values = weight * (mean - reward_range.middle) / reward_range.width
    if not (np.isfinite(rows.phi).all() and np.isfinite(values).all()):
        raise InvalidParameter("warm_start: the function's predictions are not finite")
    return rows, values
