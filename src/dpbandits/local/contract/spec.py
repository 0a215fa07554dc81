"""The public contract of a locally private bandit, fixed before any report (`Spec`).

`CellReports` implements the contract for clients and servers. This module needs only NumPy and the standard
library, as clients import it.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from dpbandits import _checks
from dpbandits._calls import caller_level, worded
from dpbandits._checks import an, assign, integer
from dpbandits._config import Configured
from dpbandits._reading import config_type
from dpbandits._typing import FloatArray, IntArray
from dpbandits.domains import Arms, Box
from dpbandits.domains.arms import Label
from dpbandits.domains.rewards import RewardRange
from dpbandits.errors import DPBanditsWarning, InvalidParameter, ProtocolError
from dpbandits.local.contract.bins import BinLayout, Chooser, PublishedArms
from dpbandits.local.contract.grid import (
    MOST_ASKED,
    MOST_CELLS,
    MOST_COLUMNS,
    MOST_PARTS,
    GridLayout,
    asks_about,
    fits_a_grid,
)
from dpbandits.local.contract.layout import Layout
from dpbandits.local.contract.reports import (
    DEADLINE,
    Chosen,
    Contract,
    ReportProtocol,
    check_points,
    read_points,
)
from dpbandits.privacy.definitions import LocalDP
from dpbandits.privacy.reports import MECHANISMS, ReportMechanism, mechanism
from dpbandits.privacy.reports.mechanism import LATTICE
from dpbandits.privacy.samplers import uniform_below
from dpbandits.privacy.words import secure_words
from dpbandits.tables import Actions, Schema
from dpbandits.tables.device_menu import DeviceMenu, offered
from dpbandits.tables.menu import listed_arms

if TYPE_CHECKING:
    from dpbandits.privacy.guarantee import Guarantee

__all__ = ["CellReports", "LearnerName", "Spec", "SpecTuning"]

LearnerName = Literal["questions", "smooth", "tree", "eliminate", "ma2025", "ma2025-printed", "explore"]

PUBLISHED = ("ma2025", "ma2025-printed")
"""Names of learners that need the number of users and allow one epsilon only."""

KEYED = ("ma2025-printed",)
"""Names of learners that pick the edge to halve by a public coin (Ma2025, Algorithm 1).

Others halve the first edge.
"""

# Number of mechanisms that are cached: more than a server's usual window, with two mechanisms each.
_REPORTS_KEPT = 64

_AUTOMATIC = ("signed", "krr")

# A report encodes its class in one byte; 64 classes are more than enough.
_MOST_CLASSES = 64

MOST_ARMS = 256
"""Largest number of arms, which limits time and memory.

Probabilities of being the best arm take n_arms^2 numbers for each bin.
"""

_TREE = ("prior_mean", "prior_sd", "child_sd", "temperature", "settled", "rival", "known")

# Names of each learner's constants, repeated here because clients do not load `dpbandits.local.learners`.
CONSTANTS: Mapping[str, frozenset[str]] = {
    "questions": frozenset({"parts", "temperature", "places", "constant_sd", "forget"}),
    "smooth": frozenset({*_TREE, "smooth_sd", "length", "rough", "forget"}),
    "tree": frozenset(_TREE),
    "eliminate": frozenset({"z", "scale"}),
    "ma2025": frozenset({"radius", "bias"}),
    "ma2025-printed": frozenset({"constant"}),
    "explore": frozenset({"depth"}),
}

_PARTS: tuple[int, ...] = tuple(2**k for k in range(MOST_PARTS.bit_length()))

_LONGEST = 2**53
"""Largest half-life of the weight of reports, as a number of reports."""

_COUNTS = {"reports_per_version": (1, 2**31), "window": (0, 2**16), "max_leaves": (1, 2**16)}

_MOST_USERS = 2**53


@worded
@dataclass(frozen=True, kw_only=True)
class SpecTuning(Configured):
    """Settings that a `Spec` rarely needs.

    Args:
        mechanism: Name of the report mechanism, see `dpbandits.privacy.reports`. `auto` is the signed report
            or k-ary randomised response, whichever has the smaller variance for these bins and epsilon.
        reports_per_version: Number of accepted reports after which a new version is published.
        window: Number of versions before the current one for which reports are still accepted.
        max_leaves: Largest number of bins, which bounds the size of reports and the server's memory.
        constants: Constants of the learner that differ from the defaults (`dpbandits.local.learners`).
            `forget` is a half-life in reports, for drift. The learner `smooth` has it, and `questions` if
            one grid covers all columns (`local.contract.grid`).

    Raises:
        InvalidParameter: an argument is out of range; nothing is rounded silently.
    """

    mechanism: str = "auto"
    reports_per_version: int = 100
    window: int = 8
    max_leaves: int = 1024
    constants: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, (least, most) in _COUNTS.items():
            if integer(getattr(self, name), name=name, minimum=least) > most:
                raise InvalidParameter(f"{name}: expected an integer from {least} to {most}")
        _checks.one_of(self.mechanism, ("auto", *sorted(MECHANISMS)), name="mechanism")


def _contexts(config: Mapping[str, Any]) -> Schema | Box:
    return Box.from_config(config) if config_type(config) == "Box" else Schema.from_config(config)


@worded
@dataclass(frozen=True, kw_only=True)
class Spec(Contract[PublishedArms]):
    """A locally private contextual bandit.

    Args:
        contexts: Public columns of a context, a `Schema`, or a public `Box` of numbers. Clients read whatever
            `Menu.point` takes, and clip to the ranges or the box. Each column is a side of the unit cube. A
            category is an equal part of its side, in the order of the list: neighbours there share bins
            longest.
        arms: Labels of the arms, in order.
        actions: Numbers to choose from instead of arms: `Range(1, 20, steps=10)`, `Ordered`, a schema of such
            columns, or `Actions` with a named value and a shape. Devices report the outcome, and the server
            publishes the action with the largest value in each cell. Needs `contexts=Schema(...)` and the
            learner `questions`. `arms` then has the labels of the actions.
        privacy: Guarantee of each report.
        reward_range: Public bounds of rewards; clients clip to them.
        chooser: Side that chooses the arm. `server`: a version names one public arm for each place, and a
            report hides place and reward. `client`: a version gives probabilities, the client draws the arm,
            and a report hides the arm too.
        learner: `questions` (recommended: arms on a fine grid, and one-bit questions), or a learner of bins:
            `smooth`, `tree`, `eliminate`, `ma2025-printed` (as published), `ma2025` (with the additions of
            its authors' code), or `explore` (fixed bins and random arms, for sources). Sources can initialise
            `tree`, and `questions` if one grid covers all columns (`local.contract.grid`). The default is
            `questions` if the server chooses among at most 12 arms, or among actions. There may then be at
            most 64 columns with 1,400 categories each; with the constant `forget`, one grid must cover all
            columns. Otherwise it is `smooth`.
        n_users: Expected number of users, needed by `ma2025` and `ma2025-printed` only.
        seed: Public seed of the server.
        epsilons: Classes of epsilon that users may choose from, ascending, ending with that of `privacy`;
            empty for one class. A user's class is public and must be chosen without looking at context or
            reward: see `dpbandits.local.learners.base.combined_estimate`.
        deadline: Seconds after a choice at which a client reports it, with or without a reward.
        tuning: Settings that are rarely needed: mechanism, versions, bins and constants of the learner.

    Privacy: local DP of each report; the unit is one user's whole (context, arm, reward). A client that
    reports k times loses at most k epsilon, which its ledger records.

    Raises:
        InvalidParameter: an argument is out of range; nothing is rounded silently.

    Example:
        >>> from dpbandits.tables import Categories, Range
        >>> people = Schema(age=Range(18, 90), region=Categories(["north", "south"]))
        >>> spec = Spec(contexts=people, arms=["mail", "call"], privacy=LocalDP(epsilon=1))
        >>> spec == Spec.from_json(spec.to_json())
        True
        >>> square = Spec(contexts=Box([0, 0], [1, 1]), arms=range(3), privacy=LocalDP(epsilon=1))
        >>> square.dim, square.n_arms
        (2, 3)
    """

    config_label, config_type, written_format = "kind", "Spec", 1
    config_parsers = {  # noqa: RUF012
        "contexts": _contexts,
        "arms": tuple,
        "actions": Actions.from_config,
        "privacy": LocalDP.from_config,
        "reward_range": RewardRange.from_config,
        "epsilons": tuple,
        "tuning": SpecTuning.from_config,
    }

    contexts: Schema | Box
    arms: Sequence[Label] = None  # type: ignore[assignment]  # None is replaced by the labels of actions
    actions: Actions | None = None
    privacy: LocalDP
    reward_range: RewardRange = field(default_factory=lambda: RewardRange(0.0, 1.0))
    chooser: Chooser = "server"
    learner: LearnerName = None  # type: ignore[assignment]  # None is replaced by the default
    n_users: int | None = None
    seed: int = 0
    epsilons: Sequence[float] = ()
    deadline: float = DEADLINE
    tuning: SpecTuning = field(default_factory=SpecTuning)

    def __post_init__(self) -> None:
        if not isinstance(self.contexts, Box):
            an(self.contexts, Schema, name="contexts", pass_="contexts=Schema(age=Range(18, 90))")
        if self.actions is not None:
            self._check_actions()
        assign(self, arms=listed_arms(self.arms).labels)
        if self.n_arms > MOST_ARMS:
            raise InvalidParameter(f"arms: expected at most {MOST_ARMS}")
        an(self.privacy, LocalDP, name="privacy", pass_="privacy=LocalDP(epsilon=1)")
        _checks.settle(self, deadline=_checks.number)
        assign(self, reward_range=RewardRange.of(self.reward_range))
        if self.n_users is not None and integer(self.n_users, name="n_users", minimum=1) > _MOST_USERS:
            raise InvalidParameter(f"n_users: expected an integer from 1 to {_MOST_USERS}")
        integer(self.seed, name="seed", minimum=0)
        _checks.one_of(self.chooser, get_args(Chooser), name="chooser")
        an(self.tuning, SpecTuning, name="tuning", pass_="tuning=SpecTuning(reports_per_version=100)")
        if self.learner is None:
            few = self.chooser == "server" and (self.n_arms <= MOST_ASKED or self.actions is not None)
            constants: object = self.tuning.constants
            forgets = isinstance(constants, Mapping) and "forget" in constants
            can = fits_a_grid(self.dim, self._codes) if forgets else asks_about(self.dim, self._codes)
            assign(self, learner="questions" if few and can else "smooth")
        _checks.one_of(self.learner, get_args(LearnerName), name="learner")
        if self.actions is not None and self.learner != "questions":
            raise InvalidParameter(
                "actions: only the learner 'questions' chooses among actions: leave learner= out, with "
                f"chooser='server', at most {MOST_COLUMNS} columns and {MOST_CELLS:,} categories each"
            )
        check_constants(self._own_constants(), CONSTANTS[self.learner])
        if self.learner in PUBLISHED and self.n_users is None:
            raise InvalidParameter(
                f"n_users: learner {self.learner!r} needs the number of users: pass n_users"
            )
        if self.epsilons:
            self._check_epsilons()
        if self.learner == "questions":
            self._check_questions()
            return
        # Refuse an epsilon that cannot hold for the fewest or for the most bins, before any report is made.
        depth = self.tuning.constants.get("depth", 0.0) if self.learner == "explore" else math.inf
        for n_leaves in (1, min(self.tuning.max_leaves, round(2.0 ** min(depth, 32.0)))):
            self.protocol.mechanisms_for(n_leaves)

    def _check_actions(self) -> None:
        """Replace `actions` by a grid whose value function was tried on the reward range, and `arms` by its
        labels.
        """
        if not isinstance(self.contexts, Schema):
            raise InvalidParameter("actions: expected contexts=Schema(...), got a Box")
        grid: Any = Actions.of(self.actions)
        for name in ("bounds", "explore"):
            if getattr(grid, name) is not None:
                raise InvalidParameter(f"{name}: a spec has none: leave out numbers that nobody may get")
        grid.to_config()  # refuses functions without a name, which a spec cannot take to devices
        given: object = self.arms
        if given is not None and given != grid.labels:
            raise InvalidParameter("arms: pass either arms= or actions=, not both")
        assign(self, actions=grid.beside(self.contexts, RewardRange.of(self.reward_range)), arms=grid.labels)

    def to_config(self) -> dict[str, Any]:
        """Return the complete JSON-ready configuration. It has `actions` only for a spec with actions."""
        config = super().to_config()
        return {name: value for name, value in config.items() if name != "actions" or value is not None}

    def _own_constants(self) -> object:
        """Return the learner's constants without `forget`."""
        given: object = self.tuning.constants
        if not isinstance(given, Mapping) or "forget" not in given:
            return given
        many = self.learner == "questions" and not fits_a_grid(self.dim, self._codes)
        if "forget" not in CONSTANTS[self.learner] or many:
            raise InvalidParameter(
                "constants: forget needs the learner 'smooth', or 'questions' with columns that one grid "
                "covers: pass learner='smooth', or leave forget out and start anew with another seed"
            )
        least = self.tuning.reports_per_version
        if integer(given["forget"], name="constants: forget", minimum=least) > _LONGEST:
            raise InvalidParameter(f"constants: forget: expected an integer from {least} to {_LONGEST}")
        return {name: value for name, value in given.items() if name != "forget"}

    def _check_questions(self) -> None:
        if self.chooser != "server":
            raise InvalidParameter("chooser: expected 'server' with the learner 'questions'")
        wanted = self.tuning.constants.get("parts", 1.0)
        if wanted not in _PARTS:
            raise InvalidParameter(f"constants: parts: expected a power of two from 1 to {MOST_PARTS}")
        if not asks_about(self.dim, self._codes):
            raise InvalidParameter(
                f"contexts: {self.dim} columns with these categories are too many for the learner "
                "'questions': pass learner='smooth', or use fewer columns and categories"
            )
        grids = self.protocol.grids
        if grids.names_columns and self.actions is None and self.n_arms > MOST_ASKED:
            raise InvalidParameter(
                f"arms: got {self.n_arms}; if one grid cannot cover the columns expected at most "
                f"{MOST_ASKED}, or learner='smooth'"
            )
        self.protocol.mechanisms_for(grids.n_parts)

    def _check_epsilons(self) -> None:
        classes: object = self.epsilons  # of any type, if the spec comes from a file
        good = isinstance(classes, tuple | list) and 1 <= len(classes) <= _MOST_CLASSES
        if not good or not all(isinstance(one, int | float) for one in self.epsilons):
            raise InvalidParameter(f"epsilons: expected at most {_MOST_CLASSES} numbers")
        assign(self, epsilons=tuple(map(float, self.epsilons)))
        if list(self.epsilons) != sorted(set(self.epsilons)) or self.epsilons[-1] != self.privacy.epsilon:
            raise InvalidParameter("epsilons: expected ascending numbers, the last that of privacy")
        if self.learner in PUBLISHED:
            raise InvalidParameter(f"epsilons: learner {self.learner!r} allows one epsilon only")

    @property
    def _codes(self) -> Mapping[int, int]:
        return self.contexts.codes if isinstance(self.contexts, Schema) else {}

    @property
    def dim(self) -> int:
        """Number of context columns."""
        return self.contexts.dim if isinstance(self.contexts, Box) else self.contexts.domain.dim

    @property
    def n_arms(self) -> int:
        """Number of arms."""
        return len(self.arms)

    @cached_property
    def protocol(self) -> "CellReports":
        """Implementation of the contract for clients and servers; see `Contract.protocol`."""
        return CellReports(self)

    def __hash__(self) -> int:
        return hash(self.to_json())


class CellReports(ReportProtocol[PublishedArms]):
    """Implementation of a `Spec` for clients and servers: a report holds a cell and a sign.

    Attributes:
        domain: Box of encoded contexts: the unit cube for a schema.
        schema, menu: Columns, and columns with arms as clients read them; None if contexts are a box.
        arms: The arms with their labels.
        actions: Grid of actions; None for plain arms.
        codes: Number of categories of each categorical column, by the column's index.
        asks: True if the server publishes `PublishedQuestions` instead of bins.
        bins: Layout of bins.
    """

    report_format = 0xD1

    def __init__(self, spec: Spec) -> None:
        self._spec, tuning = spec, spec.tuning
        self.actions = spec.actions
        self.arms = Arms(list(spec.arms))
        if isinstance(spec.contexts, Box):
            self.schema, self.menu, self.domain, self.codes = None, None, spec.contexts, dict[int, int]()
        else:
            self.schema, self.codes = spec.contexts, dict(spec.contexts.codes)
            self.menu = DeviceMenu(contexts=spec.contexts, arms=self.arms)
            self.domain = Box(low=np.zeros(spec.dim), high=np.ones(spec.dim))
        self.asks = spec.learner == "questions"
        self.window, self.reports_per_version = tuning.window, tuning.reports_per_version
        self.bins = BinLayout(
            dim=spec.dim,
            n_arms=spec.n_arms,
            chooser=spec.chooser,
            tie="keyed" if spec.learner in KEYED else "first",
            seed=spec.seed,
            max_leaves=tuning.max_leaves,
        )

    @cached_property
    def grids(self) -> GridLayout:
        """Layout of grids.

        The number C of parts of a question follows from the mechanism and the largest epsilon.

        For a function that varies much, a report has the information 1/v, where v is the variance of a
        part's sum. C is the number with the smallest v.
        """
        parts = self._spec.tuning.constants.get("parts")
        if parts is None:
            parts = min(_PARTS, key=lambda size: _mean_variance(self.mechanism_for(size)))
        return GridLayout(dim=self.bins.dim, codes=self.codes, n_arms=self.bins.n_arms, n_parts=int(parts))

    @property
    def layout(self) -> Layout[Any]:
        """Layout that the learner uses: a grid or bins."""
        return self.grids if self.asks else self.bins

    @property
    def publishes(self) -> type[PublishedArms]:  # type: ignore[override]
        """Class of the published versions."""
        return self.layout.publishes

    def fits(self, published: PublishedArms) -> None:
        """Raise IncompatibleState if a version does not fit the layout; see `Layout.fits`."""
        self.layout.fits(published)

    def label(self, arm: int) -> Any:
        """Return the label of the arm number `arm`."""
        return self.arms.labels[arm] if self.actions is None else self.actions.choice(arm)

    def points(self, contexts: Any) -> FloatArray:
        """Return n contexts as points of the unit cube, shape (n, dim).

        Args:
            contexts: Contexts in any form that `Menu.encode` takes; points (n, dim) or (dim,) for a box.

        Raises:
            InvalidData: a context cannot be read, or lies outside a box. Numbers outside the ranges of a
                schema are clipped.
        """
        if self.menu is not None:
            return np.asarray(self.menu.in_cube(self.menu.encode(contexts)))
        return np.asarray(np.atleast_2d(self.domain.to_unit(contexts)))

    def places(self, published: PublishedArms, contexts: Any) -> IntArray:
        """Return the bins or grid cells of n contexts, shape (n,), as indices into the version's arms."""
        return self.layout.locate(published, self.points(contexts))

    # -- the law of reports --------------------------------------------------------------------------

    def n_cells(self, n_leaves: int) -> int:
        """Return the number of cells of a report: `n_leaves`, times the number of arms if clients choose."""
        return n_leaves if self.bins.chooser == "server" else n_leaves * self.bins.n_arms

    def mechanism_for(self, n_leaves: int, epsilon: float | None = None) -> ReportMechanism:
        """Return the mechanism of reports on `n_leaves` bins; `epsilon` selects a class of epsilon."""
        epsilon = self._spec.privacy.epsilon if epsilon is None else epsilon
        return _report(self._spec.tuning.mechanism, self.n_cells(n_leaves), epsilon)

    def mechanisms_for(self, n_leaves: int) -> tuple[ReportMechanism, ...]:
        """Return the mechanisms of reports on `n_leaves` bins, one for each class of epsilon."""
        return tuple(self.mechanism_for(n_leaves, epsilon) for epsilon in self._classes)

    def counted_by(self, published: PublishedArms) -> tuple[ReportMechanism, ...]:
        """Return the mechanisms that count reports on this version, one for each class of epsilon."""
        return self.mechanisms_for(self.layout.n_cells(published))

    @property
    def weight(self) -> float:
        """Largest effect of one forged report, as a number of honest users: see `ReportMechanism.weights`.

        It is computed for the largest number of bins (or parts of a question), and maximised over the
        classes of epsilon.
        """
        return max(one.weights[1] for one in self.mechanisms_for(self.layout.sizes[-1]))

    @property
    def _classes(self) -> tuple[float, ...]:
        return tuple(self._spec.epsilons) or (self._spec.privacy.epsilon,)

    # -- the client: from a context to a private payload ---------------------------------------------

    def own(self, privacy: LocalDP | None) -> LocalDP:
        """Return the contract's guarantee, or that of one of its classes of epsilon.

        See `ReportProtocol.own`.
        """
        own: object = self._spec.privacy if privacy is None else privacy  # of any type, from a caller
        if not isinstance(own, LocalDP) or own.epsilon not in self._classes:
            raise InvalidParameter("privacy: expected LocalDP with one of the spec's epsilons")
        return own

    def _point(self, context: Any) -> tuple[FloatArray | None, bool]:
        """Return a context as a point of the box, or None if it cannot be read."""
        if self.menu is None:
            point = read_points(context, dim=self.domain.dim, ndim=1)
            if point is None or np.isnan(point).any():
                return None, False
            inside = np.clip(point, self.domain.low, self.domain.high)
            return inside, not np.array_equal(inside, point)
        read, clipped = self.menu.read(context)
        if read is None and self.menu.misnamed(context):
            # Keys are written by the app's programmer. The warning shows none of them, as an app could err.
            warnings.warn(
                f"a context has keys that are no columns, and counts as missing: the columns are "
                f"{list(self.menu.contexts.names)}",
                DPBanditsWarning,
                stacklevel=caller_level(),
            )
        return (None if read is None else self.menu.in_cube(read)), clipped

    def choose(
        self, published: PublishedArms, context: Any, privacy: LocalDP, available: Any = None
    ) -> Chosen:
        """Return a client's choice, as `served` makes it.

        If the published arm is not available, the report is drawn as for missing data, as the server counts a
        bin's report for the published arm. A report does not reveal that this happened.
        """
        published.lineage(self._spec)
        choice = self.served(published, context, available)
        report = self.mechanism_for(self.layout.n_cells(published), privacy.epsilon)
        choice.about = (self.layout.asked(published, choice.about), report)
        return choice

    def served(
        self, published: PublishedArms, context: Any, available: Any, *, instead: int | None = None
    ) -> Chosen:
        """Return what a version gives to a client, about its place. Nothing is checked.

        For a missing context it is the choice in the middle of the box. The arm `instead` replaces the
        published one. If the arm is not available, another one is drawn, with the published probabilities if
        there are any.
        """
        point, clipped = self._point(context)
        low, high = self.domain.low, self.domain.high
        # The point lies in the box: no rounding can move it out of the unit cube.
        unit = np.full(self.domain.dim, 0.5) if point is None else (point - low) / (high - low)
        place = int(self.layout.locate(published, unit[None])[0])
        if published.arms is not None:
            arm, chances = int(published.arms[place]), np.ones(self.bins.n_arms)
        elif published.weights is not None:
            chances = published.weights[place]
            arm = _drawn(chances)
        else:
            raise ProtocolError("the published version has no arms and no weights")
        if instead is not None:
            arm, chances = instead, np.ones(self.bins.n_arms)
        mask = offered(available, self.arms, self.actions)
        if mask is not None and not mask[arm]:
            rest = np.where(mask, chances, 0.0)
            arm, mask = _drawn(rest if rest.any() else mask), None
        return Chosen(
            version=published.version,
            arm=arm,
            about=place,
            missing=point is None,
            clipped=clipped,
            unavailable=mask is None,
        )

    def check(self, context: Any) -> None:
        """Check a context as `Contract.check` describes."""
        if self.menu is None:
            check_points(self.domain, context, ndim=1)
            return
        self.menu.refuse_unread(context)

    def exact(self, choice: Chosen, reward: float | None) -> tuple[int, bool]:
        """Return cell and sign. The sign is positive with probability equal to the reward, scaled to [0, 1].

        For missing data, all cells and both signs have equal probability. This is an input like any other,
        and depends on no user. A question may turn the sign, or ask about the place alone: see
        `local.contract.grid`.
        """
        (cell, turned, silent), report = choice.about
        anywhere = int(uniform_below(report.n_cells, 1, secure_words)[0])
        coin = int(secure_words(1)[0])
        if choice.missing or choice.unavailable or reward is None:
            return anywhere, coin < LATTICE // 2
        bounds = self._spec.reward_range
        share = min(1.0, max(0.0, (reward - bounds.low) / bounds.width))
        positive = (silent or coin < share * LATTICE) != turned
        return (cell if self.bins.chooser == "server" else cell * self.bins.n_arms + choice.arm), positive

    def noised(self, choice: Chosen, exact: tuple[int, bool], privacy: LocalDP) -> bytes:
        """Return the payload, preceded by its class of epsilon if there are several.

        Here the user's data meets randomness.
        """
        epsilons = self._spec.epsilons
        kind = bytes([epsilons.index(privacy.epsilon)]) if epsilons else b""
        return kind + bytes(choice.about[1].encode(exact[0], positive=exact[1]))

    def terms(self, privacy: LocalDP) -> dict[str, Any]:
        """Return the `ReleaseLog` entry of reports with this guarantee."""
        return {
            "law": f"{self._spec.tuning.mechanism} randomised response",
            "scale": privacy.epsilon,
            "sensitivity": privacy.epsilon,
            "unit": "in log-likelihood ratios",
            "certificate": {"kind": "PureDP", "epsilon": privacy.epsilon},
            "releases": 1,
            "source": "SecureNoise",
            "status": self.status,
        }

    def statement(self, privacy: LocalDP) -> "Guarantee":
        """Return the guarantee of one report; see `ReportProtocol.statement`.

        The certificate is the largest over the sizes of the layout: one bin, powers of two, and `max_leaves`;
        or the parts of a question. Each value is exact, rounded up, and at most the spec's epsilon.
        """
        from dpbandits.local.contract.statement import report_guarantee

        sizes, epsilon = self.layout.sizes, privacy.epsilon
        return report_guarantee(
            mechanism=self._spec.tuning.mechanism,
            epsilon=epsilon,
            exact=max(self.mechanism_for(size, epsilon).exact_epsilon for size in sizes),
            weights=[one.weights for one in self.mechanisms_for(sizes[-1])],
            most=sizes[-1],
            asks=self.asks,
            chooser=self.bins.chooser,
            classes=bool(self._spec.epsilons),
        )


def _drawn(chances: Any) -> int:
    some = np.flatnonzero(chances)
    total = np.asarray(chances[some], dtype=np.float64).cumsum()
    share = (int(secure_words(1)[0]) >> 11) * 2.0**-53 * total[-1]
    return int(some[min(int(np.searchsorted(total, share, side="right")), len(some) - 1)])


@lru_cache(maxsize=_REPORTS_KEPT)
def _report(name: str, n_cells: int, epsilon: float) -> ReportMechanism:
    if name != "auto":
        return mechanism(name, n_cells=n_cells, epsilon=epsilon)
    signed, response = (mechanism(one, n_cells=n_cells, epsilon=epsilon) for one in _AUTOMATIC)
    return response if _mean_variance(response) < _mean_variance(signed) else signed


def check_constants(constants: object, known: frozenset[str], *, most: float = 1e6) -> None:
    """Raise InvalidParameter unless `constants` are positive numbers under known names.

    A spec may come from a file.
    """
    good = isinstance(constants, Mapping) and known.issuperset(constants)
    values: list[Any] = list(constants.values()) if good else [None]  # type: ignore[attr-defined]
    if not {int, float} >= {*map(type, values)} or not all(0.0 < value <= most for value in values):
        names = ", ".join(sorted(known)) or "no names: this learner has no constants"
        raise InvalidParameter(f"constants: expected numbers above 0 and at most {most:g}, named {names}")


def _mean_variance(report: ReportMechanism) -> float:
    """Return the variance of a cell's signed estimate from one report, if all cells have equal shares.

    It depends on public numbers only.
    """
    return float(report.moments.signed_variance(np.array(1.0 / report.n_cells)))
