"""`PublishedFunction`: what was learned, released: any number of predictions, by anyone, for ever.

Everything in it is computed from private releases: using it, copying it and publishing it costs nothing.

- `PublishedCells`: a table of expected rewards and their standard deviations over public cells.
- `PublishedPosterior`: the law of the weights of public features, of people's contexts and arms or of points.
"""

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dpbandits import domains
from dpbandits._checks import contents, public_array, scale
from dpbandits._reading import json_object, reading
from dpbandits._seen import Seen, said
from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.domains import Domain, RewardRange
from dpbandits.domains.arms import Label
from dpbandits.errors import CorruptState, InvalidData, InvalidParameter
from dpbandits.export import decisions
from dpbandits.models import features as feature_maps
from dpbandits.models.features import ArmFeatures, Features, SectionFeatures
from dpbandits.models.features.base import NORM_BOUND
from dpbandits.models.features.maximise import Maximiser
from dpbandits.models.features.people import check_arms
from dpbandits.models.marginals import EffectFeatures
from dpbandits.models.measures import CellMeasure, IntervalAxis
from dpbandits.models.noisy_regression import WeightPosterior
from dpbandits.models.ties import first_best
from dpbandits.privacy.guarantee import Assumption, Guarantee
from dpbandits.state.files import found
from dpbandits.state.npy import from_npy, to_npy
from dpbandits.tables import Schema
from dpbandits.tables.menu import Menu

__all__ = ["PublishedCells", "PublishedFunction", "PublishedPosterior"]

_FORMAT = 1
_POLICY = "policy.json"


class PublishedFunction(Seen, ABC):
    """A released function of people's contexts and of what can be chosen for them.

    Attributes:
        guarantee: of the releases it was computed from.
        menu: of people's contexts and arms; None where points and cells are asked about.
    """

    guarantee: Guarantee
    menu: Menu | None

    @abstractmethod
    def predict(self, contexts: Any) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation (n, A) of the expected reward: a row a person, a column a choice."""

    @abstractmethod
    def choose(self, contexts: Any) -> IntArray:
        """Index (n,) of the choice with the highest mean."""

    @property
    def arms(self) -> tuple[Label, ...]:
        """Labels of the arms; none where there is no menu."""
        return () if self.menu is None else self.menu.arms.labels

    def recommend(self, context: Any, *, available: Any = None) -> Label:
        """The label of one person's best arm, of those that are `available`; default all.

        Raises:
            InvalidData: a context that cannot be read, several people, no arms, or none available.
        """
        best = self.recommend_batch(context, available=None if available is None else [available])
        if len(best) != 1:
            raise InvalidData(f"recommend: {len(best)} people, expected one: use recommend_batch")
        label: Label = best[0]  # of one person who cannot be read the batch is refused
        return label

    def recommend_batch(self, contexts: Any, *, available: Any = None) -> tuple[Any, ...]:
        """Labels of everybody's best arms, None for a person whose context cannot be read.

        Args:
            contexts: of n people.
            available: n lists of labels, or booleans (n, A); default all.

        Raises:
            InvalidData: no context can be read, there are no arms, or none is available to somebody.
        """
        if self.menu is None:
            raise InvalidData("there are no arms with labels: choose gives the index of the best")
        if available is None:
            return self._labels(self.choose(contexts))
        mean, _ = self.predict(contexts)
        offered = self.menu.all_offered(available, len(mean))
        if not offered.any(axis=1).all():
            raise InvalidData("available: expected a list of labels, at least one, for everybody")
        return self._labels(self.best_of(np.where(offered | np.isnan(mean), mean, -np.inf)))

    def best_of(self, mean: FloatArray) -> IntArray:
        """Index (n,) of the best of everybody's predicted means (n, A), -1 in a row of NaN.

        The first is taken of those that tie (see `dpbandits.models.ties`).
        """
        return np.where(np.isnan(mean).any(axis=1), -1, first_best(mean, unit=self._unit))

    @property
    @abstractmethod
    def _unit(self) -> float:
        """Unit of rewards in which means are compared."""

    def _labels(self, codes: IntArray) -> tuple[Any, ...]:
        return tuple(None if code < 0 else self.arms[code] for code in codes.tolist())

    @abstractmethod
    def at_points(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation (n,) at points (n, d) of its own domain: contexts, and then an arm."""

    def asked_at(
        self, points: FloatArray, *, menu: Menu | None, domain: Domain
    ) -> tuple[BoolArray, FloatArray]:
        """Which points (n, d) of another's domain it knows, and these as its own (k, d).

        Args:
            points: encoded contexts and arms where there is a menu.
            menu, domain: of the other.

        Raises:
            InvalidParameter: other contexts or another domain, or no arm in common.
        """
        if self.menu is None or menu is None:
            if self.menu is not None or menu is not None or self._domain != domain:
                raise InvalidParameter(
                    "the published function is of another domain: contexts, arms or points"
                )
            return np.ones(len(points), dtype=np.bool_), points
        if self.menu.contexts != menu.contexts:
            raise InvalidParameter(
                "the published function is of other contexts: columns, bounds and categories must be the same"
            )
        codes = self.menu.cells(list(menu.arms.labels))[points[:, -1].astype(np.int64)]
        known = codes >= 0
        if not known.any():
            raise InvalidParameter("the published function has none of these arms")
        return known, np.column_stack([points[known, :-1], codes[known]])

    @property
    def _domain(self) -> Domain | None:
        """Of points, where there is no menu and points are asked about."""
        return None

    @abstractmethod
    def under(self, guarantee: Guarantee) -> Self:
        """The same function with another statement."""

    def resting_on(self, text: str) -> Self:
        """The same function, whose guarantee rests on one more thing that nobody checks."""
        found = self.guarantee
        return self.under(
            replace(found, assumptions=(*found.assumptions, Assumption(text=text, enforced=False)))
        )

    def _decisions(self, rule: dict[str, Any]) -> str:
        if self.menu is None:
            raise InvalidParameter(
                "to_decisions: of people with contexts and arms alone: points are not exported"
            )
        arms, schema = self.menu.arms.labels, self.menu.contexts
        return decisions.written_policy(rule, schema=schema, arms=arms, version=None, coded=True)

    @abstractmethod
    def to_files(self) -> dict[str, bytes]:
        """`policy.json`, `guarantee.txt` and what else there is, by name; all of it is public."""

    @staticmethod
    def from_files(files: Mapping[str, bytes]) -> "PublishedFunction":
        """From the contents of such files.

        Raises:
            CorruptState: damaged, or written in another format.
        """
        with reading("a published function", CorruptState):
            config = json_object(files[_POLICY].decode(), "a published function", CorruptState)
            if config["format"] != _FORMAT:
                raise CorruptState("the function was written in another version of the format")
            if config.get("kind") == PublishedPosterior.kind:
                return PublishedPosterior.from_config(config)
            return PublishedCells.from_config(config, files)

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickle or a copy holds what `save` writes, and nothing else."""
        return PublishedFunction.from_files, (self.to_files(),)

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write `to_files()`."""
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in self.to_files().items():
            (folder / name).write_bytes(data)

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> "PublishedFunction":
        """Read what `save` wrote.

        Raises:
            MissingState: no function there.
            CorruptState: damaged, or written in another format.
        """
        folder = Path(directory)
        with found(f"there is no {_POLICY} in {folder}: pass the folder that save was given"):
            files = {_POLICY: (folder / _POLICY).read_bytes()}
        for name in PublishedCells.arrays:
            if (folder / name).exists():
                files[name] = (folder / name).read_bytes()
        return cls.from_files(files)


class PublishedCells(PublishedFunction):
    """A released function over public actions and contexts, in cells.

    Args:
        actions: (A cells) public actions.
        contexts: (C cells) public contexts.
        mean: (A, C) expected rewards, in reward units.
        sd: (A, C) their standard deviations, from sampling, release noise and what was not learned.
        guarantee: of the release it was computed from.
        menu: of people's contexts and arms, where the cells are of these.
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
            raise InvalidParameter("the cells are of other contexts or arms than the menu")
        self.actions, self.contexts, self.guarantee, self.menu = actions, contexts, guarantee, menu
        # one context's actions lie together: predictions copy whole rows
        self._mean = np.ascontiguousarray(mean.T)
        self._sd = np.ascontiguousarray(sd.T)
        self._best = self.best_of(self._mean)

    @property
    def _unit(self) -> float:
        return float(self._sd.max())  # the reward range is not kept here

    @property
    def mean(self) -> FloatArray:
        """(A, C) expected rewards."""
        return self._mean.T.copy()

    @property
    def sd(self) -> FloatArray:
        """(A, C) standard deviations."""
        return self._sd.T.copy()

    def predict(self, contexts: Any) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation (n, A) of every action's expected reward, NaN in the row of a context
        that cannot be read.

        Args:
            contexts: (n, d); where there is a menu, of n people in any form that `Menu.encode` takes.

        Raises:
            InvalidData: no context is in the public range.
        """
        cells = self._cells(contexts)
        mean, sd = (np.where(cells[:, None] < 0, np.nan, part[cells]) for part in (self._mean, self._sd))
        return mean, sd

    def choose(self, contexts: Any) -> IntArray:
        """Index (n,) of the best action at contexts, -1 if a context cannot be read."""
        cells = self._cells(contexts)
        return np.where(cells < 0, -1, self._best[cells])

    def at_points(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation (n,) at encoded contexts (n, d) and, in the last column, arms."""
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

    def to_decisions(self) -> str:
        """JSON that decides without this library: see `dpbandits.export.decide_by`.

        Raises:
            InvalidParameter: there is no menu, or columns of it are not exported.
        """
        edges: list[list[float]] = []
        for axis in self.contexts.axes:
            if isinstance(axis, IntervalAxis):
                edges.append(axis.edges[1:-1].tolist())
            elif axis.dim == 1 and (np.diff(axis.points[:, 0]) > 0).all():
                edges.append((0.5 * (axis.points[1:, 0] + axis.points[:-1, 0])).tolist())
            else:
                raise InvalidParameter("to_decisions: cells that are no product of columns are not exported")
        scores = self._mean.copy()  # other runtimes take the highest score, and know no ties within rounding
        scores[np.arange(len(scores)), self._best] = scores.max(axis=1)
        return self._decisions({"type": "cells", "edges": edges, "scores": scores.tolist()})

    def under(self, guarantee: Guarantee) -> Self:
        """The same function with another statement."""
        return type(self)(
            actions=self.actions,
            contexts=self.contexts,
            mean=self.mean,
            sd=self.sd,
            guarantee=guarantee,
            menu=self.menu,
        )

    def of_people(self, menu: Menu) -> Self:
        """The same cells, as those of people's contexts and arms."""
        return type(self)(
            actions=self.actions,
            contexts=self.contexts,
            mean=self.mean,
            sd=self.sd,
            guarantee=self.guarantee,
            menu=menu,
        )

    def to_files(self) -> dict[str, bytes]:
        """`policy.json`, `mean.npy`, `sd.npy` and `guarantee.txt`, by name; all of it is public."""
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
            "guarantee.txt": f"{self.guarantee.explain()}\n".encode(),
            _POLICY: f"{json.dumps(config)}\n".encode(),
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any], files: Mapping[str, bytes]) -> Self:
        """From `policy.json`, read, and the files with its arrays."""
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
    """A released function of public features: decides for people with contexts and arms, or among points.

    Features are written out: predictions rest on no eigenvectors that another processor finds otherwise.

    Args:
        menu: contexts and arms; None where points of `domain` are asked about.
        domain: of points; the menu's where there is one.
        reward_range: public (low, high).
        features: of points.
        posterior: law of their weights, rewards centred and scaled to width 1.
        weight_variance: of a weight before any data: what features leave out has a share of it.
        guarantee: of the releases.

    Raises:
        InvalidParameter: features of another domain, or a law of another number of weights.
    """

    kind = "posterior"

    menu: Menu | None
    domain: Domain
    reward_range: RewardRange
    features: Features
    posterior: WeightPosterior
    weight_variance: float
    guarantee: Guarantee

    def __post_init__(self) -> None:
        size, law = self.features.n_features, self.posterior
        if law.mean.shape != (size,) or law.supports != self.features.supports:
            raise InvalidParameter("the law of the weights and the features do not fit")
        check_arms(self.features, self.domain, per_arm=self.menu is not None)
        with reading("features of this domain"):
            self.features(self.domain.sample(1, np.random.default_rng(0)))

    def predict(self, contexts: Any) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of the expected reward.

        Args:
            contexts: of n people, in any form that `GPBandit.ask_batch` or `ask` takes; where there is no
                menu, points (n, d).

        Returns:
            Two arrays (n, K), one row a person and one column an arm; of points, two arrays (n,). The row of
            a person whose context cannot be read is NaN.

        Raises:
            InvalidData: no context can be read, or points lie outside the domain.
        """
        if self.menu is None:
            return self._moments(self.domain.validate(contexts, name="points"))
        people, known = self.menu.readable(contexts)
        sets = self.menu.sets(people)
        found = (part.reshape(sets.shape[:2]) for part in self._moments(sets.reshape(-1, sets.shape[-1])))
        mean, sd = (np.where(known[:, None], part, np.nan) for part in found)
        return mean, sd

    @property
    def _domain(self) -> Domain | None:
        return self.domain

    def at_points(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation (n,) at points (n, d) of the domain, contexts and arms encoded."""
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
        """The label of one person's best arm; without a menu, the best point (d,) of the whole domain."""
        if self.menu is None and context is None:
            return Maximiser(self.domain, self.features).of_weights(self.posterior.mean[None])[0]
        return super().recommend(context, available=available)

    def choose(self, contexts: Any) -> IntArray:
        """Index (n,) of everybody's best arm, -1 if a context cannot be read; of points (n, d), (1,)."""
        return self.best_of(np.atleast_2d(self.predict(contexts)[0]))

    def under(self, guarantee: Guarantee) -> Self:
        """The same function with another statement."""
        return replace(self, guarantee=guarantee)

    # -- JSON -------------------------------------------------------------------------------------

    def to_decisions(self, *, draws: ArrayLike | None = None) -> str:
        """JSON that decides without this library: see `dpbandits.export.decide_by`.

        Args:
            draws: (S, m) weights that `GPBandit.public_draws` gave, to explore by as the server does.

        Raises:
            InvalidParameter: there is no menu, columns of it are not exported, or features that are neither
                effects of contexts nor sections of a kernel, separate for every arm.
        """
        found, law = self.features, self.posterior
        base = getattr(found, "base", None)
        if not isinstance(found, ArmFeatures) or not isinstance(base, SectionFeatures | EffectFeatures):
            raise InvalidParameter(f"to_decisions: {type(found).__name__} are not exported")
        per_arm = (found.n_arms, base.n_features)
        rows = np.zeros((0, law.mean.size)) if draws is None else public_array(draws, name="draws", ndim=2)
        if rows.shape[1] != law.mean.size:
            raise InvalidParameter(f"draws: expected {law.mean.size} weights a draw")
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
        rule |= {
            "middle": self.reward_range.middle,
            "width": self.reward_range.width,
            "mean": (law.mean.reshape(per_arm) / ratio).tolist(),
            "draws": (rows.reshape(-1, *per_arm) / ratio).tolist(),
        }
        return self._decisions(rule)

    def to_json(self) -> str:
        """Everything, as JSON of plain numbers and labels; all of it is public."""
        law = self.posterior
        config = {
            "format": _FORMAT,
            "kind": self.kind,
            **(_menu_config(self.menu) or {"domain": self.domain.to_config()}),
            "reward_range": self.reward_range.to_config(),
            "features": self.features.to_config(),
            # -0.0 becomes 0.0, as where it is read: one function has one text
            "mean": (law.mean + 0.0).tolist(),
            "factors": [(factor + 0.0).tolist() for factor in law.factors],
            "weight_variance": self.weight_variance,
            "guarantee": json.loads(self.guarantee.to_json()),
        }
        return _written(config)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Rebuild what `to_json` described.

        Raises:
            CorruptState: anything else.
        """
        with reading("a published function", CorruptState):
            return cls.from_config(json_object(text, "a published function", CorruptState))

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """From `to_json()`, read."""
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
        )

    def to_files(self) -> dict[str, bytes]:
        """`policy.json` and `guarantee.txt`."""
        return {
            "guarantee.txt": f"{self.guarantee.explain()}\n".encode(),
            _POLICY: f"{self.to_json()}\n".encode(),
        }

    def __repr__(self) -> str:
        promise = {"epsilon": self.guarantee.epsilon, "delta": self.guarantee.delta}
        arms = None if self.menu is None else len(self.arms)
        return said(self, **promise, arms=arms, n_features=self.features.n_features)


def _written(value: Any) -> str:
    """As `json.dumps` writes it, list by list, so that threads that answer meanwhile have their turns."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)}: {_written(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list) and value and isinstance(value[0], list):
        return "[" + ", ".join(map(_written, value)) + "]"
    return json.dumps(value, allow_nan=False)


def _menu_config(menu: Menu | None) -> dict[str, Any]:
    if menu is None:
        return {}
    return {"people": menu.contexts.to_config(), "arms": list(menu.arms.labels)}


def _menu_of(config: Mapping[str, Any]) -> Menu | None:
    if "people" not in config:
        return None
    return Menu(contexts=Schema.from_config(config["people"]), arms=config["arms"])
