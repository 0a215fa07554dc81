"""The curator: owns the table, releases it once, answers rows one by one.

In one place raw data meets noise: `_draw`. Everything else is order and durability:

1. a plan (a random release id, no data) is committed to the secret directory;
2. the ledger account of the population pays, under that id;
3. noise and shuffle are drawn and committed, position 1 of the state;
4. only then does a release leave, and it is always this one.

A crash between any two steps is finished by repeating the call: the id is the same, so it is paid once; what
was
drawn is never drawn again. Answers go through the log (`dpbandits.outsourced.answers`), and with a ledger its
length and hash are witnessed, so that a restored copy of the directory cannot answer a row anew.

Layout of the secret directory (mode 700, files 600): `curator.state` (which released row is which table row,
the
objective's column, the released inputs; no raw inputs), `answers.log`, locks.
"""

import json
import math
import os
import secrets
import stat
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpbandits._typing import FloatArray, IntArray
from dpbandits.domains import Schema
from dpbandits.domains.tables import read_table
from dpbandits.errors import (
    AlreadyTold,
    DPBanditsError,
    ForkedState,
    HorizonExceeded,
    IncompatibleState,
    InvalidData,
    InvalidParameter,
    ProtocolError,
    UnknownDecision,
)
from dpbandits.outsourced.answers import AnswerLog, Command
from dpbandits.outsourced.guarantees import release_guarantee
from dpbandits.outsourced.release import Release
from dpbandits.outsourced.scaling import PublicScaling
from dpbandits.privacy.definitions import RowDP
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.privacy.noise import NoiseSource, SecureNoise
from dpbandits.privacy.noise import from_config as noise_from_config
from dpbandits.privacy.row_mechanisms import AnswerLaplace, RowMechanism, choose_row_mechanism
from dpbandits.privacy.row_mechanisms.base import words_of
from dpbandits.privacy.row_mechanisms.exact_sampling import Words
from dpbandits.privacy.row_mechanisms.noise_laws import from_config as law_from_config
from dpbandits.state import Ledger, State, StateStore
from dpbandits.state.files import locked

__all__ = ["Curator"]

Objective = Callable[[object], float]
_KIND = "outsourced.curator"


class Curator:
    """Release a table's rows with noise, and answer for them.

    Args:
        table: a data frame (pandas, polars, pyarrow) or a mapping of columns.
        schema: the columns to release, all `Range`s with public bounds.
        privacy: the promise for one row's position; its distance is in public coordinates.
        objective: what answers are: the name of a column, a function of the row's own id, or a `Command`.
        ids: name of the column with the rows' own ids, for functions and commands; the row's place in the
            table where None.
        cap: answers given at most; None for every row.
        answers: noise on answers, or None: exact answers, which the guarantee does not cover.
        mechanism, projection, cells_per_dimension: see `choose_row_mechanism`.
        noise: `SecureNoise()`, or `SimulatedNoise(seed)` for studies.
        secret: directory for the secret side; None keeps everything in memory, for studies.
        ledger: witness of the state and of answers, and where `population` has its account.
        population: account that pays for every release of these people; needs a ledger.

    Raises:
        InvalidData: missing values, rows outside the bounds, constant columns, duplicate ids.
        InvalidParameter: arguments that cannot work together.
        ProtocolError: the secret directory holds a release already (`Curator.open`), or is readable by
            others.
        ForkedState: the ledger has seen another copy of the secret directory go on.

    Example:
        >>> from dpbandits import Range, RowDP, Schema
        >>> table = {"age": [30, 40, 50, 60], "dose": [1.0, 2.0, 3.0, 2.5], "effect": [0.1, 0.7, 0.4, 0.9]}
        >>> curator = Curator(table, schema=Schema(age=Range(18, 90), dose=Range(0, 5)), objective="effect",
        ...                   privacy=RowDP(epsilon=1.0, distance=1.0))
        >>> release = curator.publish()
        >>> release.inputs.shape, release.guarantee.status
        ((4, 2), 'enforced')
        >>> curator.answer(2) in table["effect"]
        True
    """

    def __init__(
        self,
        table: object,
        *,
        schema: Schema,
        privacy: RowDP,
        objective: str | Objective | Command | None = None,
        ids: str | None = None,
        cap: int | None = None,
        answers: AnswerLaplace | None = None,
        mechanism: str = "auto",
        projection: FloatArray | None = None,
        cells_per_dimension: int | None = None,
        noise: NoiseSource | None = None,
        secret: str | os.PathLike[str] | None = None,
        ledger: Ledger | None = None,
        population: str | None = None,
    ) -> None:
        if population is not None and ledger is None:
            raise InvalidParameter("population names an account in a ledger: pass the ledger too")
        scaling = PublicScaling(schema)
        self._points = scaling.to_public(table)
        n = len(self._points)
        if cap is not None and (isinstance(cap, bool) or not 1 <= cap <= n):
            raise InvalidParameter(f"cap is {cap!r}, expected an integer from 1 to the table's {n} rows")
        noise = SecureNoise() if noise is None else noise
        chosen = choose_row_mechanism(
            definition=privacy,
            n=n,
            dim=scaling.dim,
            half_width=scaling.half_width,
            noise=noise,
            mechanism=mechanism,
            projection=projection,
            cells_per_dimension=cells_per_dimension,
        )
        guarantee = release_guarantee(
            definition=privacy,
            mechanism=chosen,
            rows=n,
            status=noise.status,
            answers=answers,
            cap=cap,
            witnessed=ledger is not None and secret is not None,
            budgeted=population is not None,
        )
        own_ids = None if ids is None else _own_ids(table, ids, n)
        column = _objective_column(table, objective, n) if isinstance(objective, str) else None
        public = {
            "rows": n,
            "half_width": scaling.half_width,
            "transform": scaling.to_config(),
            "mechanism": chosen.to_config(),
            "law": chosen.law.to_config(),
            "guarantee": json.loads(guarantee.to_json()),
            "answers": {"type": "public"} if answers is None else answers.to_config(),
            "noise": noise.to_config(),
            "cap": cap,
            "population": population,
            "charge": [
                repr(privacy.epsilon + (0.0 if answers is None else answers.epsilon)),
                repr(privacy.delta),
            ],
        }
        self._mechanism: RowMechanism | None = chosen
        self._setup(
            public,
            secret=None if secret is None else _secret_directory(secret, new=True),
            ledger=ledger,
            noise=noise,
            objective=None if isinstance(objective, str) else objective,
        )
        self._own_ids: list[str] | None = own_ids
        self._column = column
        self._plan()

    @classmethod
    def open(
        cls,
        secret: str | os.PathLike[str],
        *,
        objective: Objective | Command | None = None,
        ledger: Ledger | None = None,
    ) -> "Curator":
        """Go on from a secret directory, without the table.

        Args:
            secret: the directory.
            objective: the function or command, where answers are no column of the table.
            ledger: the one it was made with.

        Raises:
            FileNotFoundError: no curator there.
            ProtocolError: the release was never finished: repeat the constructor with the table.
            ForkedState: another copy of the directory has gone on.
        """
        folder = _secret_directory(secret, new=False)
        curator = cls.__new__(cls)
        curator._mechanism = None
        curator._own_ids = None
        curator._column = None
        curator._points = np.zeros((0, 0))
        state = StateStore(folder / "curator.state", ledger).load()
        if state.kind != _KIND or state.version != 1:
            raise IncompatibleState("the directory's state was not written by this version of the curator")
        if state.position == 0:
            raise ProtocolError("this release was begun and not finished: repeat it with the table")
        curator._setup(
            dict(state.public),
            secret=folder,
            ledger=ledger,
            noise=noise_from_config(state.public["noise"]),
            objective=objective,
        )
        curator._restore(state)
        return curator

    # -- the release -------------------------------------------------------------------------------

    def publish(
        self,
        directory: str | os.PathLike[str] | None = None,
        *,
        file_format: Literal["npy", "parquet"] = "npy",
    ) -> Release:
        """The release; written to `directory` as well, if given. Every call gives the same one.

        Raises:
            BudgetExceeded: the population's account cannot pay; nothing was drawn.
        """
        if self._release is None:
            self._pay()
            self._draw()
        if self._release is None:
            raise ProtocolError("nothing was drawn")  # _draw sets it
        if directory is not None:
            self._release.write(directory, file_format=file_format)
        return self._release

    @property
    def release_id(self) -> str:
        """Random name of the release."""
        return self._lineage

    @property
    def guarantee(self) -> Guarantee:
        """What is promised about the release and the answers."""
        return Guarantee.from_json(json.dumps(self._public["guarantee"]))

    @property
    def cap(self) -> int | None:
        """Answers given at most."""
        cap: int | None = self._public["cap"]
        return cap

    # -- answers -----------------------------------------------------------------------------------

    @property
    def answered(self) -> list[tuple[int, float]]:
        """(row, answer) in the order they were given; all of it has left."""
        return [] if self._log is None else self._log.entries

    def answer(self, row: int) -> float:
        """The answer of a released row: evaluated once, durable before it is returned.

        Raises:
            ProtocolError: nothing was published, or the objective failed (nothing was logged, ask again).
            UnknownDecision: no such row.
            AlreadyTold: the row was answered before (`answer_again`).
            HorizonExceeded: the cap is reached.
        """
        log = self._answer_log()
        with self._locked():
            log.refresh()
            self._check_row(row)
            if log.get(row) is not None:
                raise AlreadyTold(f"row {row} was answered before: each row is answered once")
            if self.cap is not None and len(log) >= self.cap:
                raise HorizonExceeded(f"all {self.cap} answers of this release were given")
            value = self._evaluate(row)
            noise = self._answer_noise
            if noise is not None:
                value = float(noise.privatise(np.array([value]), self._noise, position=len(log))[0])
            log.append(row, value)
            self._witness(log)
        return value

    def answer_again(self, row: int) -> float:
        """The answer that was given for a row before, for a modeler that lost it.

        Raises:
            UnknownDecision: the row was not answered.
        """
        log = self._answer_log()
        with self._locked():
            log.refresh()
        value = log.get(row)
        if value is None:
            raise UnknownDecision("this row was not answered yet: ask for it")
        return value

    def __repr__(self) -> str:
        published = self._release is not None
        return f"Curator(release={self._lineage!r}, rows={self._public['rows']}, published={published})"

    # -- inside ------------------------------------------------------------------------------------

    def _setup(
        self,
        public: dict[str, Any],
        *,
        secret: Path | None,
        ledger: Ledger | None,
        noise: NoiseSource,
        objective: Objective | Command | None,
    ) -> None:
        self._public = public
        self._secret = secret
        self._ledger = ledger
        self._noise = noise
        self._objective = objective
        self._release: Release | None = None
        self._log: AnswerLog | None = None
        self._table_rows: IntArray = np.zeros(0, dtype=np.int64)
        self._lineage = ""
        noised = public["answers"]["type"] != "public"
        self._answer_noise = AnswerLaplace.from_config(public["answers"]) if noised else None

    def _store(self) -> StateStore | None:
        return None if self._secret is None else StateStore(self._secret / "curator.state", self._ledger)

    def _plan(self) -> None:
        """Position 0: an id, before anything is paid or drawn; an unfinished one is taken up again."""
        store = self._store()
        if store is not None:
            try:
                earlier = store.load()
            except FileNotFoundError:
                earlier = None
            if earlier is not None:
                if earlier.position > 0:
                    raise ProtocolError("this directory holds a release already: use Curator.open")
                if earlier.public != json.loads(json.dumps(self._public)):
                    raise ProtocolError("an unfinished release in this directory has other parameters")
                self._lineage = earlier.lineage
                return
        self._lineage = secrets.token_hex(16)
        if store is not None:
            store.commit(State(kind=_KIND, version=1, lineage=self._lineage, position=0, public=self._public))

    def _pay(self) -> None:
        population = self._public["population"]
        if population is None or self._ledger is None:
            return
        epsilon, delta = (float(amount) for amount in self._public["charge"])
        self._ledger.charge(population, charge_id=self._lineage, epsilon=epsilon, delta=delta)

    def _draw(self) -> None:
        """Where raw rows meet noise; then durable; then gone from memory."""
        if self._mechanism is None:
            raise ProtocolError("the table is not here: make the curator with the table")
        n = len(self._points)
        order = _permutation(n, words_of(self._noise, stream=3))
        inputs = self._mechanism.privatise(self._points[order], self._noise)
        arrays: dict[str, NDArray[Any]] = {"inputs": inputs, "table_rows": order}
        if self._column is not None:
            arrays["column"] = self._column
        state = State(
            kind=_KIND,
            version=1,
            lineage=self._lineage,
            position=1,
            public=self._public,
            secret={"ids": self._own_ids},
            arrays=arrays,
        )
        store = self._store()
        if store is not None:
            store.commit(state)
        self._restore(state)
        self._points = np.zeros((0, 0))
        self._mechanism = None

    def _restore(self, state: State) -> None:
        public = state.public
        self._lineage = state.lineage
        self._table_rows = np.asarray(state.arrays["table_rows"], dtype=np.int64)
        self._column = np.asarray(state.arrays["column"]) if "column" in state.arrays else None
        self._own_ids = state.secret["ids"]
        self._release = Release(
            release_id=state.lineage,
            inputs=np.asarray(state.arrays["inputs"], dtype=np.float64),
            law=law_from_config(public["law"]),
            half_width=float(public["half_width"]),
            guarantee=Guarantee.from_json(json.dumps(public["guarantee"])),
            mechanism=public["mechanism"],
            transform=public["transform"],
            answers=public["answers"],
            cap=public["cap"],
        )
        path = None if self._secret is None else self._secret / "answers.log"
        self._log = AnswerLog(path, state.lineage)
        self._witness(self._log)

    def _witness(self, log: AnswerLog) -> None:
        """Compare-and-set at the ledger: a log that is behind what was witnessed is an old copy."""
        if self._ledger is None or self._secret is None:
            return
        try:
            self._ledger.advance(f"{self._lineage}.answers", position=len(log), digest=log.digest)
        except ForkedState:
            raise ForkedState(
                "the ledger has witnessed other answers than this log holds: another copy of the secret "
                "directory has gone on, or an old one was restored; use the newest"
            ) from None

    def _answer_log(self) -> AnswerLog:
        if self._log is None:
            raise ProtocolError("nothing was published yet: call publish() first")
        return self._log

    def _locked(self) -> AbstractContextManager[None]:
        return nullcontext() if self._secret is None else locked(self._secret / "answers.lock")

    def _check_row(self, row: int) -> None:
        if type(row) is bool or not 0 <= row < len(self._table_rows):
            raise UnknownDecision(
                f"the release has rows 0 to {len(self._table_rows) - 1}, the one asked for is none"
            )

    def _evaluate(self, row: int) -> float:
        place = int(self._table_rows[row])
        if self._column is not None:
            return float(self._column[place])
        if self._objective is None:
            raise ProtocolError("this curator has no objective: pass one to answer")
        own_id: object = place if self._own_ids is None else self._own_ids[place]
        try:
            value = float(self._objective(own_id))
        except DPBanditsError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it was, its text may show data
            raise ProtocolError(
                f"the objective failed ({type(error).__name__}): nothing was logged, ask again"
            ) from None
        if not math.isfinite(value):
            raise ProtocolError("the objective gave NaN or an infinite number: nothing was logged, ask again")
        return value


def _permutation(n: int, words: Words) -> IntArray:
    """A uniformly random order: sorts random words, drawn again on a tie."""
    while True:
        keys = words(n)
        order = np.argsort(keys)
        if not (np.diff(keys[order].view(np.int64)) == 0).any():
            return order.astype(np.int64)


def _secret_directory(path: str | os.PathLike[str], *, new: bool) -> Path:
    folder = Path(path)
    if new:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not folder.is_dir():
        raise FileNotFoundError("there is no secret directory at this path")
    if stat.S_IMODE(folder.stat().st_mode) & 0o077:
        raise ProtocolError("the secret directory is open to other users: make it mode 700 first")
    return folder


def _own_ids(table: object, name: str, n: int) -> list[str]:
    frame = read_table(table)
    if name not in frame.names:
        raise InvalidData(f"the table lacks the id column {name!r}")
    values = [str(value) for value in frame.column(name).tolist()]
    if len(values) != n:
        raise InvalidData("the id column has another length than the table")
    if len(set(values)) != n:
        raise InvalidData(f"the id column {name!r} has duplicates: each row needs its own id")
    return values


def _objective_column(table: object, name: str, n: int) -> FloatArray:
    frame = read_table(table)
    if name not in frame.names:
        raise InvalidData(f"the table lacks the objective's column {name!r}")
    try:
        values = np.asarray(frame.column(name).tolist(), dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidData(f"the objective's column {name!r} holds something else than numbers") from None
    if values.shape != (n,) or not np.isfinite(values).all():
        raise InvalidData(f"the objective's column {name!r} has missing or infinite values: drop these rows")
    return values
