"""The curator: the owner of a table, who publishes its rows once and answers them one by one.

Noise is added to raw data in one place, `TableRows.draw`. This module orders the steps and makes them
durable:

1. a plan (a random release id, no data) is committed to the secret directory;
2. the account is charged under that id;
3. an empty log of answers is created and witnessed;
4. noise and shuffle are drawn and committed;
5. only then are rows returned, and they are the same at every call.

After a crash between any two steps, repeating the call finishes them. The id is the same, so the account is
charged once, and committed noise is never drawn again. From step 4 on a missing log is an error. Every
answer is logged before it is returned (`dpbandits.outsourced.curator.answers`). So no crash, and with a
ledger no copy of the directory, can give a second answer to a row. A secret directory that was created with
a ledger can be opened only with that ledger.

A failed evaluation counts towards the cap like any other. If answers have noise, the answer of a failed
evaluation is the middle of the public bounds with the same noise, so that the modeler cannot detect the
failure. If answers are exact, which no guarantee covers, the modeler gets an error.

The state records the releases and their terms (`dpbandits.state.release_log`). The guarantee is derived from
this record and the parameters, and computed anew when the record changes.

Each curator object belongs to one process and serves one thread at a time. It cannot be copied, pickled or
used after a fork (`dpbandits.state.holder`). Several processes may open one directory; a lock file
serialises them.
"""

import json
import os
import secrets
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from dpbandits import _checks
from dpbandits._calls import worded
from dpbandits._reading import reading
from dpbandits._seen import said
from dpbandits.budget import Account, Cost, cost_of
from dpbandits.errors import (
    AlreadyTold,
    CorruptState,
    HorizonExceeded,
    InvalidParameter,
    ProtocolError,
    UnknownDecision,
)
from dpbandits.outsourced.curator.answers import AnswerLog
from dpbandits.outsourced.curator.directory import KIND, VERSION, SecretDirectory
from dpbandits.outsourced.curator.objective import Command, Objective, evaluated, ready
from dpbandits.outsourced.curator.pace import LEAST_PACE, paced
from dpbandits.outsourced.publish import PublishedRows, check_target
from dpbandits.outsourced.scaling import Drawn, PublicScaling, TableRows
from dpbandits.outsourced.statement import RELEASES, cost_of_rows, rows_guarantee
from dpbandits.privacy.definitions import RowDP, warn_if_delta_large
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.privacy.noise import NoiseSource, SecureNoise
from dpbandits.privacy.noise import from_config as noise_from_config
from dpbandits.privacy.release_terms import Release, check_releases, terms_of_release
from dpbandits.privacy.rows import AnswerLaplace, RowMechanism, choose_row_mechanism
from dpbandits.privacy.rows.noise_laws import from_config as law_from_config
from dpbandits.state import State
from dpbandits.state.holder import Held, Holder, Saved, in_turn
from dpbandits.state.release_log import ReleaseLog
from dpbandits.tables import Schema

__all__ = ["Curator", "CuratorTuning"]


@dataclass(frozen=True, kw_only=True, eq=False)
class CuratorTuning:
    """Settings of a `Curator` that rarely need a change.

    Args:
        mechanism: "auto", "l2_laplace", "gaussian" or "randomised_response"; see
            `dpbandits.privacy.rows.choose_row_mechanism`.
        cells_per_dimension: Number of cells per dimension for "randomised_response".
        answer_after: Public time in seconds, at least 1, after which, or after a multiple of which, every
            answer is returned. A `Command` is stopped at half of that time, and its evaluation has then
            failed. None returns answers as soon as they are known.
    """

    mechanism: str = "auto"
    cells_per_dimension: int | None = None
    answer_after: float | None = None


@worded
class Curator(Held):
    """Owner of a table: publishes the rows with noise, and answers for them.

    Args:
        table: Data frame (pandas, polars, pyarrow), mapping of columns, path or glob of files,
            "duckdb:///FILE?table=NAME", "postgresql://USER@HOST/DATABASE?table=NAME", or an Ibis table of
            DuckDB or PostgreSQL. A database needs `ids` or, without `user`, a column of answers. A
            person's first rows are there the first in the order of the ids as texts.
        contexts: Columns to publish, all `Range`s with public bounds.
        privacy: Privacy definition for one row's position; its distance is in public coordinates.
        objective: Source of answers: the name of a column, a function of the row's own id, or a `Command`.
        ids: Name of the column of the rows' own ids, which functions and commands receive as text. If None,
            the id is the row's place in the table.
        user: Name of the column with the person to whom a row belongs. The first `privacy.rows_per_user`
            rows of each person are released, and that person's other rows are left out. If None, every row
            is assumed to belong to a different person, which is not checked.
        cap: Largest number of evaluations, including failed ones; by default the number of rows.
        answers: Noise on answers; None for exact answers, which the guarantee does not cover.
        noise: `SecureNoise()`, or `SimulatedNoise(seed)` for studies.
        secret: Directory for the secret state; or a `SecretDirectory`, which adds the account that is
            charged, the ledger that detects copies, and the key that encrypts the state. None keeps
            everything in memory, for studies.
        tuning: Settings that are rarely needed: the noise on rows, and the time of answers.

    Raises:
        InvalidData: the table lacks a column, has fewer than two rows, or more than fit into memory.
        DataUnavailable: the table cannot be read.
        InvalidParameter: an argument has another type, or the arguments do not fit together.
        ProtocolError: the secret directory has a finished release (see `Curator.open`), or a release of
            another table or with other parameters, or other users may read the directory.
        ForkedState: the ledger has seen another copy of the secret directory in use.

    Every row is released, whatever it contains. A row with an unreadable cell is released like the centre of
    the cube. The evaluation of a row without a finite answer or without its own id fails. Check a table with
    `Schema.check` first.

    Example:
        >>> from dpbandits import Range, RowDP, Schema
        >>> table = {"age": [30, 40, 50, 60], "dose": [1.0, 2.0, 3.0, 2.5], "effect": [0.1, 0.7, 0.4, 0.9]}
        >>> curator = Curator(table, contexts=Schema(age=Range(18, 90), dose=Range(0, 5)), objective="effect",
        ...                   privacy=RowDP(epsilon=1.0, distance=1.0))
        >>> published = curator.publish()
        >>> published.inputs.shape, published.guarantee.status
        ((4, 2), 'enforced')
        >>> curator.answer(2) in table["effect"]
        True
    """

    _stated: tuple[dict[str, Any], Guarantee] | None
    _moving: ClassVar[str] = "Use Curator.open on its secret directory"

    def __init__(
        self,
        table: object,
        *,
        contexts: Schema,
        privacy: RowDP,
        objective: str | Objective | Command | None = None,
        ids: str | None = None,
        user: str | None = None,
        cap: int | None = None,
        answers: AnswerLaplace | None = None,
        noise: NoiseSource | None = None,
        secret: str | os.PathLike[str] | SecretDirectory | None = None,
        tuning: CuratorTuning | None = None,
    ) -> None:
        _checks.an(contexts, Schema, name="contexts", pass_="contexts=Schema(age=Range(18, 90))")
        _checks.an(privacy, RowDP, name="privacy", pass_="privacy=RowDP(epsilon=1, distance=1)")
        _checks.an(answers, AnswerLaplace, name="answers", pass_="AnswerLaplace(...)", optional=True)
        _checks.an(ids, str, name="ids", pass_="the name of a column", optional=True)
        _checks.an(user, str, name="user", pass_="the name of a column", optional=True)
        if privacy.rows_per_user > 1 and user is None:
            raise InvalidParameter(
                f"privacy covers {privacy.rows_per_user} rows of a person: pass user=, the name of the "
                "column of the rows' owners"
            )
        noise = SecureNoise() if noise is None else noise
        _checks.an(noise, NoiseSource, name="noise", pass_="noise=SecureNoise()")
        tuning = CuratorTuning() if tuning is None else tuning
        _checks.an(tuning, CuratorTuning, name="tuning", pass_="tuning=CuratorTuning(mechanism='auto')")
        answer_after = tuning.answer_after
        secret = None if secret is None else _directory(secret)
        column, function = (objective, None) if isinstance(objective, str) else (None, _callable(objective))
        scaling = PublicScaling(contexts)
        if answer_after is not None:
            answer_after = _checks.number(
                answer_after, name="answer_after", minimum=LEAST_PACE, exclusive=False, maximum=86_400.0
            )
        if user is not None and column is None and ids is None:
            raise InvalidParameter(
                "user= leaves rows out, so that places differ from the table's: pass ids=, the name of the "
                "column of the rows' own ids, or objective=, that of answers"
            )
        rows = TableRows.read(
            table, scaling=scaling, answers=column, ids=ids, user=user, rows_per_user=privacy.rows_per_user
        )
        n = len(rows.points)
        cap = n if cap is None else _checks.integer(cap, name="cap")
        if cap > n:
            raise InvalidParameter(f"cap is {cap}, expected an integer from 1 to the table's {n} rows")
        warn_if_delta_large(privacy.delta, n)
        chosen = choose_row_mechanism(
            definition=privacy.each_row,
            n=n,
            dim=scaling.dim,
            half_width=scaling.half_width,
            noise=noise,
            mechanism=tuning.mechanism,
            cells_per_dimension=tuning.cells_per_dimension,
        )
        public = {
            "rows": n,
            "half_width": scaling.half_width,
            "public_transform": scaling.to_config(),
            "privacy": privacy.to_config(),
            "mechanism": chosen.to_config(),
            "noise_law": chosen.law.to_config(),
            "answers": {"type": "public"} if answers is None else answers.to_config(),
            "answer_after": answer_after,
            "noise": noise.to_config(),
            "cap": cap,
            "account": None if secret is None or secret.account is None else secret.account.name,
            "witnessed": secret is not None and secret.ledger is not None,
            "users": user is not None,
        }
        self._set_up(public, noise=noise, mechanism=chosen, objective=function, secret=secret, raw=rows)
        if secret is not None:
            secret.make()
            with secret.turn():
                self._plan(secret, rows)

    @classmethod
    def open(
        cls, secret: str | os.PathLike[str] | SecretDirectory, *, objective: Objective | Command | None = None
    ) -> "Curator":
        """Open a secret directory without the table.

        Args:
            secret: The directory, with the ledger and the key with which it was created.
            objective: Function or command that gives answers, if they are not a column of the table.

        Raises:
            MissingState: the directory has no curator's state.
            ProtocolError: the release was not finished, so the constructor must be repeated with the table;
                or the directory was created with a ledger, and none was passed.
            InvalidParameter: `secret` is not a path, or `objective` was passed although answers are a column
                of the table.
            CorruptState: the state is damaged, or the log of answers is missing or was changed.
            ForkedState: another copy of the directory is in use.
        """
        secret, objective = _directory(secret), _callable(objective)
        curator = cls.__new__(cls)
        secret.check()
        with secret.turn():
            saved = secret.load()
            public = dict(saved.state.public)
            if not saved.state.arrays:
                raise ProtocolError("this release was not finished: repeat the constructor with the table")
            if public["witnessed"] and secret.ledger is None:
                raise ProtocolError(
                    "this secret directory was created with a ledger, which refuses a second copy of it: "
                    "open it with that ledger"
                )
            if objective is not None and "column" in saved.state.arrays:
                raise InvalidParameter("objective: answers of this release are a column of its table")
            public.pop("releases")
            with reading("the parameters of a release", CorruptState):
                noise = noise_from_config(public["noise"])
                mechanism = _mechanism(public, noise)
            curator._set_up(public, noise=noise, mechanism=mechanism, objective=objective, secret=secret)
            curator._take_up(saved)
        return curator

    # -- publishing --------------------------------------------------------------------------------

    @in_turn
    def publish(
        self,
        directory: str | os.PathLike[str] | None = None,
        *,
        file_format: Literal["npy", "parquet"] = "npy",
    ) -> PublishedRows:
        """Return the published rows, which are the same at every call, and save them to `directory` if it is
        given.

        Raises:
            BudgetExceeded: the account's budget does not suffice; nothing was drawn.
            ProtocolError: the directory contains something else; nothing was charged or drawn.
            MissingExtra: pyarrow, which parquet needs, is not installed; nothing was charged or drawn.
        """
        if directory is not None:
            check_target(directory, file_format=file_format, release_id=self.release_id)
        if self._published is None:
            with self._locked():
                if self._secret is not None:
                    self._take_up(self._secret.load())  # another process may have been faster
                if self._published is None:
                    self._pay()
                    self._draw()
        if self._published is None:
            raise ProtocolError("nothing was drawn")  # _draw sets it
        if directory is not None:
            self._published.save(directory, file_format=file_format)
        return self._published

    @property
    def release_id(self) -> str:
        """Random name of the release."""
        return self._holder.lineage

    @property
    def guarantee(self) -> Guarantee:
        """Guarantee of the published rows and of the answers, by the logged terms of their release."""
        column = self._raw.answers is not None if self._raw is not None else "column" in self._kept()[0]
        past = tuple(self._holder.log)
        status = "simulated" if any(one["status"] == "simulated" for one in past) else self._noise.status
        paid = self._public["account"] is not None and all(one["charge"] is not None for one in past)
        released: dict[str, Any] = {
            "status": status,
            "witnessed": self._public["witnessed"] and all(one["witnessed"] for one in past),
            "budgeted": paid,
            "evaluated": not column,
        }
        if self._stated is None or self._stated[0] != released:
            stated = rows_guarantee(
                self._mechanism,
                privacy=self._privacy,
                scaling=self._scaling,
                counted=self._public["users"],
                rows=self._public["rows"],
                answers=self._answer_noise,
                cap=self.cap,
                pace=self._public["answer_after"],
                durable=self._secret is not None,
                **released,
            )
            self._stated = released, stated
        return self._stated[1]

    @property
    def cap(self) -> int:
        """Largest number of evaluations, including failed ones."""
        return int(self._public["cap"])

    # -- answers -----------------------------------------------------------------------------------

    @property
    def answered(self) -> list[tuple[int, float]]:
        """Pairs (row, answer) in the order in which answers were given."""
        return self._log.entries

    @property
    def unsafe_unreadable(self) -> int:
        """Number of unreadable rows, which are released like the centre. Only the curator may see it.

        It is 0 after the noise was drawn, when the table is no longer in memory.
        """
        return 0 if self._raw is None else self._raw.unreadable

    @property
    def unsafe_failures(self) -> list[str]:
        """Reasons of the evaluations that failed in this process. Only the curator may see them."""
        return list(self._failures)

    @in_turn
    def answer(self, row: int) -> float:
        """Return the answer of a published row: evaluated once, and durable before it is returned.

        If answers have noise, the middle of the public bounds replaces the answer after a failure of the
        objective, a time-out, or a value that is not finite. Only the curator's own records
        (`unsafe_failures`, `failures.log`) show this.

        Raises:
            ProtocolError: no row was published; there is no objective, or its program is not found, and
                nothing was evaluated; or answers are exact and the objective failed: ask again.
            UnknownDecision: the release has no such row.
            AlreadyTold: the row was answered before; `answer_again` repeats the answer.
            HorizonExceeded: the cap is reached; failed evaluations count towards it.
            ForkedState: another copy of the secret directory has answered; nothing was evaluated.
        """
        with self._locked():
            published, log = self._settled()
            number = published.number(row)
            if log.get(number) is not None:
                raise AlreadyTold(f"row {number} was answered before: each row is answered once")
            if log.evaluations >= self.cap:
                raise HorizonExceeded(
                    f"all {self.cap} answers of this release were given, or their evaluations failed"
                )
            objective = None if "column" in self._kept()[0] else ready(self._objective)
            with paced(self._public["answer_after"]):
                value = self._evaluate(number, objective)
                if self._answer_noise is not None:
                    exact, position = np.array([value]), len(log.entries)
                    value = float(self._answer_noise.privatize(exact, self._noise, position=position)[0])
                log.append(number, value)  # returns when the answer is on disk and witnessed
            return value

    @in_turn
    def answer_again(self, row: int) -> float:
        """Return the answer that was given for a row before, for a modeler that lost it.

        Raises:
            UnknownDecision: the row was not answered.
            ForkedState: another copy of the secret directory has answered.
        """
        with self._locked():
            published, log = self._settled()
            value = log.get(published.number(row))
        if value is None:
            raise UnknownDecision("this row was not answered: call answer first")
        return value

    def __repr__(self) -> str:
        published = self._published is not None
        promise = {"epsilon": self.guarantee.epsilon, "delta": self.guarantee.delta}
        release = self.release_id[:8]
        return said(self, **promise, release=release, rows=self._public["rows"], published=published)

    # -- inside ------------------------------------------------------------------------------------

    def _set_up(
        self,
        public: dict[str, Any],
        *,
        noise: NoiseSource,
        mechanism: RowMechanism,
        objective: Objective | Command | None,
        secret: SecretDirectory | None,
        raw: TableRows | None = None,
    ) -> None:
        nested = "an objective may not call the curator that is evaluating it"
        self._holder = Holder(self._describe, what="curator", nested=nested)
        self._public, self._noise, self._mechanism = public, noise, mechanism
        self._privacy = RowDP.from_config(public["privacy"])
        self._objective, self._secret, self._raw = objective, secret, raw
        answers = public["answers"]
        self._answer_noise = None if answers["type"] == "public" else AnswerLaplace.from_config(answers)
        self._failures: list[str] = []
        self._drawn: Drawn | None = None
        self._table: dict[str, str] | None = None
        self._published: PublishedRows | None = None
        self._scaling = PublicScaling.from_config(public["public_transform"])
        self._stated = None
        self._log = AnswerLog()

    def _locked(self) -> AbstractContextManager[None]:
        return nullcontext() if self._secret is None else self._secret.turn()

    def _plan(self, secret: SecretDirectory, rows: TableRows) -> None:
        """Commit a release id before anything is charged or drawn, or continue an unfinished release."""
        earlier: Saved | None = None
        with suppress(FileNotFoundError):
            earlier = secret.load()
        if earlier is None:
            if secret.ledger is not None and secret.account is not None:  # refuse before anything is stored
                secret.ledger.after(secret.account.name, cost=self._cost())
            salt = secrets.token_bytes(16)
            table = {"salt": salt.hex(), "digest": rows.digest(salt)}
            plan = self._public | {"releases": self._holder.log.to_json()}
            secret.begin(self._holder.lineage, plan, {"ids": None, "table": table})
            earlier = secret.load()
        finished, bound = bool(earlier.state.arrays), earlier.state.secret["table"]
        if finished and not secret.resume:
            raise ProtocolError("this directory holds a release already: use Curator.open")
        public = {name: value for name, value in earlier.state.public.items() if name != "releases"}
        if public != json.loads(json.dumps(self._public)):
            kind = "finished" if finished else "unfinished"
            raise ProtocolError(f"the {kind} release in this directory has other parameters")
        if rows.digest(bytes.fromhex(bound["salt"])) != bound["digest"]:
            raise ProtocolError("the release in this directory has another table: pass another directory")
        self._take_up(earlier)

    def _take_up(self, saved: Saved) -> None:
        """Restore the state in the directory; if noise was drawn, open the release for answers."""
        name, ledger = self._public["account"], saved.ledger
        paying = None if name is None or ledger is None else Account(ledger, name)
        self._holder.take_up(saved, account=paying)
        self._table = saved.state.secret["table"]
        self._holder.log = ReleaseLog.from_json(saved.state.public["releases"])
        if saved.state.arrays:
            self._drawn = saved.state.arrays, saved.state.secret["ids"]
        uses = self._uses(drawn=bool(saved.state.arrays))
        # A record describes the protection of one row, not of all rows of a person.
        check_releases(self._holder.log, uses, privacy=self._mechanism.definition)
        if saved.state.arrays:
            self._open()

    def _uses(self, *, drawn: bool) -> list[Release]:
        """Return all purposes of noise; the number of answers is in the log of answers."""
        used = zip(RELEASES, self.guarantee.mechanisms, strict=False)  # exact answers have no noise
        return [
            Release(purpose=purpose, record=record, noise=self._noise, drawn=int(drawn), charge="")
            for purpose, record in used
        ]

    def _pay(self) -> None:
        """Charge the account for positions and answers, once, under the release's id."""
        if self._holder.charged:
            self._holder.charge(cost=self._cost())

    def _cost(self) -> Cost:
        guarantee, cost = self.guarantee, cost_of_rows(self._privacy, self._answer_noise)
        if guarantee.certificate is None:
            raise ProtocolError("the guarantee has no certificate")  # rows_guarantee always makes one
        promise = replace(self._privacy, epsilon=guarantee.epsilon)
        proven = cost_of(guarantee.certificate, privacy=promise, status=guarantee.status, unit=cost.unit)
        return replace(proven, epsilon=cost.epsilon)

    def _draw(self) -> None:
        """Add noise to the raw rows, make the release durable, and discard the table."""
        if self._raw is None:
            raise ProtocolError("the table is not in memory: repeat the constructor with the table")
        if self._secret is not None:
            AnswerLog.create(self._secret.answers, self.release_id, ledger=self._secret.ledger)
        for use in self._uses(drawn=True):
            terms = terms_of_release(use.record, use.noise)
            self._holder.record(use.purpose, 0, terms, charge=use.charge)
        if self._drawn is None:  # after a failed commit, the same draw is committed again
            self._drawn = self._raw.draw(self._mechanism, self._noise)
        self._holder.commit()
        self._open()

    def _describe(self, lineage: str, position: int) -> State:
        arrays, ids = self._kept()
        return State(
            kind=KIND,
            version=VERSION,
            lineage=lineage,
            position=position,
            public=self._public | {"releases": self._holder.log.to_json()},
            secret={"ids": ids, "table": self._table},
            arrays=arrays,
        )

    def _open(self) -> None:
        """Open the drawn release for rows and answers; its log must exist."""
        arrays, _ = self._kept()
        if self._secret is not None:
            self._log = AnswerLog.open(self._secret.answers, self.release_id, ledger=self._secret.ledger)
        public = self._public
        self._published = PublishedRows(
            release_id=self.release_id,
            inputs=np.asarray(arrays["inputs"], dtype=np.float64),
            law=law_from_config(public["noise_law"]),
            half_width=public["half_width"],
            guarantee=self.guarantee,
            mechanism=public["mechanism"],
            transform=public["public_transform"],
            answers=public["answers"],
            cap=public["cap"],
        )
        self._raw = None

    def _kept(self) -> Drawn:
        if self._drawn is None:
            raise ProtocolError("nothing was published yet: call publish() first")
        return self._drawn

    def _settled(self) -> tuple[PublishedRows, AnswerLog]:
        """Return published rows and log of answers, after reading the answers of other processes."""
        if self._published is None:
            raise ProtocolError("nothing was published yet: call publish() first")
        self._log.settle()
        return self._published, self._log

    def _evaluate(self, row: int, objective: Objective | Command | None) -> float:
        """Return a row's answer before noise; after a failure the middle of the bounds, if noise is added.

        Without an objective the answer is read from the table's column.
        """
        arrays, ids = self._kept()
        place = int(arrays["table_rows"][row])
        if objective is None:
            value = float(arrays["column"][place])
            if np.isfinite(value):
                return value
            if self._answer_noise is not None:  # no write, which would take visible time
                self._failures.append(f"row {row} was answered as the middle of the bounds: it has no answer")
                return self._answer_noise.middle
        self._log.append(row)  # counts against the cap from now on
        try:
            own = place if ids is None else ids[place]
            if objective is None or own is None:
                raise ProtocolError("the row has no finite answer, or shares its id or has none")
            return evaluated(objective, own, pace=self._public["answer_after"])
        except ProtocolError as failure:
            if self._answer_noise is None:
                raise
            reason = f"row {row} was answered as the middle of the bounds: {failure}"
            self._failures.append(reason)
            if self._secret is not None:
                with suppress(OSError):  # a full disk must not change what the modeler sees
                    self._secret.note(reason)
            return self._answer_noise.middle


def _mechanism(public: Mapping[str, Any], noise: NoiseSource) -> RowMechanism:
    described = public["mechanism"]
    return choose_row_mechanism(
        definition=RowDP.from_config(public["privacy"]).each_row,
        n=public["rows"],
        dim=described["dim"],
        half_width=public["half_width"],
        noise=noise,
        mechanism=described["type"],
        cells_per_dimension=described.get("cells_per_dimension"),
    )


def _directory(secret: str | os.PathLike[str] | SecretDirectory) -> SecretDirectory:
    return secret if isinstance(secret, SecretDirectory) else SecretDirectory(secret)


def _callable(objective: Objective | Command | None) -> Objective | Command | None:
    if objective is None or callable(objective):
        return objective
    raise InvalidParameter(
        f"objective is a {type(objective).__name__}: pass a function of a row's id, a Command, or, with the "
        "table, the name of a column"
    )
