"""The curator: owns the table, releases it once, answers rows one by one.

In one place raw data meets noise: `_draw`. Everything else is order and durability:

1. a plan (a random release id, no data) is committed to the secret directory;
2. the ledger account of the population pays, under that id;
3. the log of answers is made, empty, and witnessed;
4. noise and shuffle are drawn and committed, position 1 of the state;
5. only then does a release leave, and it is always this one.

A crash between any two steps is finished by repeating the call: the id is the same, so it is paid once; what
was drawn is never drawn again. From step 4 on a missing log is an error. Answers go through the log
(`dpbandits.outsourced.curator.answer_log`), which says why no crash and, with a ledger, no copy of the
directory can
answer a row anew. A secret made with a ledger opens with it only.

One process holds a curator, one thread at a time has its turn; it cannot be copied, pickled or used behind a
fork. Several processes may open one directory: they take turns through a lock file.

Layout of the secret directory (mode 700, files 600): `curator.state` (which released row is which table row,
the objective's column, the released inputs; no raw inputs), `answers.log`, locks.
"""

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from dpbandits._typing import FloatArray
from dpbandits.errors import (
    IncompatibleState,
    InvalidParameter,
    ProtocolError,
)
from dpbandits.outsourced.curator.answer_log import AnswerLog
from dpbandits.outsourced.curator.answers import AnswerDesk, Objective
from dpbandits.outsourced.curator.commands import Command
from dpbandits.outsourced.curator.plan import RawRows, plan_release, release_of
from dpbandits.outsourced.curator.secret_side import permutation, secret_directory
from dpbandits.outsourced.curator.turns import Turns
from dpbandits.outsourced.publish import PublishedRows, check_target
from dpbandits.privacy.definitions import RowDP
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.privacy.noise import NoiseSource, SecureNoise, words_of
from dpbandits.privacy.noise import from_config as noise_from_config
from dpbandits.privacy.rows import AnswerLaplace
from dpbandits.state import Ledger, State, StateKey, StateStore
from dpbandits.state.files import locked
from dpbandits.tables import Schema

__all__ = ["Curator"]

_LOG = "answers.log"
_LOCK = "answers.lock"
_KIND = "outsourced.curator"
_VERSION = 2


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
        ledger: witness of the state and of answers, and where `population` has its account; needs a secret
            directory, which then opens with this ledger only.
        key: seals the secret side's state; the log of answers, which the modeler has too, stays readable.
        population: account that pays for every release of these people; needs a ledger.
        resume: take up a finished release of the same parameters in the secret directory, instead of
            refusing; the table is then not looked at again.

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

    _raw: RawRows | None

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
        key: StateKey | None = None,
        population: str | None = None,
        resume: bool = False,
    ) -> None:
        if population is not None and ledger is None:
            raise InvalidParameter("population names an account in a ledger: pass the ledger too")
        if ledger is not None and secret is None:
            raise InvalidParameter(
                "a ledger witnesses a secret directory: pass secret too, or a restart would release and pay "
                "again"
            )
        noise = SecureNoise() if noise is None else noise
        public, raw = plan_release(
            table,
            schema=schema,
            privacy=privacy,
            objective=objective if isinstance(objective, str) else None,
            ids=ids,
            cap=cap,
            answers=answers,
            mechanism=mechanism,
            projection=projection,
            cells_per_dimension=cells_per_dimension,
            noise=noise,
            durable=secret is not None,
            witnessed=ledger is not None,
            population=population,
        )
        self._setup(
            public,
            secret=None if secret is None else secret_directory(secret, new=True),
            ledger=ledger,
            key=key,
            noise=noise,
            objective=None if isinstance(objective, str) else objective,
        )
        self._raw = raw
        with self._locked():
            self._plan(resume=resume)

    @classmethod
    def open(
        cls,
        secret: str | os.PathLike[str],
        *,
        objective: Objective | Command | None = None,
        ledger: Ledger | None = None,
        key: StateKey | None = None,
    ) -> "Curator":
        """Go on from a secret directory, without the table.

        Args:
            secret: the directory.
            objective: the function or command, where answers are no column of the table.
            ledger, key: those it was made with.

        Raises:
            FileNotFoundError: no curator there.
            ProtocolError: the release was never finished: repeat the constructor with the table; or it was
                made with a ledger, and none was passed.
            CorruptState: the state is damaged, or the log of answers is missing or was changed.
            ForkedState: another copy of the directory has gone on.
        """
        folder = secret_directory(secret, new=False)
        curator = cls.__new__(cls)
        with locked(folder / _LOCK):
            state = StateStore(folder / "curator.state", ledger, key).load()
        if state.kind != _KIND or state.version != _VERSION:
            raise IncompatibleState("the directory's state was not written by this version of the curator")
        if state.position == 0:
            raise ProtocolError("this release was begun and not finished: repeat it with the table")
        curator._setup(
            dict(state.public),
            secret=folder,
            ledger=ledger,
            key=key,
            noise=noise_from_config(state.public["noise"]),
            objective=objective,
        )
        with curator._locked():
            curator._restore(state)
        return curator

    # -- the release -------------------------------------------------------------------------------

    def publish(
        self,
        directory: str | os.PathLike[str] | None = None,
        *,
        file_format: Literal["npy", "parquet"] = "npy",
    ) -> PublishedRows:
        """The release; written to `directory` as well, if given. Every call gives the same one.

        Raises:
            BudgetExceeded: the population's account cannot pay; nothing was drawn.
            ProtocolError: the directory holds something else; nothing was paid or drawn.
            MissingExtra: parquet without pyarrow; nothing was paid or drawn.
        """
        with self._turns.turn():
            if directory is not None:
                check_target(directory, file_format=file_format, release_id=self._lineage)
            if self._release is None:
                with self._locked():
                    earlier = self._load()
                    if earlier is not None and earlier.position > 0:  # another process was faster
                        self._restore(earlier)
                    else:
                        self._pay()
                        self._draw()
            if self._release is None:
                raise ProtocolError("nothing was drawn")  # _restore and _draw set it
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
        return [] if self._desk is None else self._desk.log.entries

    def answer(self, row: int) -> float:
        """The answer of a released row: evaluated once, durable before it is returned.

        Raises:
            ProtocolError: nothing was published, or the objective failed (nothing was logged, ask again).
            UnknownDecision: no such row.
            AlreadyTold: the row was answered before (`answer_again`).
            HorizonExceeded: the cap is reached.
            ForkedState: another copy of the secret directory has answered; nothing was evaluated.
        """
        with self._turns.turn(), self._locked():
            return self._open_desk().answer(row)

    def answer_again(self, row: int) -> float:
        """The answer that was given for a row before, for a modeler that lost it.

        Raises:
            UnknownDecision: the row was not answered.
            ForkedState: another copy of the secret directory has answered.
        """
        with self._turns.turn(), self._locked():
            return self._open_desk().answer_again(row)

    def __reduce__(self) -> NoReturn:
        raise ProtocolError(
            "a curator cannot be copied or pickled: two copies would answer twice, and its memory holds raw "
            "data. Use Curator.open on its secret directory"
        )

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
        key: StateKey | None,
        noise: NoiseSource,
        objective: Objective | Command | None,
    ) -> None:
        if public["witnessed"] and ledger is None:
            raise ProtocolError(
                "this secret was made with a ledger, which refuses a second copy of it: open it with that "
                "ledger"
            )
        self._turns = Turns()
        self._public = public
        self._secret = secret
        self._ledger = ledger
        self._key = key
        self._noise = noise
        self._objective = objective
        self._release: PublishedRows | None = None
        self._desk: AnswerDesk | None = None
        self._raw = None
        self._lineage = ""

    def _store(self) -> StateStore | None:
        return (
            None
            if self._secret is None
            else StateStore(self._secret / "curator.state", self._ledger, self._key)
        )

    def _load(self) -> State | None:
        store = self._store()
        try:
            return None if store is None else store.load()
        except FileNotFoundError:
            return None

    def _plan(self, *, resume: bool) -> None:
        """Position 0: an id, before anything is paid or drawn; an unfinished one is taken up again."""
        earlier = self._load()
        if earlier is not None:
            finished = earlier.position > 0
            if finished and not resume:
                raise ProtocolError("this directory holds a release already: use Curator.open")
            if earlier.version != _VERSION or earlier.public != json.loads(json.dumps(self._public)):
                kind = "finished" if finished else "unfinished"
                raise ProtocolError(f"the {kind} release in this directory has other parameters")
            self._lineage = earlier.lineage
            if finished:
                self._restore(earlier)
            return
        self._lineage = secrets.token_hex(16)
        store = self._store()
        if store is not None:
            state = State(
                kind=_KIND, version=_VERSION, lineage=self._lineage, position=0, public=self._public
            )
            store.commit(state)

    def _pay(self) -> None:
        population = self._public["population"]
        if population is None or self._ledger is None:
            return
        epsilon, delta = (Decimal(amount) for amount in self._public["charge"])
        self._ledger.charge(population, charge_id=self._lineage, epsilon=epsilon, delta=delta)

    def _draw(self) -> None:
        """Where raw rows meet noise; then durable; then gone from memory."""
        raw = self._raw
        if raw is None:
            raise ProtocolError("the table is not here: make the curator with the table")
        if self._secret is not None:
            AnswerLog.create(self._secret / _LOG, self._lineage, ledger=self._ledger)
        n = len(raw.points)
        order = permutation(n, words_of(self._noise, stream=3))
        inputs = raw.mechanism.privatise(raw.points[order], self._noise)
        arrays: dict[str, NDArray[Any]] = {"inputs": inputs, "table_rows": order}
        if raw.column is not None:
            arrays["column"] = raw.column
        state = State(
            kind=_KIND,
            version=_VERSION,
            lineage=self._lineage,
            position=1,
            public=self._public,
            secret={"ids": raw.own_ids},
            arrays=arrays,
        )
        store = self._store()
        if store is not None:
            store.commit(state)
        self._restore(state)

    def _restore(self, state: State) -> None:
        """Take up a drawn release, and its log: at this point it must be there."""
        public = state.public
        path = None if self._secret is None else self._secret / _LOG
        noised = public["answers"]["type"] != "public"
        self._desk = AnswerDesk(
            log=AnswerLog(path, state.lineage, ledger=self._ledger),
            table_rows=np.asarray(state.arrays["table_rows"], dtype=np.int64),
            column=np.asarray(state.arrays["column"]) if "column" in state.arrays else None,
            own_ids=state.secret["ids"],
            objective=self._objective,
            answer_noise=AnswerLaplace.from_config(public["answers"]) if noised else None,
            noise=self._noise,
            cap=public["cap"],
        )
        self._lineage = state.lineage
        self._release = release_of(state)
        self._raw = None

    def _open_desk(self) -> AnswerDesk:
        if self._desk is None:
            raise ProtocolError("nothing was published yet: call publish() first")
        return self._desk

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One process at a time; whoever waits here finds what the one before has left."""
        if self._secret is None:
            yield
            return
        with locked(self._secret / _LOCK):
            yield
