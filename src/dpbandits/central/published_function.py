"""`PublishedFunction`: a released reward function, for any number of predictions by anyone.

Its content is computed from private releases. Using, copying and publishing it costs no further privacy.

- `PublishedCells`: a table of expected rewards and their standard deviations over public cells.
- `PublishedPosterior`: the posterior of the weights of public features, over contexts and arms or over
  points.
"""

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dpbandits import domains
from dpbandits._checks import contents, number, public_array, scale
from dpbandits._memory import memory_limit
from dpbandits._reading import json_object, reading
from dpbandits._seen import Seen, said
from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.domains import Domain, RewardRange
from dpbandits.domains.arms import Label
from dpbandits.errors import CorruptState, InvalidData, InvalidParameter
from dpbandits.export import decisions
from dpbandits.export.sql import Dialect, to_sql
from dpbandits.models import features as feature_maps
from dpbandits.models.features import ArmFeatures, Features, SectionFeatures
from dpbandits.models.features.base import NORM_BOUND
from dpbandits.models.features.maximise import Maximiser
from dpbandits.models.features.people import check_arms
from dpbandits.models.marginals import EffectFeatures
from dpbandits.models.marginals.action_features import ActionFeatures
from dpbandits.models.measures import CellMeasure, IntervalAxis
from dpbandits.models.noisy_regression import WeightPosterior
from dpbandits.models.ties import first_best
from dpbandits.privacy.guarantee import Assumption, Guarantee
from dpbandits.state.files import found
from dpbandits.state.npy import from_npy, to_npy
from dpbandits.tables import Actions, Schema
from dpbandits.tables.actions import ActionCurve
from dpbandits.tables.menu import Menu
from dpbandits.tables.windows import Window, read_window

__all__ = ["PublishedCells", "PublishedFunction", "PublishedPosterior"]

_FORMAT = 1
_FEW_ROWS = ("few_rows", "recommended_with_few_rows")
_POLICY = "policy.json"

_PEOPLE_AT_ONCE = 1 << 14
"""Number of users whose features are in memory at the same time."""


class PublishedFunction(Seen, ABC):
    """Base class of released functions of users' contexts and of the choices for them.

    Attributes:
        guarantee: Guarantee of the releases from which the function was computed.
        menu: Contexts and arms; None if the inputs are points or cells.
    """

    guarantee: Guarantee
    menu: Menu | None

    @abstractmethod
    def predict(self, contexts: Any) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation (n, A) of the expected rewards of n users' A choices."""

    @abstractmethod
    def choose(self, contexts: Any) -> IntArray:
        """Return the indices (n,) of the choices with the highest mean."""

    @abstractmethod
    def means(self, people: FloatArray) -> FloatArray:
        """Return expected rewards (n, K) of all choices for encoded contexts (n, d), without deviations."""

    @property
    def arms(self) -> tuple[Label, ...]:
        """Labels of the arms; empty without a menu."""
        return () if self.menu is None else self.menu.arms.labels

    def recommend(self, context: Any, *, available: Any = None) -> Label:
        """Return the label of one user's best arm, or the action of the highest value.

        The choice is among the labels in `available`; default all.

        Raises:
            InvalidData: The context cannot be read, there are several users or no arms, or no arm is
                available.
        """
        best = self.recommend_batch(context, available=None if available is None else [available])
        if len(best) != 1:
            raise InvalidData(f"recommend: got {len(best)} users, expected one: use recommend_batch")
        label: Label = best[0]  # recommend_batch has raised if this user's context cannot be read
        return label

    def recommend_batch(self, contexts: Any, *, available: Any = None) -> tuple[Any, ...]:
        """Return the labels of all users' best arms; None for a user whose context cannot be read.

        Args:
            contexts: Contexts of n users.
            available: n lists of labels, or booleans (n, A); default all.

        Raises:
            InvalidData: No context can be read, there are no arms, or a user has no available arm.
        """
        if self.menu is None:
            raise InvalidData("there are no arms with labels: choose gives the index of the best")
        if available is None:
            return self._labels(self.choose(contexts))
        mean = self._means_of(self.menu, contexts)
        offered = self.menu.all_offered(available, len(mean))
        if not offered.any(axis=1).all():
            raise InvalidData("available: expected a list of at least one label for every user")
        if self.menu.actions is not None:
            return self._labels(self._best_actions(contexts, mean, offered))
        return self._labels(self.best_of(np.where(offered | np.isnan(mean), mean, -np.inf)))

    def _means_of(self, menu: Menu, contexts: Any) -> FloatArray:
        """Return expected rewards (n, K) of all arms for n users; the row of an unreadable context is NaN."""
        people, known = menu.readable(contexts)
        mean = self.means(people)
        mean[~known] = np.nan
        return mean

    def _best_actions(self, contexts: Any, mean: FloatArray, offered: BoolArray | None = None) -> IntArray:
        raise InvalidData("this function has no actions")

    def best_of(self, mean: FloatArray) -> IntArray:
        """Return the index of the best of A predicted means for each of n rows, shape (n,); -1 with NaN.

        Of tied choices the first is returned (see `dpbandits.models.ties`).
        """
        return np.where(np.isnan(mean).any(axis=1), -1, first_best(mean, unit=self._unit))

    @property
    @abstractmethod
    def _unit(self) -> float:
        """Unit of rewards in which ties of means are defined."""

    def _labels(self, codes: IntArray) -> tuple[Any, ...]:
        chosen = self.arms
        if self.menu is not None and self.menu.actions is not None:
            chosen = self.menu.actions.choices
        return tuple(None if code < 0 else copy(chosen[code]) for code in codes.tolist())

    @abstractmethod
    def at_points(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation (n,) at points (n, d), which are contexts followed by an arm."""

    def asked_at(
        self, points: FloatArray, *, menu: Menu | None, domain: Domain
    ) -> tuple[BoolArray, FloatArray]:
        """Return a mask (n,) of another object's points that this function knows, and these k points (k, d).

        Args:
            points: Points (n, d) of the other object; with a menu, encoded contexts and arms.
            menu: Menu of the other object.
            domain: Domain of the other object.

        Raises:
            InvalidParameter: Contexts or domain differ, or there is no arm in common.
        """
        if self.menu is None or menu is None:
            if self.menu is not None or menu is not None or self._domain != domain:
                raise InvalidParameter(
                    "the published function has another domain of contexts, arms or points"
                )
            return np.ones(len(points), dtype=np.bool_), points
        if self.menu.contexts != menu.contexts:
            raise InvalidParameter(
                "the published function has other contexts: columns, bounds and categories must be the same"
            )
        codes = self.menu.cells(list(menu.arms.labels))[points[:, -1].astype(np.int64)]
        known = codes >= 0
        if not known.any():
            raise InvalidParameter("the published function has none of these arms")
        return known, np.column_stack([points[known, :-1], codes[known]])

    @property
    def _domain(self) -> Domain | None:
        return None

    @abstractmethod
    def under(self, guarantee: Guarantee) -> Self:
        """Return a copy with another guarantee."""

    def resting_on(self, assumption: Assumption) -> Self:
        """Return a copy whose guarantee has one more unchecked assumption."""
        found = self.guarantee
        return self.under(replace(found, assumptions=(*found.assumptions, assumption)))

    def _decisions(self, rule: dict[str, Any]) -> str:
        if self.menu is None:
            raise InvalidParameter(
                "to_decisions: needs contexts and arms; a function of points cannot be exported"
            )
        arms, schema = self.menu.arms.labels, self.menu.contexts
        return decisions.written_policy(
            rule, schema=schema, arms=arms, version=None, coded=True, actions=self._exported_actions()
        )

    @abstractmethod
    def rule(self) -> dict[str, Any]:
        """Return the rule of `to_decisions`.

        Raises:
            InvalidParameter: The function has no such rule.
        """

    def to_decisions(self) -> str:
        """Return JSON that decides without this library: see `dpbandits.export.decide_by`.

        Raises:
            InvalidParameter: There is no menu, or its columns cannot be exported.
        """
        return self._decisions(self.rule())

    def to_sql(
        self,
        dialect: Dialect,
        *,
        table: str = "people",
        decision: str = "decision",
        fallback: Label | None = None,
    ) -> str:
        """Return a SELECT statement that decides for every row of a table, as `recommend_batch` does.

        See `dpbandits.export.to_sql` for the arguments.

        Raises:
            InvalidParameter: As for `to_decisions` and `export.to_sql`.
        """
        return to_sql(self.to_decisions(), dialect, table=table, decision=decision, fallback=fallback)

    def _exported_actions(self) -> dict[str, Any] | None:
        return None

    @abstractmethod
    def to_files(self) -> dict[str, bytes]:
        """Return the contents of `policy.json`, `guarantee.txt` and other files, by name; all are public."""

    @staticmethod
    def from_files(files: Mapping[str, bytes]) -> "PublishedFunction":
        """Build the function from the contents of files, as `to_files` returns them.

        Raises:
            CorruptState: A file is damaged, or has another format.
        """
        with reading("a published function", CorruptState):
            config = _parsed(files[_POLICY].decode())
            if config["format"] != _FORMAT:
                raise CorruptState("the function was written in another version of the format")
            if config.get("kind") == PublishedPosterior.kind:
                return PublishedPosterior.from_config(config)
            return PublishedCells.from_config(config, files)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to pickle and copy this object: by exactly the public files that `save` writes."""
        return PublishedFunction.from_files, (self.to_files(),)

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write the files of `to_files()` to a folder."""
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in self.to_files().items():
            (folder / name).write_bytes(data)

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> "PublishedFunction":
        """Read the folder that `save` wrote.

        Raises:
            MissingState: There is no function.
            CorruptState: A file is damaged, or has another format.
        """
        folder = Path(directory)
        with found(f"there is no {_POLICY} in {folder}: pass the folder that save was given"):
            files = {_POLICY: (folder / _POLICY).read_bytes()}
        for name in PublishedCells.arrays:
            if (folder / name).exists():
                files[name] = (folder / name).read_bytes()
        return cls.from_files(files)


class PublishedCells(PublishedFunction):
    """Released function as a table over cells of public actions and contexts.

    Args:
        actions: Public actions, A cells.
        contexts: Public contexts, C cells.
        mean: Expected rewards, (A, C), in reward units.
        sd: Standard deviations of the expected rewards, (A, C), from sampling, release noise and features
            that are left out.
        guarantee: Guarantee of the release from which the function was computed.
        menu: Contexts and arms, if the cells encode them.
    """

    arrays = ("mean.npy", "sd.npy")

    def __init__(
        self,
        *,
        actions: CellMeasure,
        contexts: CellMeasure,
        mean: FloatArray,
        sd: FloatArray,
        guarantee: Guarantee,
        menu: Menu | None = None,
    ) -> None:
        shape = (actions.size, contexts.size)
        if mean.shape != shape or sd.shape != shape or not np.isfinite([mean, sd]).all():
            raise InvalidParameter(f"mean and sd: expected finite numbers of shape {shape}")
        if menu is not None and (menu.n_arms, menu.contexts.dim) != (actions.size, contexts.dim):
            raise InvalidParameter("menu: its contexts or arms do not match the cells")
        self.actions, self.contexts, self.guarantee, self.menu = actions, contexts, guarantee, menu
        # the actions of one context are adjacent in memory, so that predictions copy whole rows
        self._mean = np.ascontiguousarray(mean.T)
        self._sd = np.ascontiguousarray(sd.T)
        self._best = self.best_of(self._mean)

    @property
    def _unit(self) -> float:
        return float(self._sd.max())  # the reward range is not known here

    @property
    def mean(self) -> FloatArray:
        """Expected rewards, (A, C)."""
        return self._mean.T.copy()

    @property
    def sd(self) -> FloatArray:
        """Standard deviations of the expected rewards, (A, C)."""
        return self._sd.T.copy()

    def predict(self, contexts: Any) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation (n, A) of every action's expected reward.

        The row of a context that cannot be read is NaN.

        Args:
            contexts: Contexts (n, d); with a menu, contexts of n users in any form that `Menu.encode` takes.

        Raises:
            InvalidData: No context is in the public range.
        """
        cells = self._cells(contexts)
        mean, sd = (np.where(cells[:, None] < 0, np.nan, part[cells]) for part in (self._mean, self._sd))
        return mean, sd

    def choose(self, contexts: Any) -> IntArray:
        """Return the indices (n,) of the best action at contexts, -1 if a context cannot be read."""
        cells = self._cells(contexts)
        return np.where(cells < 0, -1, self._best[cells])

    def means(self, people: FloatArray) -> FloatArray:
        """See `PublishedFunction.means`."""
        return self._mean[self.contexts.locate(people, name="contexts")]

    def at_points(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation (n,) at encoded contexts (n, d) with arms in the last column."""
        cells, arms = self.contexts.locate(points[:, :-1], name="contexts"), points[:, -1].astype(np.int64)
        return self._mean[cells, arms], self._sd[cells, arms]

    def _cells(self, contexts: Any) -> IntArray:
        if self.menu is not None:
            points, known = self.menu.readable(contexts)
            return np.where(known, self.contexts.locate(points, name="contexts"), -1)
        found = contents(contexts, name="contexts", width=self.contexts.dim)
        rows = self.contexts.rows(found, name="contexts")
        cells = self.contexts.find(rows)
        return cells if (cells >= 0).any() else self.contexts.locate(rows, name="contexts")

    def rule(self) -> dict[str, Any]:
        """See `PublishedFunction.rule`."""
        edges: list[list[float]] = []
        for axis in self.contexts.axes:
            if isinstance(axis, IntervalAxis):
                edges.append(axis.edges[1:-1].tolist())
            elif axis.dim == 1 and (np.diff(axis.points[:, 0]) > 0).all():
                edges.append((0.5 * (axis.points[1:, 0] + axis.points[:-1, 0])).tolist())
            else:
                raise InvalidParameter("to_decisions: only a product of cells of columns can be exported")
        scores = self._mean.copy()  # other runtimes take the highest score, without a tolerance for ties
        scores[np.arange(len(scores)), self._best] = scores.max(axis=1)
        return {"type": "cells", "edges": edges, "scores": scores.tolist()}

    def under(self, guarantee: Guarantee) -> Self:
        """Return a copy with another guarantee."""
        return type(self)(
            actions=self.actions,
            contexts=self.contexts,
            mean=self.mean,
            sd=self.sd,
            guarantee=guarantee,
            menu=self.menu,
        )

    def of_people(self, menu: Menu) -> Self:
        """Return this function with its cells read as contexts and arms of a menu."""
        return type(self)(
            actions=self.actions,
            contexts=self.contexts,
            mean=self.mean,
            sd=self.sd,
            guarantee=self.guarantee,
            menu=menu,
        )

    def to_files(self) -> dict[str, bytes]:
        """Return `policy.json`, `mean.npy`, `sd.npy` and `guarantee.txt`, by name; all are public."""
        config = {
            "format": _FORMAT,
            "actions": self.actions.to_config(),
            "contexts": self.contexts.to_config(),
            "guarantee": json.loads(self.guarantee.to_json()),
            **_menu_config(self.menu),
        }
        return {
            "mean.npy": to_npy(self.mean),
            "sd.npy": to_npy(self.sd),
            "guarantee.txt": f"{self.guarantee.explain()}\n\n\n{self.guarantee.annex()}\n".encode(),
            _POLICY: f"{json.dumps(config)}\n".encode(),
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any], files: Mapping[str, bytes]) -> Self:
        """Build from the parsed `policy.json` and the files with its arrays."""
        return cls(
            actions=CellMeasure.from_config(config["actions"]),
            contexts=CellMeasure.from_config(config["contexts"]),
            mean=from_npy(files["mean.npy"], name="mean"),
            sd=from_npy(files["sd.npy"], name="sd"),
            guarantee=Guarantee.from_json(json.dumps(config["guarantee"])),
            menu=_menu_of(config),
        )

    def __repr__(self) -> str:
        promise = {"epsilon": self.guarantee.epsilon, "delta": self.guarantee.delta}
        return said(self, **promise, actions=self.actions.size, contexts=self.contexts.size)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PublishedPosterior(PublishedFunction):
    """A released function of public features: decides for contexts and arms, or among points.

    Features are stored as numbers, because another processor may compute slightly different eigenvectors.

    Args:
        menu: Contexts and arms; None if inputs are points of `domain`.
        domain: Domain of the points; with a menu, the menu's.
        reward_range: Public range (low, high).
        features: Feature map of points.
        posterior: Posterior of their weights, for rewards centred and scaled to width 1.
        weight_variance: Prior variance of a weight. The variance that features leave out is in proportion.
        guarantee: Guarantee of the releases.
        window: Window of `Actions(explore=)` after these releases, which recommendations keep to; None for
            none.
        few_rows: For a log of actions with weights: `few_rows` and `recommended_with_few_rows`, see
            `ExploreThenCommit.diagnostics`. None for other functions.

    Raises:
        InvalidParameter: Features belong to another domain, or the number of weights differs.
    """

    kind = "posterior"

    menu: Menu | None
    domain: Domain
    reward_range: RewardRange
    features: Features
    posterior: WeightPosterior
    weight_variance: float
    guarantee: Guarantee
    window: Window | None = None
    few_rows: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        if self.few_rows is not None:
            for name in _FEW_ROWS:
                number(self.few_rows[name], name=name, exclusive=False)
        size, law = self.features.n_features, self.posterior
        if law.mean.shape != (size,) or law.supports != self.features.supports:
            raise InvalidParameter("posterior: its weights do not match the features")
        check_arms(self.features, self.domain, per_arm=self.menu is not None)
        actions, across = None if self.menu is None else self.menu.actions, self.features
        grid = None if actions is None else (actions.sizes, actions.ordered)
        known = None
        if isinstance(across, ActionFeatures) and across.rows is None:
            known = across.sizes, across.ordered
        if grid != known:
            raise InvalidParameter("features: they are for another grid of actions")
        if set(self.window or ()) != set((actions and actions.window) or ()):
            raise InvalidParameter("window: expected one of the columns that actions explore")
        with reading("features of this domain"):
            self.features(self.domain.sample(1, np.random.default_rng(0)))

    def predict(self, contexts: Any) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation of the expected reward.

        Args:
            contexts: Contexts of n users, in any form that `GPBandit.ask_batch` or `ask` takes; without a
                menu, points (n, d).

        Returns:
            Two arrays (n, K), a row per user and a column per arm; for points, two arrays (n,). The row of
            a user whose context cannot be read is NaN.

        Raises:
            InvalidData: No context can be read, or points lie outside the domain.
        """
        if self.menu is None:
            return self._moments(self.domain.validate(contexts, name="points"))
        people, known = self.menu.readable(contexts)
        mean, sd = self.menu.predicted(people, self._moments)
        mean[~known], sd[~known] = np.nan, np.nan
        return mean, sd

    @property
    def _domain(self) -> Domain | None:
        return self.domain

    def at_points(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation (n,) at points (n, d), with encoded contexts and arms."""
        return self._moments(self.domain.validate(points, name="points"))

    @property
    def _unit(self) -> float:
        return self.reward_range.width

    def _moments(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean, spread = self.posterior.predict_function(
            self.features, points, weight_variance=self.weight_variance
        )
        return self.reward_range.from_centred(mean), self.reward_range.width * spread

    def recommend(self, context: Any = None, *, available: Any = None) -> Any:
        """Return the label of one user's best arm; without a menu, the best point (d,) of the domain."""
        if self.menu is None and context is None:
            return Maximiser(self.domain, self.features).of_weights(self.posterior.mean[None])[0]
        return super().recommend(context, available=available)

    def choose(self, contexts: Any) -> IntArray:
        """Return the index of each user's best arm, shape (n,), or -1 if the context cannot be read.

        With actions it is the action of the highest value. For points it is the index of the best point,
        shape (1,).
        """
        if self.menu is None:
            return self.best_of(np.atleast_2d(self.predict(contexts)[0]))
        mean = self._means_of(self.menu, contexts)
        return self.best_of(mean) if self.menu.actions is None else self._best_actions(contexts, mean)

    def means(self, people: FloatArray) -> FloatArray:
        """See `PublishedFunction.means`.

        Raises:
            InvalidData: The function is of points.
        """
        if self.menu is None:
            raise InvalidData("means: the function has no contexts and arms")
        features, count = self.features, self.menu.n_arms
        weights = None
        if isinstance(features, ActionFeatures):
            weights = features.of_actions(self.posterior.mean)
        elif isinstance(features, ArmFeatures):
            weights = self.posterior.mean.reshape(count, -1)
        found = np.empty((len(people), count))
        at_once = _PEOPLE_AT_ONCE if weights is not None else max(1, _PEOPLE_AT_ONCE // count)
        for start in range(0, len(people), at_once):
            some = people[start : start + at_once]
            if weights is not None:
                found[start : start + at_once] = features.base(some) @ weights.T  # type: ignore[attr-defined]
            else:
                own = np.tile(np.arange(count, dtype=np.float64), len(some))
                points = np.column_stack([np.repeat(some, count, axis=0), own])
                mean = features.project(points, self.posterior.mean[:, None])
                found[start : start + at_once] = mean.reshape(-1, count)
        return self.reward_range.from_centred(found)

    def _best_actions(self, contexts: Any, mean: FloatArray, offered: BoolArray | None = None) -> IntArray:
        if self.menu is None or self.menu.actions is None:
            return super()._best_actions(contexts, mean, offered)
        people = self.menu.readable(contexts)[0]
        return self.menu.actions.best(mean, self.reward_range, people, offered=offered, window=self.window)

    def curve(self, context: Any) -> ActionCurve:
        """Return predicted outcomes and values of all actions for one context.

        Raises:
            InvalidData: The context cannot be read, there are several, or the function has no actions.
        """
        if self.menu is None or self.menu.actions is None:
            raise InvalidData("curve: the policy was built without actions=")
        return self.menu.actions.curve_of(
            self.menu.readable(context)[0], self.predict(context), self.reward_range, self.window
        )

    def diagnostics(self) -> dict[str, float]:
        """Return public numbers from the release of a log of actions: those of `few_rows`, if it is given."""
        return dict(self.few_rows or {})

    def under(self, guarantee: Guarantee) -> Self:
        """Return a copy with another guarantee."""
        return replace(self, guarantee=guarantee)

    # -- JSON -------------------------------------------------------------------------------------

    def to_decisions(self, *, draws: ArrayLike | None = None) -> str:
        """Return JSON that decides without this library: see `dpbandits.export.decide_by`.

        Args:
            draws: Weights (S, m) from `GPBandit.public_draws`, to explore as the server does.

        Raises:
            InvalidParameter: There is no menu, its columns cannot be exported, or the features are neither
                effects of contexts nor sections of a kernel, separate for every arm or along actions. Or
                actions have bounds, or a value that cannot be exported.
        """
        return self._decisions(self.rule(draws=draws))

    def rule(self, *, draws: ArrayLike | None = None) -> dict[str, Any]:
        """See `PublishedFunction.rule`, and `to_decisions` for the argument."""
        found, law = self.features, self.posterior
        base = getattr(found, "base", None)
        if not isinstance(found, ArmFeatures | ActionFeatures) or not isinstance(
            base, SectionFeatures | EffectFeatures
        ):
            raise InvalidParameter(f"to_decisions: {type(found).__name__} cannot be exported")
        per_arm = (found.n_arms, base.n_features)
        size = per_arm[0] * per_arm[1]
        rows = np.zeros((0, size)) if draws is None else public_array(draws, name="draws", ndim=2)
        if rows.shape[1] != size:
            raise InvalidParameter(f"draws: expected {size} weights per draw")
        means = found.of_actions(law.mean) if isinstance(found, ActionFeatures) else law.mean.reshape(per_arm)
        ratio: FloatArray | float = 1.0
        rule: dict[str, Any]
        if isinstance(base, EffectFeatures):
            effects, ratio = base.effects, base.ratio
            cuts = base.cuts or ((),) * len(effects.sizes)
            sides = zip(effects.sizes, effects.ordered, cuts, strict=True)
            rule = {
                "type": "effects",
                "edges": [
                    [*own] or (decisions.cut_at(size) if ordered else [*range(1, size)])
                    for size, ordered, own in sides
                ],
                "components": [table.tolist() for table in effects.tables],
                "factors": effects.factors,
            }
        else:
            rule = {
                "type": "kernel",
                "kernel": base.kernel.to_config(),
                "landmarks": base.landmarks.tolist(),
                "projection": base.projection.tolist(),
                "longest": NORM_BOUND,
            }
        return rule | {
            "middle": self.reward_range.middle,
            "width": self.reward_range.width,
            "mean": (means / ratio).tolist(),
            "draws": (rows.reshape(-1, *per_arm) / ratio).tolist(),
        }

    def _exported_actions(self) -> dict[str, Any] | None:
        actions = None if self.menu is None else self.menu.actions
        return None if actions is None else actions.exported(self.reward_range, self.window)

    def to_json(self) -> str:
        """Return everything as JSON of plain numbers and labels; all of it is public."""
        law = self.posterior
        config = {
            "format": _FORMAT,
            "kind": self.kind,
            **(_menu_config(self.menu) or {"domain": self.domain.to_config()}),
            "reward_range": self.reward_range.to_config(),
            "features": self.features.to_config(),
            # -0.0 becomes 0.0, as after reading: one function has one text
            "mean": (law.mean + 0.0).tolist(),
            "factors": [(factor + 0.0).tolist() for factor in law.factors],
            "weight_variance": self.weight_variance,
            "guarantee": json.loads(self.guarantee.to_json()),
        }
        if self.window is not None:
            config["window"] = {name: list(ends) for name, ends in self.window.items()}
        if self.few_rows is not None:
            config["few_rows"] = {name: float(self.few_rows[name]) for name in _FEW_ROWS}
        return _written(config)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Rebuild a function from the text of `to_json`.

        Raises:
            CorruptState: The text is anything else.
        """
        with reading("a published function", CorruptState):
            return cls.from_config(_parsed(text))

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Build from the parsed text of `to_json()`."""
        if (config["format"], config["kind"]) != (_FORMAT, cls.kind):
            raise CorruptState("expected a published posterior of this version of the format")
        menu = _menu_of(config)
        found = feature_maps.from_config(config["features"])
        mean = public_array(config["mean"], name="mean", ndim=1)
        factors = [
            public_array(part, name="factors", ndim=2).reshape(high - low, high - low)
            for (low, high), part in zip(found.supports, config["factors"], strict=True)
        ]
        return cls(
            menu=menu,
            domain=domains.from_config(config["domain"]) if menu is None else menu.domain,
            reward_range=RewardRange.from_config(config["reward_range"]),
            features=found,
            posterior=WeightPosterior(mean=mean, factors=factors, supports=found.supports),
            weight_variance=scale(config["weight_variance"], name="weight_variance"),
            guarantee=Guarantee.from_json(json.dumps(config["guarantee"])),
            window=read_window(config.get("window")),
            few_rows=config.get("few_rows"),
        )

    def to_files(self) -> dict[str, bytes]:
        """Return `policy.json` and `guarantee.txt`, by name."""
        return {
            "guarantee.txt": f"{self.guarantee.explain()}\n\n\n{self.guarantee.annex()}\n".encode(),
            _POLICY: f"{self.to_json()}\n".encode(),
        }

    def __repr__(self) -> str:
        promise = {"epsilon": self.guarantee.epsilon, "delta": self.guarantee.delta}
        arms = None if self.menu is None else len(self.arms)
        return said(self, **promise, arms=arms, n_features=self.features.n_features)


def _parsed(text: str) -> dict[str, Any]:
    """Return the fields of a text. With many columns and arms it has 85 MB, and takes four times that."""
    return json_object(text, "a published function", CorruptState, most=memory_limit() // 4)


def _written(value: Any) -> str:
    """Return the JSON of a value as `json.dumps` does, but list by list, so that other threads can run."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)}: {_written(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list) and value and isinstance(value[0], list):
        return "[" + ", ".join(map(_written, value)) + "]"
    return json.dumps(value, allow_nan=False)


def _menu_config(menu: Menu | None) -> dict[str, Any]:
    if menu is None:
        return {}
    chosen = (
        {"arms": list(menu.arms.labels)} if menu.actions is None else {"actions": menu.actions.to_config()}
    )
    return {"people": menu.contexts.to_config(), **chosen}


def _menu_of(config: Mapping[str, Any]) -> Menu | None:
    if "people" not in config:
        return None
    contexts = Schema.from_config(config["people"])
    if "arms" in config:  # cells have public cells of actions under "actions" in any case
        return Menu(contexts=contexts, arms=config["arms"])
    reward_range = RewardRange.from_config(config["reward_range"])
    return Menu(contexts=contexts, actions=Actions.from_config(config["actions"]), reward_range=reward_range)
