"""`Facts`: public beliefs about a decision, and simulated worlds in which they hold.

A file of facts describes the columns (`dpbandits.tables.description`) and has a section [plan]. It may
contain everything else that describes a table, but no table is opened::

    [columns.age]
    low = 18
    high = 90

    [columns.region]
    categories = ["north", "south", "west"]

    [plan]
    arms = ["mail", "call", "nothing"]      # or on the command line
    users = 50_000                          # number of users, or on the command line
    base_rate = 0.1                         # mean reward of a random arm
    effect = [0.04, 0.08]                   # mean reward of each user's best arm above a random arm
    personal = [0.4, 1.0]                   # part of the effect that the best single arm does not get
    smoothness = "medium"                   # distance along a column after which the best arm changes
    relevant = [1, 2]                       # number of columns that matter
    low = 0                                 # range of rewards
    high = 1
    scatter = 0.1                           # optional: standard deviation of a reward around its mean;
                                            # without it, a reward is one end of the range or the other
    [plan.rates]                            # optional, most useful: mean reward of every arm if
    mail = [0.11, 0.12]                     # everybody got it
    call = [0.12, 0.14]
    nothing = 0.08

    [plan.segments.age]                     # optional: parts of the users along a column
    until = [35, 60]                        # ends of segments; an edge belongs to the upper segment
    people = [0.3, 0.4, 0.3]                # shares of all users
    [plan.segments.age.rates]               # optional: mean reward of every arm in each segment
    mail = [[0.08, 0.10], [0.11, 0.13], [0.14, 0.17]]
    call = [[0.16, 0.19], [0.12, 0.14], [0.08, 0.10]]
    nothing = [0.08, 0.08, 0.08]

    [plan.segments.region]                  # every category is a segment, in the schema's order
    people = [0.5, 0.3, 0.2]

One number stands for the bounds 10% below and above it. Two numbers are bounds; values near their middle are
more likely, except for `personal`, which is uniform. `smoothness` is a length as a share of a column's range,
or one of the words smooth, medium and rough. Half of the worlds measure lengths along a column in quantiles,
so there the length is a share of the users.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.optimize import brentq
from scipy.special import betainc, betaincinv, expit, logit, ndtr

from dpbandits import _checks
from dpbandits._typing import BoolArray, FloatArray, Seed
from dpbandits.domains import Arms, RewardRange
from dpbandits.domains.arms import Label
from dpbandits.errors import InvalidParameter
from dpbandits.lab.planning.believed import Between, by_label, text_of
from dpbandits.lab.planning.levels import ForAll, InSegments, Levels
from dpbandits.lab.planning.segments import Segments
from dpbandits.lab.worlds import TableBandit
from dpbandits.tables import Schema
from dpbandits.tables.columns import Categories, Column
from dpbandits.tables.description import check_keys, columns_in, description_in, text_in

__all__ = ["NO_ACTIONS", "SMOOTHNESS", "Facts"]

NO_ACTIONS = (
    "actions: no plan is made for numbers to choose. Simulate instead: lab.compare on a world from "
    "TableBandit.from_rewards(..., actions=), with lab.twin(policy) as the policy without privacy"
)
"""Message of a plan that is asked for actions."""

SMOOTHNESS = {"smooth": (0.6, 4.0), "medium": (0.2, 0.6), "rough": (0.08, 0.25)}
"""Bounds of the distance along a column after which the best arm changes, by word, as shares of the range."""

_WAVES = 48
"""Number of random cosine waves in a function; their sum is close to a Gaussian process."""

_TRIES = 40
"""Number of draws of functions after which base rate, effect and personal part are drawn anew too."""

_MISSED = 0.1
"""Largest error of the effect, and of the personal part, of a drawn world, as a share of the effect."""

_PILOT = 2500
"""Number of simulated users on whom the size of effects is fitted."""

_LENGTH_OF_CATEGORIES = 0.3
"""Lengthscale of functions along a categorical column, whose categories have random places in [0, 1]."""

_JUMPS = 1.0 / 3.0
"""Probability that the functions of a world have two values each and jump between them."""

_USUAL_PERSONAL = (0.4, 1.0)
"""Bounds of the argument `personal` if the facts do not state it."""

_LARGEST_SHARED = 0.5
"""Largest size of the function common to all arms, as a multiple of the size of the arms' own functions.

Both are measured in log odds of the reward.
"""

_LEAST_OF_AN_ARM, _MOST_OF_AN_ARM = 0.1, 1.5
"""Bounds of the relative size of one arm's function. A small one means that the arm pays everybody alike."""

_EVEN, _CROWDED = 0.2, 0.4
"""Probabilities that a column's values are uniform, and that they are crowded at one end.

Otherwise their distribution has one mode inside the range.
"""

_NEAR, _FAR, _AT_TOP = 0.04, 0.3, 0.25
"""Distribution of a column that is crowded at one end of its range.

`_NEAR` and `_FAR` bound the distance of the mean from that end, in widths of the range. `_AT_TOP` is the
probability that the end is the upper one: most users' amounts, counts and times lie near the lower end of
their public range.
"""

_TOGETHER = 0.8
"""Largest correlation of a column with the random factor that all columns share."""

_SHORT = 0.25
"""Lengthscale of functions along a column below which the rates of segments are steps at the segments' edges.

With longer lengthscales, rates change linearly between the segments' centres.
"""

_MANY = 32
"""Number of random draws of the marginal of a column with segments, and of their rates.

The best fit is used.
"""

_ROUNDING = 1e-9
"""Tolerance for rounding errors in means of rates."""

_DRAWS = 2000
"""Largest number of draws of rates. If none agrees with the other beliefs, the facts are contradictory."""

_LEAST_SCATTER = 0.3
"""Smallest standard deviation of a reward in worlds whose facts do not state it.

It is a share of the largest possible deviation.
"""

_LEAST_ROOM = 0.02
"""Smallest distance of the base rate from the ends of the reward range, in widths of the range."""

_LEAST_ROOM_OF_AN_ARM = 0.001
"""Smallest distance of a single arm's rate from the ends of the reward range, in widths of the range.

It is small, because an arm may pay almost nothing.
"""

_DRAWN = 3
"""Version of the code that draws worlds. Raise it when worlds change, so that caches do not mix versions."""

_OF_TABLES = frozenset({"name", "path", "horizon", "user", "privacy", "label", "rewards", "log", "answers"})
"""Keys of a file that describe a table, which `Facts` ignores."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Facts:
    """Public facts about users, arms and rewards, without any data.

    Args:
        contexts: Columns of a user's context.
        arms: Labels of the arms, two or more.
        reward_range: Public bounds of rewards.
        base_rate: Mean reward of a random arm; by default the middle of the range, give or take a fifth of
            its width.
        effect: Mean reward of each user's best arm, minus that of a random arm; 0 means that there is nothing
            to learn.
        personal: Part of the effect that the best single arm does not get. By default .4 to 1, or the part
            that follows from `rates`.
        smoothness: Distance along a column, as a share of its range, over which rewards stay alike; or a word
            of `SMOOTHNESS`.
        relevant: Number of columns that matter; by default one to three. Columns with rates in segments
            always matter.
        rates: Mean reward of every arm if everybody got it, by label. Base rate and personal part follow from
            these. If you give them too, worlds agree with all of them.
        segments: Parts of the users along a column, by column name; see below.
        scatter: Standard deviation of a reward around its mean. With None and the range 0 to 1, a reward is
            one of the two ends, which is the largest possible deviation. With None and another range, it is
            an amount with that deviation or less.

    The section of a column has three keys. `people` lists the segments' shares of all users, with sum 1.
    `until` lists where all segments but the last end; only a `Range` has it. `rates` lists the mean rewards
    in the segments, by label of an arm; it needs the argument `rates`.

    Raises:
        InvalidParameter: No world has these numbers; for example, the effect is too large for the base rate.
    """

    contexts: Schema
    arms: Sequence[Label]
    effect: Any
    reward_range: RewardRange | tuple[float, float] = (0.0, 1.0)
    base_rate: Any = None
    personal: Any = None
    smoothness: Any = (0.3, 3.0)
    relevant: Any = None
    scatter: float | None = None
    rates: Mapping[Label, Any] | None = None
    segments: Mapping[str, Any] | None = None
    beliefs: Mapping[str, Between] = field(init=False, repr=False)
    believed_rates: tuple[Between, ...] | None = field(init=False, repr=False)
    believed_segments: tuple[Segments, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _checks.an(self.contexts, Schema, name="contexts", pass_="contexts=Schema(age=Range(18, 90))")
        bounds = RewardRange.of(self.reward_range)
        labels = [text_of(label) for label in Arms(list(self.arms)).labels]
        if len(labels) < 2:
            raise InvalidParameter("arms: expected at least two")
        width, columns = bounds.width, len(self.contexts.names)
        middle, fifth = bounds.middle, 0.2 * width
        rates = None if self.rates is None else _rates(self.rates, labels, bounds)
        room = _LEAST_ROOM_OF_AN_ARM * width
        said_of = {} if self.segments is None else self.segments
        segments = Segments.all_in(said_of, self.contexts, labels, bounds, room=room)
        rates = self._agreed(rates, segments, labels)
        room = (_LEAST_ROOM_OF_AN_ARM if rates else _LEAST_ROOM) * width
        whole: Any = (bounds.low + room, bounds.high - room), (0.0, 1.0)
        usual = whole if rates else ((middle - fifth, middle + fifth), _USUAL_PERSONAL)
        base, personal = (
            unsaid if said is None else said
            for said, unsaid in zip((self.base_rate, self.personal), usual, strict=True)
        )
        smoothness = self.smoothness
        if isinstance(smoothness, str):
            smoothness = SMOOTHNESS[_checks.one_of(smoothness, tuple(SMOOTHNESS), name="smoothness")]
        relevant = (1, min(3, columns)) if self.relevant is None else self.relevant
        if isinstance(relevant, int) and not isinstance(relevant, bool):
            relevant = (relevant, relevant)
        beliefs = {
            "base_rate": Between.of(base, name="base_rate", low=bounds.low + room, high=bounds.high - room),
            "effect": Between.of(self.effect, name="effect", low=0.0, high=width),
            "personal": Between.of(personal, name="personal", low=0.0, high=1.0),
            "smoothness": Between.of(smoothness, name="smoothness", low=0.01, high=10.0),
            "relevant": Between.of(relevant, name="relevant", low=1, high=columns),
        }
        if self.scatter is not None:
            _checks.number(self.scatter, name="scatter", exclusive=False)
        _checks.assign(self, reward_range=bounds, arms=tuple(self.arms), beliefs=beliefs)
        _checks.assign(self, believed_rates=rates, believed_segments=segments)
        if rates is not None:  # report contradictions here, not when a world is drawn
            self._check_effect(bounds)
            _Sizes.drawn(self, np.random.default_rng(0))

    def _agreed(
        self, rates: tuple[Between, ...] | None, segments: Sequence[Segments], labels: Sequence[str]
    ) -> tuple[Between, ...] | None:
        """Return the arms' rates over all users, narrowed to the bounds that each column's segments allow."""
        for one in segments:
            if one.rates is None:
                continue
            if rates is None:
                raise InvalidParameter(
                    "segments: rates of segments need the rates of everyone too: pass rates="
                )
            agreed = []
            for label, rate, low, high, moved in zip(labels, rates, *one.means(), strict=True):
                ends = max(rate.low, low), min(rate.high, high)
                if ends[0] > ends[1] + moved:
                    raise InvalidParameter(
                        f"segments.{self.contexts.names[one.column]}: by its segments {label} pays from "
                        f"{low:.3g} to {high:.3g}, but by the other facts {rate.low:.3g} to {rate.high:.3g}: "
                        "widen one of them"
                    )
                agreed.append(Between(min(ends), max(ends)))
            rates = tuple(agreed)
        return rates

    def _check_effect(self, bounds: RewardRange) -> None:
        """Check that the effect fits into the reward range, and is not below that of the segments' rates."""
        effect, rates = self.beliefs["effect"], self.believed_rates or ()
        most = float(np.mean([rate.high for rate in rates]))
        if effect.low > bounds.high - float(np.mean([rate.low for rate in rates])):
            raise InvalidParameter(
                "effect: with these rates, it exceeds the range of rewards: lower the effect or the rates"
            )
        for one in self.rated:
            if one.least_best() > most + effect.high + _ROUNDING:
                name = self.contexts.names[one.column]
                raise InvalidParameter(
                    f"segments.{name}: giving every segment its best arm earns more than the effect: raise "
                    "the effect, or lower the rates of segments"
                )

    @property
    def rated(self) -> tuple[Segments, ...]:
        """Segments of all columns for which the facts state the arms' rates."""
        return tuple(one for one in self.believed_segments if one.rates is not None)

    @classmethod
    def from_toml(cls, path: str | Path, **given: Any) -> tuple[Self, dict[str, Any]]:
        """Return the facts of a file, and a dictionary of the other settings in its section [plan] (`users`).

        Args:
            path: Path of the file; see the module for its format. The table that it may name is not opened.
            **given: Arguments that take precedence over the file.

        Raises:
            InvalidParameter: The file is no TOML, or a key is missing, misspelled or contradicts another.
            DataUnavailable: The file does not exist or cannot be read.
        """
        where = Path(path)
        found = description_in(text_in(where), where.name)
        plan = found.get("plan", {})
        if "actions" in found or (isinstance(plan, dict) and "actions" in plan):
            raise InvalidParameter(NO_ACTIONS)
        check_keys(found, where.name, required={"columns"}, optional=_OF_TABLES | {"plan"})
        names = {one.name for one in fields(cls) if one.init} - {"contexts", "reward_range"}
        if not isinstance(plan, dict):
            raise InvalidParameter("plan: expected a section, [plan]")
        check_keys(plan, "[plan]", required=set(), optional=names | {"low", "high", "users"})
        said = {"contexts": Schema(**columns_in(found)), **{k: v for k, v in plan.items() if k in names}}
        if "low" in plan or "high" in plan:
            said["reward_range"] = (plan.get("low", 0.0), plan.get("high", 1.0))
        said |= {name: value for name, value in given.items() if value is not None}
        for name, how in (("arms", "--arms mail,call,nothing"), ("effect", "--effect 0.05")):
            if name not in said:
                raise InvalidParameter(f"{name}: missing in [plan] and in the options: pass {how}")
        return cls(**said), {name: value for name, value in plan.items() if name == "users"}

    @property
    def nothing_to_learn(self) -> bool:
        """True if all arms are believed to pay everybody alike."""
        return self.beliefs["effect"].high == 0.0

    def to_config(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary of everything that a world depends on besides its seed and size."""
        bounds = RewardRange.of(self.reward_range)
        segments = [one.to_config() for one in self.believed_segments]
        return {
            "contexts": self.contexts.to_config(),
            "arms": [str(label) for label in self.arms],
            "reward_range": [bounds.low, bounds.high],
            "scatter": self.scatter,
            "drawn": _DRAWN,
            **{name: list(belief) for name, belief in self.beliefs.items()},
            **({} if self.believed_rates is None else {"rates": [list(one) for one in self.believed_rates]}),
            **({"segments": segments} if segments else {}),
        }

    def world(self, seed: Seed, people: int, *, crowd: int = 0) -> TableBandit:
        """Draw a world in which the facts hold, with `people` users.

        The seed determines the distribution of contexts, the columns that matter, the functions and every
        number within its bounds. None of these depends on `people`. Each number `crowd` gives other users
        from the same world.
        """
        law, drawn = np.random.default_rng([seed, 0]), np.random.default_rng([seed, 1, crowd])
        bounds = RewardRange.of(self.reward_range)
        crowd_law = _Crowd.drawn(self.contexts, law, self.believed_segments)
        seen = crowd_law.ranks if seed % 4 in _BY_RANK else np.asarray
        pilot = crowd_law.people(_PILOT, law)
        sizes = _Sizes.drawn(self, law, seed)
        part_of_scatter = law.uniform(_LEAST_SCATTER, 1.0)

        def attempt(number: int) -> Any:
            shape = _Shape.drawn(self, law, additive=seed % 4 in _ADDITIVE)
            # draw other sizes if no functions fit the first ones
            others = number >= _TRIES or (self.rated and number > 0)
            return shape.fitted(pilot, seen, self, _Sizes.drawn(self, law) if others else sizes)

        tries = (attempt(number) for number in range(2 * _TRIES))
        link = next((found for found in tries if found is not None), None)
        if link is None:
            raise InvalidParameter(
                "effect: no world fits it together with the base rate or the rates: lower effect or "
                "personal, or, with rates of segments, raise effect"
            )
        contexts = crowd_law.people(_checks.integer(people, name="people"), drawn)
        means = link(contexts)
        if self.scatter is None and (bounds.low, bounds.high) == (0.0, 1.0):
            paid = (drawn.random((people, 1)) < means).astype(np.float64)
        elif self.scatter is None:
            # beta amounts in [0, 1] whose deviation is this part of the largest possible one
            count = 1.0 / part_of_scatter**2 - 1.0
            inside = np.clip(means, 1e-9, 1.0 - 1e-9)
            paid = drawn.beta(inside * count + 1e-9, (1.0 - inside) * count + 1e-9)
        else:
            luck = drawn.standard_normal((people, 1))
            paid = np.clip(means + self.scatter / bounds.width * luck, 0.0, 1.0)
        return TableBandit(
            name="planned",
            schema=self.contexts,
            contexts=contexts,
            arms=Arms(list(self.arms)),
            reward_table=bounds.low + bounds.width * paid,
            expected=bounds.low + bounds.width * means,
            reward_range=bounds,
            seed=seed,
            horizon=people,
        )


@dataclass(frozen=True)
class _Crowd:
    """Distribution of contexts: a marginal for each of C columns, and a one-factor Gaussian copula.

    Attributes:
        columns: Columns of a context.
        laws: Marginal of each column: probabilities of its categories, or both parameters of a beta
            distribution.
        known: Segments of each column; None without segments. The marginal is transformed so that every
            segment has its share of users.
        pull: Correlation of each column's normal score with the common factor, shape (C,).
    """

    columns: tuple[Column, ...]
    laws: tuple[FloatArray, ...]
    known: tuple[Segments | None, ...]
    pull: FloatArray

    @classmethod
    def drawn(cls, schema: Schema, rng: np.random.Generator, segments: Sequence[Segments] = ()) -> Self:
        columns = tuple(schema.columns.values())
        known: list[Segments | None] = [None] * len(columns)
        for one in segments:
            known[one.column] = one
        laws = tuple(
            _one_law(column, rng) if own is None else _law_like(own, column, rng)
            for column, own in zip(columns, known, strict=True)
        )
        return cls(columns, laws, tuple(known), rng.uniform(-_TOGETHER, _TOGETHER, size=len(columns)))

    def people(self, n: int, rng: np.random.Generator) -> FloatArray:
        common, own = rng.standard_normal((n, 1)), rng.standard_normal((n, len(self.pull)))
        unit = ndtr(self.pull * common + np.sqrt(1.0 - self.pull**2) * own)
        cells = []
        for column, law, segments, part in zip(self.columns, self.laws, self.known, unit.T, strict=True):
            if segments is not None and segments.edges is not None:
                # give each segment its known share of the users
                part = np.interp(part, _ends(segments), _knots(segments, law))
            cells.append(_cells(column, law, part))
        return np.column_stack(cells)

    def ranks(self, contexts: FloatArray) -> FloatArray:
        """Return contexts (n, d) with each number replaced by its quantile; cyclic columns are unchanged."""
        found, at = contexts.copy(), 0
        for column, law, own in zip(self.columns, self.laws, self.known, strict=True):
            if column.width == 1 and not isinstance(column, Categories):
                below = betainc(law[0], law[1], contexts[:, at])
                found[:, at] = below if own is None else np.interp(below, _knots(own, law), _ends(own))
            at += column.width
        return found


def _ends(own: Segments) -> FloatArray:
    return np.concatenate([[0.0], np.minimum(np.cumsum(own.people), 1.0)])


def _knots(own: Segments, law: FloatArray) -> FloatArray:
    """Return the probability below each end of the segments under the marginal `law`, shape (S + 1,)."""
    return np.concatenate([[0.0], betainc(law[0], law[1], own.edges), [1.0]])


def _one_law(column: Column, rng: np.random.Generator) -> FloatArray:
    kind, first, second, end = rng.random(4)
    if isinstance(column, Categories):
        even = np.full(len(column.values), 1.0 / len(column.values))
        return even if kind < _EVEN else rng.dirichlet(np.full(len(column.values), 2.0))
    if kind < _EVEN:
        return np.ones(2)
    if kind < 1.0 - _CROWDED or column.width > 1:
        return np.array([0.8 + 3.2 * first, 0.8 + 3.2 * second])
    mean, steep = _NEAR * (_FAR / _NEAR) ** first, 0.7 + 2.3 * second
    law = np.array([steep, steep * (1.0 - mean) / mean])
    return law[::-1] if end < _AT_TOP else law


def _law_like(own: Segments, column: Column, rng: np.random.Generator) -> FloatArray:
    """Return the random marginal that fits the segments' shares of users best."""
    if own.edges is None:
        return own.people
    laws = [_one_law(column, rng) for _ in range(_MANY)]
    parts = [np.maximum(np.diff(_knots(own, law)), _ROUNDING) for law in laws]
    return laws[int(np.argmax([own.people @ np.log(part) for part in parts]))]


def _cells(column: Column, law: FloatArray, unit: FloatArray) -> FloatArray:
    if isinstance(column, Categories):
        codes = np.searchsorted(np.cumsum(law)[:-1], unit, side="right")
        return np.asarray(codes, dtype=np.float64)[:, None]
    place = betaincinv(law[0], law[1], unit)
    if column.width == 1:
        return np.asarray(place)[:, None]
    angle = 2.0 * np.pi * place
    return np.column_stack([0.5 + 0.5 * np.cos(angle), 0.5 + 0.5 * np.sin(angle)])


_PERSONAL_IN, _EFFECT_IN = (1, 2, 0, 3), (3, 0, 1, 2)
"""Quarter of its bounds from which each of four consecutive worlds draws `personal` and `effect`.

Each quarter occurs once, and the orders of `personal` and `effect` are uncorrelated.
"""

_ADDITIVE, _BY_RANK = frozenset({0, 1}), frozenset({0, 3})
"""Worlds with functions that are sums over columns, and worlds with functions of quantiles.

Worlds are numbered by their seed modulo 4. Functions of quantiles use the quantile of a number instead of
its value.

Each set has two of four consecutive worlds, so that all four combinations occur.
"""


def _rates(said: object, labels: Sequence[str], bounds: RewardRange) -> tuple[Between, ...]:
    room = _LEAST_ROOM_OF_AN_ARM * bounds.width
    low, high = bounds.low + room, bounds.high - room
    found = by_label(said, labels, name="rates")
    return tuple(
        Between.of(rate, name=f"rates of {label}", low=low, high=high) for label, rate in found.items()
    )


class _Sizes(NamedTuple):
    """Base rate, effect, personal part and rates of one world, drawn within the believed bounds."""

    base_rate: float
    effect: float
    personal: float
    rates: tuple[float, ...] | None = None
    segments: tuple[FloatArray, ...] = ()

    @classmethod
    def drawn(cls, facts: Facts, rng: np.random.Generator, seed: Seed | None = None) -> Self:
        """Draw the numbers of one world."""
        if facts.believed_rates is not None:
            return cls._of_rates(facts, rng, quarter=None if seed is None else _EFFECT_IN[seed % 4])
        base, first, second = rng.random(3).tolist()
        effect, personal = first, second
        if seed is not None:
            effect, personal = (_EFFECT_IN[seed % 4] + second) / 4.0, (_PERSONAL_IN[seed % 4] + first) / 4.0
        beliefs = facts.beliefs
        base, size = beliefs["base_rate"].at(base), beliefs["effect"].at(effect)
        return cls(base, size, beliefs["personal"].at(personal, evenly=True))

    @classmethod
    def _of_rates(cls, facts: Facts, rng: np.random.Generator, quarter: int | None = None) -> Self:
        """Draw rates and an effect that agree with the believed base rate and personal part."""
        beliefs, believed = facts.beliefs, facts.believed_rates or ()
        if beliefs["effect"].high == 0.0:  # all arms pay alike
            low, high = max(one.low for one in believed), min(one.high for one in believed)
            if low > high:
                raise InvalidParameter("rates: effect 0 means equal rates, and no rate is in all bounds")
            return cls(0.5 * (low + high), 0.0, 0.0, (0.5 * (low + high),) * len(believed))
        for attempt in range(_DRAWS):
            part = rng.random()
            if quarter is not None and attempt < _DRAWS // 2:
                part = (quarter + part) / 4.0
            effect = beliefs["effect"].at(part)
            rates = tuple(one.at(at) for one, at in zip(believed, rng.random(len(believed)), strict=True))
            base = float(np.mean(rates))
            personal = 1.0 - (max(rates) - base) / effect
            found = ((beliefs["base_rate"], base), (beliefs["personal"], personal))
            if all(one.low - _ROUNDING <= value <= one.high + _ROUNDING for one, value in found):
                means = tuple(_means(one, rates, rng) for one in facts.rated)
                return cls(base, effect, personal, rates, means)
        raise InvalidParameter(
            "rates: almost none agree with base rate, effect and personal part. The best single arm pays at "
            "most the effect more than the mean of all arms. Leave out the number that you know least"
        )


def _means(segments: Segments, rates: Sequence[float], rng: np.random.Generator) -> FloatArray:
    """Draw the mean rewards of K arms in S segments, shape (S, K).

    `rates` are the arms' mean rewards over all users.

    Of `_MANY` draws, each arm uses the one whose mean over all users is nearest to its rate.
    """
    low, high = np.moveaxis(np.array(segments.rates), 2, 0)
    drawn = low + (high - low) * rng.triangular(0.0, 0.5, 1.0, size=(_MANY, *low.shape))
    off = np.abs(np.einsum("s,dsk->dk", segments.people, drawn) - np.array(rates))
    return np.asarray(drawn[off.argmin(axis=0), :, np.arange(len(rates))].T)


@dataclass(frozen=True, kw_only=True)
class _Shape:
    """Random functions of a context before scaling: one per arm, one common to all arms, and constants.

    There are K arms, M waves in a function, and d coordinates of a context, of which some are codes of
    categories.

    Attributes:
        places: Number in [0, 1] for each of at most C categories of a coordinate, shape (C, d); NaN for
            coordinates that are numbers.
        waves: Frequencies, shape (K + 1, M, d); 0 for columns that do not matter. The last function is the
            common one.
        phases: Phases of the waves, shape (K + 1, M).
        constants: Constant of each arm, with mean 0 and standard deviation 1, shape (K,).
        jumps: Share of users for whom a function has its higher value, shape (K + 1,); None if functions are
            smooth.
        sizes: Sizes of the arms' functions, shape (K,).
        shared: Size of the common function.
        short: True for coordinates along which functions change within a segment, shape (d,). Known rates of
            segments are steps there.
    """

    places: FloatArray
    waves: FloatArray
    phases: FloatArray
    constants: FloatArray
    jumps: FloatArray | None
    sizes: FloatArray
    shared: float
    short: BoolArray

    @classmethod
    def drawn(cls, facts: Facts, rng: np.random.Generator, *, additive: bool) -> Self:
        schema, arms = facts.contexts, len(facts.arms)
        each = arms + 1
        widths = np.array([column.width for column in schema.columns.values()])
        low, high = facts.beliefs["relevant"]
        count = int(rng.integers(int(np.ceil(low)), int(high) + 1))
        order = rng.permutation(len(widths))
        rated = [one.column for one in facts.rated]
        first = np.isin(order, rated)  # columns with rates in segments always matter
        chosen = np.concatenate([order[first], order[~first]])[: max(count, len(rated))]
        count = len(chosen)
        of_column = np.repeat(np.arange(len(widths)), widths)
        low_length, high_length = np.log(facts.beliefs["smoothness"]).tolist()
        codes = schema.codes
        # every column has its own length
        lengths = np.exp(rng.uniform(low_length, high_length, size=len(widths)))[of_column]
        lengths[list(codes)] = _LENGTH_OF_CATEGORIES
        waves = rng.standard_normal((each, _WAVES, len(of_column))) / lengths
        seen = np.isin(of_column, chosen)
        if additive:  # each wave depends on one column
            seen = of_column == chosen[rng.integers(count, size=(each, _WAVES))][:, :, None]
        waves = np.where(seen, waves, 0.0)
        places = np.full((max(codes.values(), default=1), len(of_column)), np.nan)
        for column, categories in codes.items():
            places[:categories, column] = rng.random(categories)
        constants = rng.standard_normal(arms)
        constants = (constants - constants.mean()) / max(constants.std(), 1e-9)
        phases = rng.uniform(0.0, 2.0 * np.pi, (each, _WAVES))
        jumps = rng.uniform(0.2, 0.8, size=each) if rng.random() < _JUMPS else None
        return cls(
            places=places,
            waves=waves,
            phases=phases,
            constants=constants,
            jumps=jumps,
            sizes=rng.uniform(_LEAST_OF_AN_ARM, _MOST_OF_AN_ARM, size=arms),
            shared=float(rng.uniform(0.0, _LARGEST_SHARED)),
            short=(lengths < _SHORT) | (jumps is not None),
        )

    def parts(self, contexts: FloatArray) -> FloatArray:
        at = contexts.copy()
        for column in np.flatnonzero(~np.isnan(self.places[0])):
            at[:, column] = self.places[contexts[:, column].astype(np.int64), column]
        values = [
            np.cos(at @ frequencies.T + phase).sum(axis=1)
            for frequencies, phase in zip(self.waves, self.phases, strict=True)
        ]
        return np.asarray(np.sqrt(2.0 / _WAVES) * np.stack(values, axis=1))

    def _with_jumps(self, pilot: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Return `parts`, or the same functions with jumps: 1 above a quantile of `parts`, else -1."""
        if self.jumps is None:
            return self.parts
        functions = zip(self.parts(pilot).T, self.jumps, strict=True)
        edges = np.array([np.quantile(one, 1.0 - part) for one, part in functions])
        return lambda contexts: np.where(self.parts(contexts) > edges, 1.0, -1.0)

    def fitted(
        self, people: FloatArray, seen: Callable[[FloatArray], FloatArray], facts: Facts, sizes: "_Sizes"
    ) -> Any:
        """Scale the functions to give a world the drawn base rate, effect and personal part, or rates.

        Args:
            people: Contexts of simulated users on whom the functions are fitted (the pilot), shape (n, d).
            seen: Transformation of contexts before the functions are evaluated.
            facts: Facts of the world.
            sizes: Drawn numbers.

        Returns:
            Function from contexts (n, d) to mean rewards (n, K) scaled to [0, 1]; None if the functions
            cannot reach the numbers.
        """
        pilot = seen(people)
        bounds = RewardRange.of(facts.reward_range)
        base = (sizes.base_rate - bounds.low) / bounds.width
        effect = sizes.effect / bounds.width
        personal = float(np.clip(sizes.personal, 0.0, 1.0))
        parts = self._with_jumps(pilot)
        functions = parts(pilot)
        centre = functions.mean(axis=0)
        functions = functions - centre
        spread = max(float((self.sizes * functions[:, :-1]).std()), 1e-9)
        of_all = self.shared / max(float(functions[:, -1].std()), 1e-9)

        def log_odds(size: float, tilt: float, parts: FloatArray) -> FloatArray:
            """Return the log odds of arms, `size` times a mixture."""
            own = (1.0 - tilt) * self.sizes * parts[:, :-1] / spread + tilt * self.constants
            return np.asarray(size * (own + of_all * parts[:, -1:]))

        def gains(size: float, tilt: float) -> tuple[float, float]:
            odds = log_odds(size, tilt, functions)
            found = expit(odds + _shift(odds, base))
            best, level = found.max(axis=1).mean(), found.mean()
            return float(best - level), float(best - found.mean(axis=0).max())

        def size_for(tilt: float) -> float:
            return _root(lambda size: gains(size, tilt)[0] - effect, 0.0, _LARGEST_SIZE)

        if effect == 0.0:
            return lambda contexts: np.full((len(contexts), len(self.constants)), base)
        if sizes.rates is not None:
            levels = self._levels(people, facts, sizes, bounds)

            def excess(size: float) -> float:
                odds = log_odds(size, 0.0, functions)
                paid = expit(odds + levels.at(people, levels.fitted(odds)))
                return float(paid.max(axis=1).mean() - base - effect)

            size = _root(excess, 0.0, _LARGEST_SIZE)
            odds = log_odds(size, 0.0, functions)
            fitted = levels.fitted(odds)
            off = max(abs(excess(size)), levels.off(odds + levels.at(people, fitted)))
            if off > _MISSED * effect:
                return None
            return lambda contexts: np.asarray(
                expit(log_odds(size, 0.0, parts(seen(contexts)) - centre) + levels.at(contexts, fitted))
            )

        tilt = _root(lambda tilt: gains(size_for(tilt), tilt)[1] - personal * effect, 0.0, 1.0, coarse=True)
        size = size_for(tilt)
        found = gains(size, tilt)
        if abs(found[0] - effect) > _MISSED * effect or abs(found[1] - personal * effect) > _MISSED * effect:
            return None
        shift = _shift(log_odds(size, tilt, functions), base)
        return lambda contexts: np.asarray(
            expit(log_odds(size, tilt, parts(seen(contexts)) - centre) + shift)
        )

    def _levels(self, people: FloatArray, facts: Facts, sizes: "_Sizes", bounds: RewardRange) -> Levels:
        """Return the rule that shifts log odds to give arms their rates, over all users and in segments."""
        rates, *means = (
            (np.asarray(one) - bounds.low) / bounds.width for one in (sizes.rates, *sizes.segments)
        )
        if not means:
            return ForAll(rates)
        sharp = [bool(self.short[one.at]) for one in facts.rated]
        return InSegments.of(people, facts.rated, means, rates, sharp=sharp)


_LARGEST_SIZE = 12.0
"""Largest scale of log odds; beyond it, rewards are practically certain."""


def _root(rise: Any, low: float, high: float, *, coarse: bool = False) -> float:
    """Return the argument between `low` and `high` where the function `rise` is zero."""
    first, last = rise(low), rise(high)
    if first * last >= 0.0:
        return low if abs(first) <= abs(last) else high
    return float(brentq(rise, low, high, xtol=0.01 if coarse else 1e-4))


def _shift(sizes: FloatArray, base: float) -> float:
    """Return the number that is added to the log odds `sizes` so that the mean probability is `base`."""
    reach = float(np.abs(sizes).max()) + abs(float(logit(base))) + 1.0
    return float(brentq(lambda shift: expit(sizes + shift).mean() - base, -reach, reach, xtol=1e-4))
