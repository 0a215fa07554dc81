"""`PublishedTable`: a published function, with the names in the table from which it was learned."""

import hashlib
import json
import os
import secrets
from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpbandits._cells import array_of, as_objects, numbers_of
from dpbandits._reading import json_object, reading
from dpbandits._typing import FloatArray, IntArray
from dpbandits.central.published_function import PublishedCells, PublishedFunction
from dpbandits.domains import Arms
from dpbandits.errors import CorruptState, InvalidData, InvalidParameter
from dpbandits.models.measures import IntervalAxis
from dpbandits.state.files import replace_durably, write_folder
from dpbandits.tables import Actions
from dpbandits.tables.coded import Coded

__all__ = ["PublishedTable", "coded_by_value", "is_taken", "numbers_by_value"]

_COLUMNS = "columns.json"
_MANIFEST = "manifest.json"
_FILES = {"columns.json", "guarantee.txt", "policy.json"}
_FILES_OF_CELLS = {*_FILES, *PublishedCells.arrays}


@dataclass(frozen=True)
class PublishedTable:
    """Published function with the names in the table from which it was learned; all of it is public.

    Attributes:
        function: Function over actions and contexts.
        contexts: Names of context columns.
        action: Name of the action column; None if a grid of actions has its own columns.
        reward: Name of the reward column.
        arms: Names of arms, or None if actions are numbers.
    """

    function: PublishedFunction
    contexts: list[str]
    action: str | None
    reward: str
    arms: list[str] | None

    @property
    def action_names(self) -> list[str]:
        """Names of all actions as they are shown."""
        if self.arms or not isinstance(self.function, PublishedCells):
            return self.arms or []
        return [f"{point:g}" for point in self.function.actions.points[:, 0]]

    @property
    def grid(self) -> Actions | None:
        """Grid of actions; None for arms, and for actions in cells."""
        return None if self.function.menu is None else self.function.menu.actions

    @property
    def action_kinds(self) -> dict[str, type]:
        """Types of the action columns, by name."""
        if self.grid is not None:
            return {name: column.kind for name, column in self.grid.schema.columns.items()}
        arms = self.function.menu is not None or self.arms is not None
        kind = type(self.function.arms[0]) if self.function.menu is not None else str if arms else float
        return {} if self.action is None else {self.action: kind}

    @property
    def kinds(self) -> dict[str, type]:
        """Types of all context columns, by name."""
        menu = self.function.menu
        if menu is None:
            return dict.fromkeys(self.contexts, float)
        return {name: column.kind for name, column in menu.contexts.columns.items()}

    @property
    def gaps(self) -> list[str]:
        """Names of context columns that define a substitute for missing values."""
        columns = {} if self.function.menu is None else self.function.menu.contexts.columns
        return [name for name, column in columns.items() if column.missing is not None]

    @property
    def words(self) -> dict[str, Set[str]]:
        """Texts by column that are valid values there, although elsewhere they mean a missing value."""
        columns = {} if self.function.menu is None else self.function.menu.contexts.columns
        known: dict[str, Set[str]] = {name: column.words for name, column in columns.items()}
        if self.grid is not None:
            return known | {name: column.words for name, column in self.grid.schema.columns.items()}
        return known if self.action is None else {**known, self.action: frozenset(self.arms or ())}

    def context_rows(self, table: Mapping[str, ArrayLike | Coded], *, clip: bool = False) -> Any:
        """Return contexts of a table as the function takes them: an array (n, d), or columns with a menu.

        With `clip`, values outside their bounds are clipped, as in learning with `clip`. With a menu, the
        schema determines which values are clipped.
        """
        if self.function.menu is not None:
            return {name: table[name] for name in self.contexts}
        rows = np.column_stack([numbers_of(table[name]) for name in self.contexts])
        if not clip or not isinstance(self.function, PublishedCells):
            return rows
        ends = [axis.edges[[0, -1]] for axis in self.function.contexts.axes if isinstance(axis, IntervalAxis)]
        low, high = np.transpose(ends)
        return np.asarray(np.clip(rows, low, high))

    def action_cells(self, table: Mapping[str, ArrayLike | Coded], *, between: bool = False) -> IntArray:
        """Return the numbers (n,) of the actions in a table.

        Args:
            table: Columns by name.
            between: True if numbers between the steps of a grid count as the nearer step.

        Raises:
            InvalidData: An action is not known.
        """
        if self.grid is not None:
            coded = self.grid.located({name: table[name] for name in self.action_kinds}, between=between)
            if (coded < 0).any():
                named = list(self.action_kinds)
                raise InvalidData(f"the log has actions in {named} that are no step, or outside the range")
            return coded
        if self.action is None:  # only with a grid; for type checkers
            raise InvalidData("the function has no action column")
        if self.function.menu is not None:
            coded = self.function.menu.cells(table[self.action])
            if (coded < 0).any():
                raise InvalidData(
                    f"the action column holds values other than the {len(self.action_names)} arms"
                )
            return coded
        if self.arms is not None:
            cells = coded_by_value(table[self.action])
            coded = cells.spread(Arms(self.arms).codes(cells.values))
            if (coded < 0).any():
                raise InvalidData(f"the action column holds values other than the {len(self.arms)} arms")
            return coded
        if not isinstance(self.function, PublishedCells):  # a menu was handled above; for type checkers
            raise InvalidData("the function has arms and no other actions")
        return self.function.actions.locate(numbers_by_value(table[self.action]), name="actions")

    def to_files(self) -> dict[str, bytes]:
        """Return the function's files, `columns.json`, and `manifest.json` with the digests of all."""
        return dict(self._files)

    @cached_property
    def _files(self) -> dict[str, bytes]:
        """Files of `to_files`: with many columns and arms their text takes seconds."""
        names = {"context": self.contexts, "action": self.action, "arms": self.arms, "reward": self.reward}
        files = {**self.function.to_files(), _COLUMNS: f"{json.dumps(names)}\n".encode()}
        return {**files, _MANIFEST: _manifest(files)}

    @property
    def release_id(self) -> str:
        """Digest of the manifest, which depends on every file."""
        return hashlib.sha256(self._files[_MANIFEST]).hexdigest()

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write the files of `to_files()` to a new folder, durably; a failure leaves no folder.

        Raises:
            InvalidParameter: The path already exists.
        """
        folder = Path(directory).resolve()
        if is_taken(folder):
            raise InvalidParameter(
                "the folder exists already, and a release is never overwritten: name another folder"
            )
        folder.parent.mkdir(parents=True, exist_ok=True)
        staged = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}")
        write_folder(staged, self.to_files())
        replace_durably(staged, folder)

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> "PublishedTable":
        """Read a folder that `save` wrote.

        Raises:
            CorruptState: Files are damaged or come from several releases, or the names are missing.
        """
        folder = Path(directory)
        try:
            manifest = (folder / _MANIFEST).read_bytes()
            with reading(_MANIFEST, CorruptState):
                listed = json_object(manifest.decode(), _MANIFEST, CorruptState)["files"]
                if set(listed) not in (_FILES, _FILES_OF_CELLS):
                    raise CorruptState(f"{_MANIFEST} in the policy's folder is damaged")
            files = {name: (folder / name).read_bytes() for name in sorted(listed)}
        except FileNotFoundError as error:
            name = Path(error.filename).name
            raise CorruptState(
                f"the policy's folder {folder.name} lacks {name}: expected a folder written by learn"
            ) from None
        except NotADirectoryError:
            raise CorruptState(f"{folder.name} is a file: expected a folder written by learn") from None
        if _manifest(files) != manifest:
            raise CorruptState(
                "the policy's files do not belong to one release: a file was changed or replaced"
            )
        function = PublishedFunction.from_files(files)
        if isinstance(function, PublishedCells) != (set(files) == _FILES_OF_CELLS):
            raise CorruptState("the policy's folder holds another kind of function than learn writes")
        with reading(_COLUMNS, CorruptState):
            names = json_object(files[_COLUMNS].decode(), _COLUMNS, CorruptState)
            contexts, arms, action = _texts(names["context"]), names["arms"], names["action"]
            (reward,) = _texts([names["reward"]])
            if action is not None:
                (action,) = _texts([action])
            read = cls(function, contexts, action, reward, None if arms is None else _texts(arms))
        if not read._names_fit():
            raise CorruptState(f"{_COLUMNS} names other columns or arms than the function has")
        return read

    def _names_fit(self) -> bool:
        """Return True if every context and every arm has its own name."""
        columns = [*self.contexts, *self.action_kinds, self.reward]
        function, menu = self.function, self.function.menu
        if isinstance(function, PublishedCells):
            axes, actions = function.contexts.axes, function.actions
            labels = [str(code) for code in range(actions.size)] if self.arms is None else self.arms
            fit = (len(labels), actions.dim) == (actions.size, 1)
            if menu is None:
                fit &= len(self.contexts) == len(axes) and all(isinstance(one, IntervalAxis) for one in axes)
        else:
            labels, fit = self.arms or [], menu is not None
        fit &= (self.action is None) == (self.grid is not None)
        if menu is not None:
            fit &= (tuple(self.contexts), tuple(labels)) == (menu.contexts.names, menu.arms.names)
        return fit and len(set(columns)) == len(columns) and len(labels) == len(set(labels))


def is_taken(folder: Path) -> bool:
    """Return True if the path exists and is not an empty folder."""
    return folder.exists() and (not folder.is_dir() or any(folder.iterdir()))


def _manifest(files: Mapping[str, bytes]) -> bytes:
    listed = {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())}
    return f"{json.dumps({'format': 1, 'files': listed}, indent=1)}\n".encode()


def _texts(values: object) -> list[str]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise TypeError
    return values


def coded_by_value(column: ArrayLike | Coded) -> Coded:
    """Return a column coded by its distinct values; equal values may be spelled differently."""
    if isinstance(column, Coded):
        return column
    cells = array_of(column, flat=True).astype(np.object_).tolist()
    if not set(map(type, cells)) <= {str, type(None)}:
        return Coded(np.arange(len(cells)), as_objects(cells))
    places = {cell: place for place, cell in enumerate(dict.fromkeys(cells))}
    codes = np.fromiter(map(places.__getitem__, cells), np.int64, len(cells))
    return Coded(codes, as_objects(list(places)))


def numbers_by_value(column: ArrayLike | Coded) -> FloatArray:
    """Return cells (n,) as numbers (`numbers_of`); each distinct text is converted once."""
    if isinstance(column, Coded):
        return column.spread(numbers_of(column.values))
    return numbers_of(array_of(column, flat=True))
