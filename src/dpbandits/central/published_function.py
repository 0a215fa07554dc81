"""`PublishedFunction`: what was learned, released once: any number of predictions, by anyone.

A public policy is a table of expected rewards and their standard deviations over public cells. Everything
in it is computed from a private release; using it, copying it and publishing it costs nothing further.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from dpbandits._reading import json_object, reading
from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import CorruptState, InvalidParameter
from dpbandits.models.measures import CellMeasure
from dpbandits.privacy.guarantee import Assumption, Guarantee
from dpbandits.state.npy import from_npy, to_npy

__all__ = ["PublishedFunction"]

_FORMAT = 1
_READ = ("policy.json", "mean.npy", "sd.npy")


class PublishedFunction:
    """A released function over actions and contexts.

    Args:
        actions: (A cells) public actions.
        contexts: (C cells) public contexts.
        mean: (A, C) expected rewards, in reward units.
        sd: (A, C) their standard deviations, from sampling, release noise and what was not learned.
        guarantee: of the release it was computed from.
    """

    def __init__(
        self,
        *,
        actions: CellMeasure,
        contexts: CellMeasure,
        mean: FloatArray,
        sd: FloatArray,
        guarantee: Guarantee,
    ) -> None:
        shape = (actions.size, contexts.size)
        if mean.shape != shape or sd.shape != shape or not np.isfinite([mean, sd]).all():
            raise InvalidParameter(f"mean and sd: expected finite numbers of shape {shape}")
        self.actions, self.contexts, self.guarantee = actions, contexts, guarantee
        # one context's actions lie together: predictions copy whole rows
        self._mean = np.ascontiguousarray(mean.T)
        self._sd = np.ascontiguousarray(sd.T)
        self._best = np.argmax(self._mean, axis=1)

    @property
    def mean(self) -> FloatArray:
        """(A, C) expected rewards."""
        return self._mean.T.copy()

    @property
    def sd(self) -> FloatArray:
        """(A, C) standard deviations."""
        return self._sd.T.copy()

    def predict(self, contexts: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation (n, A) of every action's expected reward at contexts (n, d).

        Raises:
            InvalidData: contexts off the public range.
        """
        cells = self.contexts.locate(contexts, name="contexts")
        return self._mean[cells], self._sd[cells]

    def predict_mean(self, contexts: ArrayLike) -> FloatArray:
        """The mean (n, A) alone."""
        return np.asarray(self._mean[self.contexts.locate(contexts, name="contexts")])

    def choose(self, contexts: ArrayLike) -> IntArray:
        """Index (n,) of the best action at contexts (n, d)."""
        return np.asarray(self._best[self.contexts.locate(contexts, name="contexts")])

    def under(self, guarantee: Guarantee) -> "PublishedFunction":
        """The same function with another statement."""
        return PublishedFunction(
            actions=self.actions, contexts=self.contexts, mean=self.mean, sd=self.sd, guarantee=guarantee
        )

    def resting_on(self, text: str) -> "PublishedFunction":
        """The same function, whose guarantee rests on one more thing that nobody checks."""
        found = self.guarantee
        return self.under(
            replace(found, assumptions=(*found.assumptions, Assumption(text=text, enforced=False)))
        )

    def to_files(self) -> dict[str, bytes]:
        """`policy.json`, `mean.npy`, `sd.npy` and `guarantee.txt`, by name; all of it is public."""
        config = {
            "format": _FORMAT,
            "actions": self.actions.to_config(),
            "contexts": self.contexts.to_config(),
            "guarantee": json.loads(self.guarantee.to_json()),
        }
        return {
            "mean.npy": to_npy(self.mean),
            "sd.npy": to_npy(self.sd),
            "guarantee.txt": f"{self.guarantee.explain()}\n".encode(),
            "policy.json": f"{json.dumps(config)}\n".encode(),
        }

    @classmethod
    def from_files(cls, files: Mapping[str, bytes]) -> "PublishedFunction":
        """From the contents of such files.

        Raises:
            CorruptState: damaged, or written in another format.
        """
        with reading("a public policy", CorruptState):
            config = json_object(files["policy.json"].decode(), "a public policy", CorruptState)
            if config["format"] != _FORMAT:
                raise CorruptState("the policy was written in another version of the format")
            return cls(
                actions=CellMeasure.from_config(config["actions"]),
                contexts=CellMeasure.from_config(config["contexts"]),
                mean=from_npy(files["mean.npy"], name="mean"),
                sd=from_npy(files["sd.npy"], name="sd"),
                guarantee=Guarantee.from_json(json.dumps(config["guarantee"])),
            )

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
            FileNotFoundError: no policy there.
            CorruptState: damaged, or written in another format.
        """
        folder = Path(directory)
        return cls.from_files({name: (folder / name).read_bytes() for name in _READ})

    def __repr__(self) -> str:
        return f"PublishedFunction(actions={self.actions.size}, contexts={self.contexts.size})"
