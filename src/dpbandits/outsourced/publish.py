"""`PublishedRows`: a release of rows, in memory and as a directory of two files.

| file | content |
|---|---|
| `release.json` | the description below, and the SHA-256 of the inputs and of itself |
| `inputs.npy` or `inputs.parquet` | published rows (n, d); a row's number is its id |

The description contains schema version, mechanism, adjacency (`relation`), epsilon, delta, distance, public
transform, noise law, the noise on answers, and the guarantee. All of it is public. A directory is refused if
its hashes do not match or its schema version is another one.
"""

import hashlib
import io
import json
import operator
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dpbandits import _checks
from dpbandits._lazy import needing
from dpbandits._reading import json_object, reading
from dpbandits._seen import Seen, said
from dpbandits._typing import FloatArray
from dpbandits.errors import (
    CorruptState,
    DataUnavailable,
    IncompatibleState,
    InvalidParameter,
    ProtocolError,
    UnknownDecision,
)
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.privacy.rows import GaussianLaw, NoiseLaw
from dpbandits.privacy.rows.noise_laws import from_config as law_from_config
from dpbandits.state.files import found, write_folder
from dpbandits.state.npy import from_npy, to_npy
from dpbandits.tables.warehouse import DuckSource

__all__ = ["PublishedRows", "as_path", "check_target", "read_description"]

KIND = "dpbandits.row-release"
SCHEMA_VERSION = 1
_LARGEST_JSON = 1 << 24
_LARGEST_INPUTS = 1 << 30
"""Largest number of bytes of the rows in a Parquet file, which may be small."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PublishedRows(Seen):
    """Published table of noisy rows.

    Args:
        release_id: Random name of the release.
        inputs: Published rows (n, d); a row's number is its id.
        law: Noise law of the rows.
        half_width: Half the side of the public cube.
        guarantee: Guarantee of the release.
        mechanism: Public description of the mechanism.
        transform: Public description of the scaling, from which coordinates can be turned back into columns.
        answers: Description of the noise on answers; {"type": "public"} for exact answers.
        cap: Largest number of rows that the curator answers; None for all rows.
    """

    release_id: str
    inputs: FloatArray
    law: NoiseLaw
    half_width: float
    guarantee: Guarantee
    mechanism: Mapping[str, Any]
    transform: Mapping[str, Any]
    answers: Mapping[str, Any]
    cap: int | None

    def __repr__(self) -> str:
        promise = {"epsilon": self.guarantee.epsilon, "delta": self.guarantee.delta}
        rows, columns = self.inputs.shape
        return said(self, **promise, release=self.release_id[:8], rows=rows, columns=columns, cap=self.cap)

    def __post_init__(self) -> None:
        mappings = (self.mechanism, self.transform, self.answers)
        if not all(isinstance(part, Mapping) for part in mappings) or not (
            self.cap is None or (type(self.cap) is int and self.cap >= 0)
        ):
            raise InvalidParameter(
                "mechanism, transform, answers, cap: expected three mappings, and a count or None"
            )
        deviation = _checks.number(self.answers.get("sd", 0.0), name="sd of answers", exclusive=False)
        half_width = _checks.number(self.half_width, name="half_width")
        if not (deviation < 1e100 and 1e-100 < half_width < 1e100):
            raise InvalidParameter("half_width, sd of answers: expected numbers of a realistic magnitude")
        shape, dim = self.inputs.shape, self.law.dim
        if len(shape) != 2 or shape[1] != dim or not np.isfinite(self.inputs).all():
            raise InvalidParameter(f"inputs: got shape {shape}, expected finite numbers (n, {dim})")
        frozen = np.ascontiguousarray(self.inputs, dtype=np.float64)
        if frozen is self.inputs:
            frozen = frozen.view()
        frozen.flags.writeable = False
        object.__setattr__(self, "inputs", frozen)

    @classmethod
    def public(cls, inputs: FloatArray, *, half_width: float, cap: int | None = None) -> "PublishedRows":
        """Return published rows without noise, for public positions or as a non-private baseline."""
        with reading("a table of positions"):
            rows = np.array(inputs, dtype=np.float64, ndmin=2)
        _checks.number(half_width, name="half_width", minimum=1e-100)
        digest = hashlib.sha256(np.ascontiguousarray(rows).tobytes()).hexdigest()[:32]
        return cls(
            release_id=digest,
            inputs=rows,
            law=GaussianLaw(dim=rows.shape[1], deviation=1e-9 * half_width),
            half_width=half_width,
            guarantee=Guarantee.without_privacy(notes=("The positions are exact.",)),
            mechanism={"type": "none"},
            transform={"type": "none"},
            answers={"type": "public"},
            cap=cap,
        )

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.inputs)

    @property
    def dim(self) -> int:
        """Number of published coordinates."""
        return int(self.inputs.shape[1])

    def number(self, row: object) -> int:
        """Return a row's number as an int.

        Raises:
            UnknownDecision: the release has no such row.
        """
        try:
            number = -1 if isinstance(row, bool | np.bool_) else operator.index(row)  # type: ignore[arg-type]
        except TypeError:
            number = -1
        if not 0 <= number < self.n:
            raise UnknownDecision(f"row: no such row, the release has rows 0 to {self.n - 1}")
        return number

    @property
    def answer_noise_sd(self) -> float:
        """Standard deviation of the noise that the curator adds to answers; 0 for exact answers."""
        return float(self.answers.get("sd", 0.0))

    def describe(self) -> dict[str, Any]:
        """Return the content of `release.json` without the hashes."""
        guarantee = json.loads(self.guarantee.to_json())
        return {
            "kind": KIND,
            "schema_version": SCHEMA_VERSION,
            "release": self.release_id,
            "rows": self.n,
            "relation": self.guarantee.neighbours,
            "epsilon": guarantee["epsilon"],
            "delta": guarantee["delta"],
            "distance": guarantee["definition"].get("distance"),
            "distance_unit": (
                "Euclidean distance after public scaling (see public_transform): the cube's corners are 50 "
                "apart"
            ),
            "mechanism": dict(self.mechanism),
            "noise_law": self.law.to_config(),
            "public_transform": dict(self.transform),
            "half_width": self.half_width,
            "answers": dict(self.answers),
            "cap": self.cap,
            "guarantee": guarantee,
        }

    def save(
        self, directory: str | os.PathLike[str], *, file_format: Literal["npy", "parquet"] = "npy"
    ) -> None:
        """Write the directory atomically; write nothing if it already contains this release.

        Raises:
            InvalidParameter: `file_format` is unknown.
            ProtocolError: the directory exists with other content, or cannot be created.
            MissingExtra: pyarrow, which parquet needs, is not installed.
        """
        target = as_path(directory)
        if check_target(target, file_format=file_format, release_id=self.release_id):
            return
        data = to_npy(self.inputs) if file_format == "npy" else _parquet(self.inputs)
        name, digest = f"inputs.{file_format}", hashlib.sha256(data).hexdigest()
        body = self.describe() | {
            "inputs": {"file": name, "shape": list(self.inputs.shape), "sha256": digest}
        }
        body["sha256"] = _digest(body)
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.{os.urandom(6).hex()}.tmp")
        try:
            write_folder(temporary, {name: data, "release.json": json.dumps(body, indent=2).encode()})
            try:
                if target.exists():
                    target.rmdir()
                temporary.rename(target)
            except OSError:  # another process was faster: no error if it wrote this release
                if not check_target(target, file_format=file_format, release_id=self.release_id):
                    raise
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> "PublishedRows":
        """Read a release from a directory, and check it.

        Raises:
            MissingState: the directory has no release.json.
            IncompatibleState: release.json has another schema version, or is not the description of a
                release.
            CorruptState: a hash does not match, or a field is missing or malformed.
        """
        folder = as_path(directory)
        path = folder / "release.json"
        with found(f"there is no release.json in {folder}: pass the folder that save was given"):
            size = path.stat().st_size
        if size > _LARGEST_JSON:
            raise CorruptState("release.json is too large")
        with reading("a release.json", CorruptState):
            text = path.read_text("utf-8")
        body = read_description(text)
        with reading("a release", CorruptState):
            return cls.from_files(body, (folder / _file_of(body)).read_bytes())

    @classmethod
    def from_files(cls, description: Mapping[str, Any], data: bytes) -> "PublishedRows":
        """Return a release from the result of `read_description` and the bytes of the file that it names.

        Raises:
            CorruptState: the bytes do not match their hash, or a field is missing or malformed.
        """
        with reading("a release", CorruptState):
            stated = description["inputs"]
            if hashlib.sha256(data).hexdigest() != stated["sha256"]:
                raise CorruptState("the inputs do not match their SHA-256: fetch the release again")
            is_npy = _file_of(description) == "inputs.npy"
            inputs = from_npy(data, name="inputs") if is_npy else _from_parquet(data)
            if list(inputs.shape) != stated["shape"] or len(inputs) != description["rows"]:
                raise CorruptState("the inputs do not have the shape that release.json states")
            return cls(
                release_id=str(description["release"]),
                inputs=np.asarray(inputs, dtype=np.float64),
                law=law_from_config(description["noise_law"]),
                half_width=float(description["half_width"]),
                guarantee=Guarantee.from_json(json.dumps(description["guarantee"])),
                mechanism=description["mechanism"],
                transform=description["public_transform"],
                answers=description["answers"],
                cap=description["cap"],
            )


def read_description(text: str) -> dict[str, Any]:
    """Return the description in the text of a release.json, after checking the SHA-256 in it.

    Raises:
        IncompatibleState: the text has another schema version, or is not the description of a release.
        CorruptState: the text is not JSON, or its hash does not match.
    """
    with reading("a release.json", CorruptState):
        body = json_object(text, "a release.json", CorruptState)
    if body.get("kind") != KIND:
        raise IncompatibleState("release.json does not describe a row release")
    if body.get("schema_version") != SCHEMA_VERSION:
        raise IncompatibleState(
            f"the release has another schema version, this library reads {SCHEMA_VERSION}"
        )
    if body.get("sha256") != _digest({key: value for key, value in body.items() if key != "sha256"}):
        raise CorruptState("release.json does not match its SHA-256: fetch the release again")
    return body


def _file_of(description: Mapping[str, Any]) -> str:
    name = description["inputs"]["file"]
    if name not in ("inputs.npy", "inputs.parquet"):
        raise CorruptState("release.json names an unexpected file")
    return str(name)


def as_path(path: object, *, name: str = "the release directory") -> Path:
    """Return a caller's argument as a path.

    Raises:
        InvalidParameter: The argument is not a path.
    """
    if not isinstance(path, str | os.PathLike) or "\0" in str(path):
        raise InvalidParameter(f"{name} is a {type(path).__name__} or holds a null character: pass a path")
    return Path(path)


def check_target(directory: str | os.PathLike[str], *, file_format: str, release_id: str) -> bool:
    """Return True if the directory already contains this release, False if it can be written there.

    In all other cases raise the errors of `PublishedRows.save`.
    """
    _checks.one_of(file_format, ("npy", "parquet"), name="file_format")
    if file_format == "parquet":
        _pyarrow()
    target = as_path(directory)
    if target.is_symlink() or (target.exists() and not (target.is_dir() and not any(target.iterdir()))):
        try:
            same = PublishedRows.load(target).release_id == release_id
        except (OSError, CorruptState, IncompatibleState):
            same = False
        if same:
            return True
        raise ProtocolError("the release directory exists and holds something else: pass a new one")
    above = target.absolute().parent
    while not above.exists():
        above = above.parent
    if not (above.is_dir() and os.access(above, os.W_OK | os.X_OK)):
        raise ProtocolError("the release directory cannot be created at this path: pass another one")
    return False


def _digest(body: Mapping[str, Any]) -> str:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _parquet(inputs: FloatArray) -> bytes:
    arrow, parquet = _pyarrow()
    table = arrow.table({f"z{column}": inputs[:, column] for column in range(inputs.shape[1])})
    stream = io.BytesIO()
    parquet.write_table(table, stream)
    return stream.getvalue()


def _from_parquet(data: bytes) -> FloatArray:
    _pyarrow()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "inputs.parquet"
        path.write_bytes(data)
        try:
            with DuckSource.of_files(str(path), threads=1) as source:
                return _numbers_in(source)
        except DataUnavailable:
            raise CorruptState("inputs.parquet cannot be read: fetch the release again") from None


def _numbers_in(source: DuckSource) -> FloatArray:
    """Return the columns z0, z1, ... (n, d) of a Parquet file."""
    kinds = source.columns()
    names = [f"z{place}" for place in range(len(kinds))]
    if dict.fromkeys(names, "DOUBLE") != kinds:
        raise CorruptState("inputs.parquet has columns that are not numbers")
    (rows,) = source.query(f"SELECT count(*) AS n FROM {source.relation}")["n"]  # noqa: S608 - a quoted path
    if 8 * rows * len(names) > _LARGEST_INPUTS:
        raise CorruptState("inputs.parquet is too large when decompressed")
    sql = f"SELECT {', '.join(names)} FROM {source.relation}"  # noqa: S608 - names of ours
    blocks = [
        np.column_stack([cells.to_numpy(zero_copy_only=False) for cells in batch.columns])
        for batch in source.batches(sql, 1 << 14)
    ]
    return np.concatenate([np.empty((0, len(names))), *blocks])


def _pyarrow() -> tuple[Any, Any]:
    with needing("Parquet files need pyarrow and DuckDB: pip install 'dpbandits[warehouse]'"):
        import duckdb  # noqa: F401 - reads them
        import pyarrow as pa
        import pyarrow.parquet as parquet
    return pa, parquet
