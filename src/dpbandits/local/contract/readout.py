"""Contract of a readout: did the policy work? Each device reports one randomised bit about its outcome.

A device draws its group by a coin. In the *control* group it gives the control's arm, in the *policy* group
the arm of a published version. It then reports its group in the open, and a bit about the outcome under
randomised response. The server compares the two groups (`Server.readout`).

**Law of a report.** Let s in [0, 1] be the outcome as a share of its range; an outcome that is missing has a
public share instead. The device draws a bit that is 1 with probability s. It reports this bit with
probability p and the other one with probability q = 1 - p. So the report is 1 with probability
q + (p - q) s, which lies between q and p for every s. For two outcomes of one user, missing or not, the
probabilities of each report differ at most by the factor p/q <= exp(epsilon).

**Group.** The coin is drawn before the context is used, and does not depend on any data. So a report with
its group has the same largest ratio as the bit alone. The group is decided once for each device, which sends
one report.

This module needs only NumPy and the standard library, as clients import it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dpbandits import _checks
from dpbandits._calls import worded
from dpbandits._checks import an, assign, integer
from dpbandits._reading import json_object, reading
from dpbandits.domains.arms import Label
from dpbandits.domains.rewards import RewardRange
from dpbandits.errors import IncompatibleState, InvalidParameter
from dpbandits.local.contract.bins import PublishedArms
from dpbandits.local.contract.reports import DEADLINE, Chosen, Contract, ReportProtocol, a_text
from dpbandits.local.contract.spec import Spec
from dpbandits.privacy.definitions import LocalDP
from dpbandits.privacy.reports import RandomisedResponse
from dpbandits.privacy.reports.mechanism import LATTICE
from dpbandits.privacy.words import secure_words

if TYPE_CHECKING:
    from dpbandits.privacy.guarantee import Guarantee

__all__ = ["CONTROL", "POLICY", "OutcomeReports", "ReadoutSpec", "read_spec"]

CONTROL, POLICY = 0, 1
"""Groups as reports name them."""

_NEVER = 2**62
"""Number of reports after which a new version would be published: a readout has one version."""

_MOST_USERS = 2**53


@worded
@dataclass(frozen=True, kw_only=True, eq=False)
class ReadoutSpec(Contract[PublishedArms]):
    """The public contract of a comparison between a published policy and a control, under local privacy.

    Args:
        target: Spec of the policy.
        policy: Version of the policy, from the target's server. It stays the same for the whole readout.
        control: Label of the arm that the control group gets.
        privacy: Guarantee of the one report of each device.
        n_users: Expected number of devices that report. The interval that may be read at all times is
            narrowest there.
        share: Share of devices in the control group, in (0, 1).
        reward_range: Public bounds of outcomes; clients clip to them. None stands for the target's.
        missing: Outcome that stands for a missing one; None for the lower bound.
        seed: Public number that distinguishes several readouts of one version.
        deadline: Seconds after a choice at which a client reports it, with or without an outcome.

    Privacy: local DP of the report; the unit is one user's whole data. Losses to the target's spec and to the
    readout add up.

    Raises:
        InvalidParameter: an argument is out of range.
        IncompatibleState: the version belongs to another spec.

    Example:
        >>> import dpbandits as dpb
        >>> spec = Spec(contexts=dpb.Box([0], [1]), arms=["none", "mail"], privacy=LocalDP(epsilon=1))
        >>> version = dpb.local.Server(spec).publish()
        >>> readout = ReadoutSpec(
        ...     target=spec, policy=version, control="none", privacy=LocalDP(epsilon=1), n_users=10_000)
        >>> client, server = dpb.local.Client(readout), dpb.local.Server(readout)
        >>> arm = client.choose(server.publish(), [0.3])
        >>> server.absorb([client.report(1.0)]).accepted
        1
    """

    config_label, config_type, written_format = "kind", "ReadoutSpec", 1
    config_parsers = {  # noqa: RUF012
        "target": Spec.from_config,
        "privacy": LocalDP.from_config,
        "reward_range": RewardRange.from_config,
    }

    target: Spec
    policy: PublishedArms
    control: Label
    privacy: LocalDP
    n_users: int
    share: float = 0.5
    reward_range: RewardRange = None  # type: ignore[assignment]  # None is replaced by the target's
    missing: float = None  # type: ignore[assignment]  # None is replaced by the lower bound
    seed: int = 0
    deadline: float = DEADLINE

    def __post_init__(self) -> None:
        target = an(self.target, Spec, name="target", pass_="target=Spec(...)")
        version = an(self.policy, PublishedArms, name="policy", pass_="policy=server.publish()")
        version.lineage(target)
        # A copy, as `lineage` binds a version to one spec. Clients need no expected rewards.
        assign(self, policy=replace(version, version=0, mean=None, sd=None))
        an(self.privacy, LocalDP, name="privacy", pass_="privacy=LocalDP(epsilon=1)")
        if target.protocol.arms.code(self.control) < 0:
            raise InvalidParameter("control: expected the label of one of the target's arms")
        if integer(self.n_users, name="n_users", minimum=1) > _MOST_USERS:
            raise InvalidParameter(f"n_users: expected an integer from 1 to {_MOST_USERS}")
        integer(self.seed, name="seed", minimum=0)
        _checks.settle(self, deadline=_checks.number)
        share = _checks.probability(self.share, name="share")
        if not 0 < round(share * LATTICE) < LATTICE:
            raise InvalidParameter("share: expected a number above 0 and below 1")
        asked: Any = self.reward_range
        bounds = RewardRange.of(target.reward_range if asked is None else asked)
        assign(self, share=share, reward_range=bounds)
        given: Any = self.missing
        given = bounds.low if given is None else given
        ends = {"minimum": bounds.low, "maximum": bounds.high}
        assign(self, missing=_checks.number(given, name="missing", exclusive=False, **ends))
        self.protocol.bit  # refuses an epsilon that cannot hold  # noqa: B018

    @classmethod
    def arguments(cls, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields that a configuration describes; see `Written.arguments`."""
        fields = super().arguments(config)
        fields["policy"] = fields["target"].protocol.publishes.from_config(fields["policy"])
        return fields

    @property
    def kinds(self) -> int:
        """Number of groups, which a report names in the open; see `Contract.kinds`."""
        return 2

    @cached_property
    def protocol(self) -> "OutcomeReports":
        """Implementation of the contract for clients and servers; see `Contract.protocol`."""
        return OutcomeReports(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReadoutSpec) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.to_json())


class OutcomeReports(ReportProtocol[PublishedArms]):
    """Implementation of a `ReadoutSpec` for clients and servers: a report holds a group and a bit.

    Attributes:
        bit: Mechanism of the bit: randomised response over two values.
        cells: Protocol of the target, which decides in the policy group.
        schema, menu, arms, layout, domain, places: Those of the target's `CellReports`.
    """

    report_format = 0xD3
    window, reports_per_version, most_reports = 0, _NEVER, 1

    def __init__(self, spec: ReadoutSpec) -> None:
        self._spec, self.cells = spec, spec.target.protocol
        self.publishes, self.layout = self.cells.publishes, self.cells.layout
        self.schema, self.menu, self.arms = self.cells.schema, self.cells.menu, self.cells.arms
        self.domain, self.places = self.cells.domain, self.cells.places
        self.bit = RandomisedResponse(n_cells=1, epsilon=spec.privacy.epsilon)
        self._control = self.arms.code(spec.control)
        self._below = round(spec.share * LATTICE)

    @property
    def weight(self) -> float:
        """Effect of one forged report on its group's mean, as a number of honest users."""
        return self.bit.weights[1]

    def fits(self, published: PublishedArms) -> None:
        """Raise IncompatibleState for any version but that of the contract."""
        self.layout.fits(published)
        if published.to_config() != self._spec.policy.to_config():
            raise IncompatibleState("the version is not the one that the readout compares")

    def label(self, arm: int) -> Any:
        """Return the label of the arm number `arm`."""
        return self.cells.label(arm)

    def check(self, context: Any) -> None:
        """Check a context as `Contract.check` describes."""
        self.cells.check(context)

    def own(self, privacy: LocalDP | None) -> LocalDP:
        """Return the contract's guarantee, which every client has; see `ReportProtocol.own`."""
        if privacy not in (None, self._spec.privacy):
            raise InvalidParameter("privacy: expected None or the spec's own privacy")
        return self._spec.privacy

    def choose(
        self, published: PublishedArms, context: Any, _privacy: LocalDP, available: Any = None
    ) -> Chosen:
        """Return a client's choice, about its group, which is drawn before the context is read.

        If the group's arm is not available, another one is given. The report is about the group all the same.
        """
        group = CONTROL if int(secure_words(1)[0]) < self._below else POLICY
        published.lineage(self._spec)
        control = self._control if group == CONTROL else None
        choice = self.cells.served(published, context, available, instead=control)
        choice.about = group
        return choice

    def decide(
        self, published: PublishedArms, context: Any, _privacy: LocalDP, available: Any = None
    ) -> Chosen:
        """Return the choice of the policy. A client without a report is in no group."""
        published.lineage(self._spec)
        return self.cells.served(published, context, available)

    def exact(self, _choice: Chosen, reward: float | None) -> bool:
        """Return the bit: True with probability equal to the outcome, scaled to [0, 1].

        A missing outcome counts as the public one here, before the noise.
        """
        bounds = self._spec.reward_range
        outcome = self._spec.missing if reward is None else reward
        share = min(1.0, max(0.0, (outcome - bounds.low) / bounds.width))
        return int(secure_words(1)[0]) < share * LATTICE

    def noised(self, choice: Chosen, exact: bool, _privacy: LocalDP) -> bytes:  # noqa: FBT001
        """Return the payload: the group, and the bit under randomised response.

        Here the user's data meets randomness.
        """
        return bytes([choice.about]) + self.bit.encode(0, positive=exact)

    def terms(self, privacy: LocalDP) -> dict[str, Any]:
        """Return the `ReleaseLog` entry of reports with this guarantee."""
        return {
            "law": "randomised response over one bit",
            "scale": privacy.epsilon,
            "sensitivity": privacy.epsilon,
            "unit": "in log-likelihood ratios",
            "certificate": {"kind": "PureDP", "epsilon": privacy.epsilon},
            "releases": 1,
            "source": "SecureNoise",
            "status": self.status,
        }

    def statement(self, privacy: LocalDP) -> "Guarantee":
        """Return the guarantee of the report; see `ReportProtocol.statement`."""
        from dpbandits.local.contract.statement import readout_guarantee

        return readout_guarantee(
            epsilon=privacy.epsilon,
            exact=self.bit.exact_epsilon,
            share=self._spec.share,
            missing=self._spec.missing,
            weight=self.weight,
        )

    def counted_by(self, _published: PublishedArms) -> tuple[Any, ...]:
        """Return the mechanism that counts the bits of both groups."""
        return self.bit, self.bit


def read_spec(text: str) -> Spec | ReadoutSpec:
    """Read a contract of either kind from the text of `to_json`. Raise IncompatibleState for other texts."""
    what = "the JSON of a Spec"
    with reading(what, IncompatibleState):
        a_text(text)
        kind = json_object(text, what, IncompatibleState).get("kind")
    return ReadoutSpec.from_json(text) if kind == ReadoutSpec.config_type else Spec.from_json(text)
