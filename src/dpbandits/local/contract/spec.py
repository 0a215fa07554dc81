"""The public contract of one locally private bandit: what devices and server agree on before anyone reports.

NumPy and the standard library only: devices read it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from dpbandits import _checks
from dpbandits._calls import worded
from dpbandits._checks import an, assign, integer
from dpbandits._typing import FloatArray, IntArray
from dpbandits.domains import Arms, Box
from dpbandits.domains.arms import Label
from dpbandits.domains.rewards import RewardRange
from dpbandits.errors import IncompatibleState, InvalidParameter, ProtocolError
from dpbandits.local.contract.people import DeviceMenu, offered
from dpbandits.local.contract.questions import (
    MOST_ASKED,
    MOST_CELLS,
    MOST_PARTS,
    Grid,
    PublishedQuestions,
    asks_about,
    fits_a_grid,
    people_for,
)
from dpbandits.local.contract.reports import (
    DEADLINE,
    Chosen,
    Contract,
    PublishedArms,
    check_points,
    read_points,
)
from dpbandits.models.trees.partition import DyadicPartition, TieRule
from dpbandits.privacy.definitions import LocalDP
from dpbandits.privacy.reports import MECHANISMS, ReportMechanism, mechanism
from dpbandits.privacy.reports.mechanism import LATTICE
from dpbandits.privacy.samplers import uniform_below
from dpbandits.privacy.words import secure_words
from dpbandits.tables import Schema
from dpbandits.tables.menu import Menu

if TYPE_CHECKING:
    from dpbandits.privacy.guarantee import Guarantee

__all__ = ["ArmChoice", "LearnerName", "Spec"]

LearnerName = Literal["questions", "smooth", "tree", "eliminate", "ma2025", "ma2025-printed", "explore"]

PUBLISHED = ("ma2025", "ma2025-printed")
"""Learners that must know the number of users, and have one epsilon."""

ArmChoice = Literal["server", "user"]

# Published versions whose bins are kept at hand: more than the usual window of a server.
_BINS_KEPT = 32

_AUTOMATIC = ("signed", "krr")

# A report names its class in one byte.
_MOST_CLASSES = 64

MOST_ARMS = 256
"""What arithmetic and memory carry: the probabilities of being best take n_arms^2 numbers a bin."""

_TREE = ("prior_mean", "prior_sd", "child_sd", "temperature", "settled", "rival", "known")

# Names of the constants of each learner (`dpbandits.local.learners`, which a device does not load).
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
"""Half-life, in reports."""

_COUNTS = {
    "n_arms": (1, MOST_ARMS),
    "reports_per_version": (1, 2**31),
    "window": (0, 2**16),
    "max_leaves": (1, 2**16),
    "n_users": (1, 2**53),
}


@worded
@dataclass(frozen=True, kw_only=True)
class Spec(Contract[PublishedArms]):
    """A locally private contextual bandit on adaptive bins.

    Args:
        contexts: public columns of a person's context: devices read whatever `Menu.point` takes, and clip
            ranges. Every column is a side of the unit cube, and a category an equal part of its side, in the
            order of the list: neighbours there share bins for longest.
        domain: instead of `contexts`, a public box of numbers; devices clip to it.
        n_arms: number of arms, where they have no labels.
        privacy: of every report.
        reward_range: public bounds of rewards; devices clip to them.
        mechanism: name of the report, see `dpbandits.privacy.reports`; or `auto`: the signed report or
            k-ary randomised response, whichever has the smaller variance for these bins and epsilon.
        learner: `questions` (recommended: arms on a fine grid, and one-bit questions), or one of bins:
            `smooth`, `tree`, `eliminate`, `ma2025-printed` (as published), `ma2025` (with what its authors'
            code adds), or `explore` (bins fixed, arms random: what sources of other targets do). Sources can
            start `tree`, and `questions` of three columns and fewer. None: `questions` where the server
            assigns arms, at most 12, and a grid has room for the columns, or `n_users` is enough for more
            (`local.contract.questions`: `Grid`, `people_for`); else `smooth`.
        arms: labels of the arms, which people with contexts are given; or who chooses among them. `server`,
            also where labels are given: what is published names one arm a bin, which is public, so a report
            hides the bin and the reward. `user`: it gives probabilities, the device draws, and a report hides
            the arm as well.
        labels: of the arms, where `arms` says who chooses.
        reports_per_version: a new version is published after this many accepted reports.
        window: how many versions before the current one are still accepted.
        tie: which longest edge of a bin is halved, see `DyadicPartition`; `questions` has no bins.
        max_leaves: bound on the number of bins, hence on a report's size and the server's memory.
        n_users: expected number of users: `ma2025` and `ma2025-printed` need it, and with many columns the
            learner depends on it where none is named.
        seed: public randomness of the server.
        constants: constants of the learner that differ from the defaults (`dpbandits.local.learners`);
            `forget` among them is a half-life in reports, where people change: of `questions` of columns that
            one grid has room for, and of `smooth`.
        deadline: seconds after a choice by which a device reports it, with a reward or without.
        epsilons: classes of epsilon that users may choose from, ascending, the last being that of `privacy`;
            empty: everyone has that. A user's class is public and must be chosen without looking at context
            or reward: see `dpbandits.local.learners.base.combined_estimate`.

    Privacy: LDP per report; unit: one user's whole (context, arm, reward). A device that reports k
    times loses at most k epsilon, and its ledger says so.

    Raises:
        InvalidParameter: an argument is outside what it may be; nothing is rounded silently.

    Example:
        >>> spec = Spec(domain=Box(low=[0, 0], high=[1, 1]), n_arms=3, privacy=LocalDP(epsilon=1))
        >>> spec == Spec.from_json(spec.to_json())
        True
        >>> from dpbandits.tables import Categories, Range
        >>> people = Schema(age=Range(18, 90), region=Categories(["north", "south"]))
        >>> spec = Spec(contexts=people, arms=["mail", "call"], privacy=LocalDP(epsilon=1))
        >>> spec.dim, spec.n_arms, spec.label(1)
        (2, 2, 'call')
    """

    config_label, config_type, written_format = "kind", "Spec", 1
    config_parsers = {  # noqa: RUF012
        "domain": Box.from_config,
        "contexts": Schema.from_config,
        "labels": tuple,
        "reward_range": lambda bounds: RewardRange(*bounds),
        "epsilons": tuple,
    }
    report_format = 0xD1

    domain: Box = None  # type: ignore[assignment]  # with contexts, of these
    n_arms: int = None  # type: ignore[assignment]  # with labels, of these
    privacy: LocalDP
    reward_range: RewardRange = field(default_factory=lambda: RewardRange(0.0, 1.0))
    mechanism: str = "auto"
    learner: LearnerName = None  # type: ignore[assignment]  # by the columns and who chooses
    arms: ArmChoice | Sequence[Label] = "server"
    reports_per_version: int = 100
    window: int = 8
    tie: TieRule = "first"
    max_leaves: int = 1024
    n_users: int | None = None
    seed: int = 0
    constants: Mapping[str, float] = field(default_factory=dict)
    epsilons: Sequence[float] = ()
    deadline: float = DEADLINE
    contexts: Schema | None = None
    labels: Sequence[Label] | None = None

    def __post_init__(self) -> None:
        self._read_people()
        an(self.domain, Box, name="domain", pass_="domain=Box(low=[0], high=[1])")
        an(self.privacy, LocalDP, name="privacy", pass_="privacy=LocalDP(epsilon=1)")
        _checks.settle(self, deadline=_checks.number)
        if not isinstance(self.reward_range, RewardRange):
            object.__setattr__(self, "reward_range", RewardRange.of(self.reward_range))
        for name, (least, most) in _COUNTS.items():
            value = getattr(self, name)
            if (name != "n_users" or value is not None) and integer(value, name=name, minimum=least) > most:
                raise InvalidParameter(f"{name}: expected an integer from {least} to {most}")
        integer(self.seed, name="seed", minimum=0)
        _checks.one_of(self.arms, get_args(ArmChoice), name="arms")
        if self.learner is None:
            few = self.arms == "server" and self.n_arms <= MOST_ASKED
            assign(self, learner="questions" if few and self._can_ask() else "smooth")
        _checks.one_of(self.learner, get_args(LearnerName), name="learner")
        check_constants(self._own_constants(), CONSTANTS[self.learner])
        _checks.one_of(self.mechanism, ("auto", *sorted(MECHANISMS)), name="mechanism")
        _checks.one_of(self.tie, ("first", "keyed"), name="tie")
        if self.learner in PUBLISHED and self.n_users is None:
            raise InvalidParameter(
                f"n_users: learner {self.learner!r} must know the number of users beforehand"
            )
        if self.epsilons:
            self._check_epsilons()
        if self.asks:
            self._check_questions()
            return
        # An epsilon that cannot be kept with the fewest bins or the most is refused before any report.
        depth = self.constants.get("depth", 0.0) if self.learner == "explore" else math.inf
        for n_leaves in (1, min(self.max_leaves, round(2.0 ** min(depth, 32.0)))):
            self.mechanisms_for(n_leaves)

    def _own_constants(self) -> object:
        """The learner's constants without `forget`, which is checked here: a half-life in reports."""
        given: object = self.constants
        if not isinstance(given, Mapping) or "forget" not in given:
            return given
        if "forget" not in CONSTANTS[self.learner] or (self.asks and self.names_columns):
            raise InvalidParameter(
                "constants: only the learners 'smooth', and 'questions' of columns that one grid has room "
                "for, forget: name one of them, or begin anew under another seed"
            )
        least = self.reports_per_version
        if integer(given["forget"], name="constants: forget", minimum=least) > _LONGEST:
            raise InvalidParameter(f"constants: forget: expected an integer from {least} to {_LONGEST}")
        return {name: value for name, value in given.items() if name != "forget"}

    def _can_ask(self) -> bool:
        """Whether columns are few enough for questions, or enough users are expected."""
        if fits_a_grid(self.dim, self.codes):
            return True
        enough = (self.n_users or 0) >= people_for(self.dim, self.epsilon)
        return enough and asks_about(self.dim, self.codes)

    def _check_questions(self) -> None:
        if self.arms != "server":
            raise InvalidParameter("arms: with the learner 'questions' the server assigns them")
        wanted = self.constants.get("parts", 1.0)
        if wanted not in _PARTS:
            raise InvalidParameter(f"constants: parts is a power of two from 1 to {MOST_PARTS}")
        if not asks_about(self.dim, self.codes):
            raise InvalidParameter(
                f"{self.dim} columns are more than can be asked about: build the Spec with "
                "learner='smooth', or name fewer columns and categories"
            )
        if self.names_columns and self.n_arms > MOST_ASKED:
            raise InvalidParameter(
                f"{self.n_arms} arms: with more columns than one grid tells apart expected at most "
                f"{MOST_ASKED}, or learner='smooth'"
            )
        self.mechanisms_for(self.n_parts)

    def _read_people(self) -> None:
        """Put what contexts and labels stand for into `domain` and `n_arms`."""
        came: Any = self.arms
        if isinstance(came, Sequence | np.ndarray) and not isinstance(came, str):
            if self.labels is not None:
                raise InvalidParameter("pass the labels once, as arms= or as labels=")
            assign(self, labels=came, arms="server")
            came = "server"
        if self.contexts is None and self.labels is None and self.domain is not None:
            if self.n_arms is None:
                raise InvalidParameter("pass n_arms= beside domain=, or contexts= and arms=")
            return
        # What is neither a list nor says who chooses was meant as labels.
        labels = came if self.labels is None and came not in get_args(ArmChoice) else self.labels
        menu = Menu.of(None, self.contexts, labels)
        if menu is None:  # refused there; for type checkers
            return
        cube = Box(low=np.zeros(menu.contexts.dim), high=np.ones(menu.contexts.dim))
        meant: dict[str, Any] = {"domain": cube, "n_arms": menu.n_arms}
        for name, value in meant.items():
            came = getattr(self, name)
            if came is not None and not (type(came) is type(value) and came == value):
                raise InvalidParameter("pass contexts= and arms=, or domain= and n_arms=: not both")
        assign(self, **meant, labels=menu.arms.labels)

    @cached_property
    def menu(self) -> DeviceMenu | None:
        """Contexts and arms; None where contexts are points of a domain."""
        if self.contexts is None or self.labels is None:
            return None
        return DeviceMenu(contexts=self.contexts, arms=self.labels)

    @cached_property
    def _arms(self) -> Arms:
        """The arms by what devices call them."""
        return Arms(list(range(self.n_arms))) if self.menu is None else self.menu.arms

    def label(self, arm: int) -> Any:
        """See `Contract.label`."""
        return arm if self.labels is None else self.labels[arm]

    def _point(self, context: Any) -> tuple[FloatArray | None, bool]:
        """A context in the domain, or None for what cannot be read; and whether it was clipped."""
        if self.menu is None:
            point = read_points(context, dim=self.dim, ndim=1)
            if point is None or np.isnan(point).any():
                return None, False
            inside = np.clip(point, self.domain.low, self.domain.high)
            return inside, not np.array_equal(inside, point)
        read, clipped = self.menu.read(context)
        return (None if read is None else self.menu.in_cube(read)), clipped

    @property
    def dim(self) -> int:
        """Number of context columns."""
        return self.domain.dim

    @property
    def codes(self) -> Mapping[int, int]:
        """Columns that are codes, and of how many categories each."""
        return {} if self.contexts is None else self.contexts.codes

    @property
    def asks(self) -> bool:
        """Whether its server publishes `PublishedQuestions`, and not bins."""
        return self.learner == "questions"

    @property
    def publishes(self) -> type[PublishedArms]:  # type: ignore[override]
        """See `Contract`."""
        return PublishedQuestions if self.asks else PublishedArms

    @cached_property
    def names_columns(self) -> bool:
        """Whether what the learner `questions` publishes is over some of the columns, which it names."""
        return not fits_a_grid(self.dim, self.codes)

    @cached_property
    def grid(self) -> Grid:
        """Of what the learner `questions` publishes; InvalidParameter where versions name their columns."""
        return Grid.of(self.dim, self.codes)

    def grid_over(self, columns: tuple[int, ...]) -> Grid:
        """Over these of many columns.

        Raises:
            IncompatibleState: no such columns, or more cells than a version has.
        """
        if not columns or columns[-1] >= self.dim:
            raise IncompatibleState("expected columns of the spec's contexts")
        grid = _over(columns, tuple(self.codes.items()))
        if grid.size > MOST_CELLS:
            raise IncompatibleState(f"these columns have more than {MOST_CELLS} cells")
        return grid

    def grid_of(self, published: PublishedQuestions) -> Grid:
        """The grid of a version; IncompatibleState where it is over columns that the spec does not let it."""
        if self.names_columns:
            return self.grid_over(published.columns)
        if published.columns:
            raise IncompatibleState("versions of this spec are over all columns, and name none")
        return self.grid

    @cached_property
    def n_parts(self) -> int:
        """Parts C of a question: a public rule of mechanism and largest epsilon.

        Reports tell of a function that varies much as 1/v, v the variance of a part's sum.
        """
        if "parts" in self.constants:
            return int(self.constants["parts"])
        return int(min(_PARTS, key=lambda size: _mean_variance(self.mechanism_for(size))))

    @property
    def epsilon(self) -> float:
        """Of every report, where users do not choose a smaller one."""
        return self.privacy.epsilon

    def partition(self, splits: "list[int] | tuple[int, ...]" = ()) -> DyadicPartition:
        """The partition after these splits, the same on every machine."""
        return DyadicPartition(dim=self.dim, tie=self.tie, seed=self.seed, splits=splits)

    def bins(self, published: PublishedArms) -> DyadicPartition:
        """The partition of a published version: shared by all who ask, so do not split it."""
        return _bins(self.dim, self.tie, self.seed, published.splits)

    def points(self, contexts: Any) -> FloatArray:
        """(n, dim) where people lie in the unit cube.

        Args:
            contexts: in any form that `Menu.encode` takes; without `contexts` points (n, dim) of the domain,
                or (dim,).

        Raises:
            InvalidData: contexts that cannot be read; numbers outside ranges are clipped, those outside a
                domain are not.
        """
        if self.menu is not None:
            return self.menu.in_cube(self.menu.encode(contexts))
        return np.atleast_2d(self.domain.to_unit(contexts))

    def leaves(self, published: PublishedArms, contexts: Any) -> IntArray:
        """(n,) bins, or cells of the grid, of a published version that people lie in, as its arms go."""
        return self.located(published, self.points(contexts))

    def located(self, published: PublishedArms, points: FloatArray) -> IntArray:
        """`leaves` of points (n, dim) of the unit cube."""
        if isinstance(published, PublishedQuestions):
            return self.grid_of(published).locate(points)
        partition = self.bins(published)
        return np.asarray(partition.rank[partition.locate(points)])

    def n_cells(self, n_leaves: int) -> int:
        """Cells of a report: bins, or bins times arms where users choose."""
        return n_leaves if self.arms == "server" else n_leaves * self.n_arms

    def mechanism_for(self, n_leaves: int, epsilon: float | None = None) -> ReportMechanism:
        """The mechanism of a version with this many bins; `epsilon` is another class's."""
        n_cells, epsilon = self.n_cells(n_leaves), self.epsilon if epsilon is None else epsilon
        return _report(self.mechanism, n_cells, epsilon)

    def mechanisms_for(self, n_leaves: int) -> tuple[ReportMechanism, ...]:
        """The mechanisms of a version with this many bins, one a class of epsilon."""
        return tuple(self.mechanism_for(n_leaves, epsilon) for epsilon in self.epsilons or (self.epsilon,))

    def counted_by(self, published: PublishedArms) -> tuple[ReportMechanism, ...]:
        """How reports that answer this are counted, one a class of epsilon."""
        return self.mechanisms_for(self.n_parts if self.asks else len(published.splits) + 1)

    @property
    def weight(self) -> float:
        """How many honest people one forged report weighs at most: see `ReportMechanism.weights`.

        With the most bins that may be, or a question's parts, and of the class of epsilon that weighs most.
        """
        most = self.n_parts if self.asks else self.max_leaves
        return max(one.weights[1] for one in self.mechanisms_for(most))

    # -- the device's part: from a context to a private payload --------------------------------------

    def own(self, privacy: LocalDP | None) -> LocalDP:
        """See `Contract.own`: the spec's promise, or that of one of its classes."""
        own: object = self.privacy if privacy is None else privacy  # of any type, from a caller
        if not isinstance(own, LocalDP) or own.epsilon not in (self.epsilons or (self.epsilon,)):
            raise InvalidParameter("privacy: expected LocalDP with one of the spec's epsilons")
        return own

    def choose(
        self, published: PublishedArms, context: Any, privacy: LocalDP, available: Any = None
    ) -> Chosen:
        """See `Contract.choose`; a missing context is decided as the middle of the domain is.

        Where what is published gives an arm that is not available, another is given, with the published
        chances where there are any, and the report is one of nobody: of a bin the server counts the arm it
        has published. Whether that happened is in no report.
        """
        published.lineage(self)
        point, clipped = self._point(context)
        low, high = self.domain.low, self.domain.high
        # A point lies inside, so that no rounding takes it out of the cube.
        unit = np.full(self.dim, 0.5) if point is None else (point - low) / (high - low)
        turned = silent = False
        leaf = cell = int(self.located(published, unit[None])[0])
        if isinstance(published, PublishedQuestions):
            cell, n_cells = int(published.parts[leaf]), self.n_parts
            turned, silent = bool(published.turned[leaf]), published.about == "place"
        else:
            n_cells = len(published.splits) + 1
        if published.arms is not None:
            arm, chances = int(published.arms[leaf]), np.ones(self.n_arms)
        elif published.weights is not None:
            chances = published.weights[leaf]
            arm = _drawn(chances)
        else:
            raise ProtocolError("what was published names no arms")
        mask = offered(available, self._arms)
        if mask is not None and not mask[arm]:
            rest = np.where(mask, chances, 0.0)
            arm, mask = _drawn(rest if rest.any() else mask), None
        return Chosen(
            version=published.version,
            arm=arm,
            about=(cell, self.mechanism_for(n_cells, privacy.epsilon), turned, silent),
            missing=point is None,
            clipped=clipped,
            unavailable=mask is None,
        )

    def check(self, context: Any) -> None:
        """See `Contract.check`."""
        if self.menu is None:
            check_points(self.domain, context, ndim=1)
            return
        self.menu.refuse_unread(context)

    def exact(self, choice: Chosen, reward: float | None) -> tuple[int, bool]:
        """Cell and sign: the sign is positive with the reward's probability, scaled to [0, 1] and clipped.

        What is missing is any cell and either sign, equally likely: an input like another, and of nobody. A
        question turns the sign, or asks about the place alone: see `local.contract.questions`.
        """
        cell, report, turned, silent = choice.about
        anywhere = int(uniform_below(report.n_cells, 1, secure_words)[0])
        coin = int(secure_words(1)[0])
        if choice.missing or choice.unavailable or reward is None:
            return anywhere, coin < LATTICE // 2
        share = min(1.0, max(0.0, (reward - self.reward_range.low) / self.reward_range.width))
        positive = (silent or coin < share * LATTICE) != turned
        return (cell if self.arms == "server" else cell * self.n_arms + choice.arm), positive

    def noised(self, choice: Chosen, exact: tuple[int, bool], privacy: LocalDP) -> bytes:
        """The payload, after its class of epsilon: where the user's data meets randomness."""
        kind = bytes([self.epsilons.index(privacy.epsilon)]) if self.epsilons else b""
        payload: bytes = choice.about[1].encode(exact[0], positive=exact[1])
        return kind + payload

    def terms(self, privacy: LocalDP) -> dict[str, Any]:
        """See `Contract.terms`."""
        return {
            "law": f"{self.mechanism} randomised response",
            "scale": privacy.epsilon,
            "sensitivity": privacy.epsilon,
            "unit": "in log-likelihood ratios",
            "certificate": {"kind": "PureDP", "epsilon": privacy.epsilon},
            "releases": 1,
            "source": "SecureNoise",
            "status": self.status,
        }

    def statement(self, privacy: LocalDP | None = None) -> "Guarantee":
        """What one report promises."""
        from dpbandits.local.contract.statement import report_guarantee

        return report_guarantee(self, epsilon=self.own(privacy).epsilon)

    # -- bytes ---------------------------------------------------------------------------------------

    def to_config(self) -> dict[str, Any]:
        """See `Written.to_config`."""
        config = super().to_config()
        config["epsilon"] = config.pop("privacy")["epsilon"]
        config["reward_range"] = [self.reward_range.low, self.reward_range.high]
        if not self.epsilons:
            del config["epsilons"]
        if self.contexts is None:
            del config["contexts"], config["labels"]
        return config

    @classmethod
    def arguments(cls, config: Mapping[str, Any]) -> dict[str, Any]:
        """See `Written.arguments`."""
        fields = super().arguments(config)
        fields["privacy"] = LocalDP(epsilon=fields.pop("epsilon"))
        return fields

    def __hash__(self) -> int:
        return hash(self.to_json())

    def _check_epsilons(self) -> None:
        classes: object = self.epsilons  # of any type, where the spec comes from a file
        good = isinstance(classes, tuple | list) and 1 <= len(classes) <= _MOST_CLASSES
        if not good or not all(isinstance(one, int | float) for one in self.epsilons):
            raise InvalidParameter(f"epsilons: expected at most {_MOST_CLASSES} numbers")
        object.__setattr__(self, "epsilons", tuple(map(float, self.epsilons)))
        if list(self.epsilons) != sorted(set(self.epsilons)) or self.epsilons[-1] != self.epsilon:
            raise InvalidParameter("epsilons: expected ascending numbers, the last equal to privacy's")
        if self.learner in PUBLISHED:
            raise InvalidParameter(f"epsilons: learner {self.learner!r} has one epsilon")


def _drawn(chances: Any) -> int:
    """An arm with probability proportional to its chances (K,), of which at least one is above 0."""
    some = np.flatnonzero(chances)
    total = np.asarray(chances[some], dtype=np.float64).cumsum()
    share = (int(secure_words(1)[0]) >> 11) * 2.0**-53 * total[-1]
    return int(some[min(int(np.searchsorted(total, share, side="right")), len(some) - 1)])


@lru_cache(maxsize=_BINS_KEPT)
def _bins(dim: int, tie: TieRule, seed: int, splits: tuple[int, ...]) -> DyadicPartition:
    return DyadicPartition(dim=dim, tie=tie, seed=seed, splits=splits)


@lru_cache(maxsize=_BINS_KEPT)
def _over(columns: tuple[int, ...], codes: tuple[tuple[int, int], ...]) -> Grid:
    return Grid.over(columns, dict(codes))


@lru_cache(maxsize=2 * _BINS_KEPT)
def _report(name: str, n_cells: int, epsilon: float) -> ReportMechanism:
    if name != "auto":
        return mechanism(name, n_cells=n_cells, epsilon=epsilon)
    signed, response = (mechanism(one, n_cells=n_cells, epsilon=epsilon) for one in _AUTOMATIC)
    return response if _mean_variance(response) < _mean_variance(signed) else signed


def check_constants(constants: object, known: frozenset[str], *, most: float = 1e6) -> None:
    """Refuse what are no positive numbers under these names: a spec may come from a file."""
    good = isinstance(constants, Mapping) and known.issuperset(constants)
    if not good or not all(_is_number(value, most) for value in constants.values()):  # type: ignore[attr-defined]
        names = ", ".join(sorted(known)) or "none: this learner has no constants"
        raise InvalidParameter(f"constants: expected numbers above 0 and up to {most:g}, under {names}")


def _is_number(value: object, most: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0.0 < value <= most


def _mean_variance(report: ReportMechanism) -> float:
    """Variance of a cell's signed estimate per report, cells holding equal shares: public."""
    return float(report.moments.signed_variance(np.array(1.0 / report.n_cells)))
