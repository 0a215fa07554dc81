"""Learning from a log, or evaluating policies on it, once: one charge, one draw of noise and one folder.

This also holds after interruptions. The public folder OUT has a companion OUT.private, of mode 0700. It
contains a secret key and, computed with the key, the fingerprint of table and options, which distinguishes a
repetition of this run from another run. Nobody else may read OUT.private, since the key allows testing
guesses of the table. The steps are, each on disk before the next:

1. The run gets a random name, stored in OUT.private.
2. The ledger's account pays for everything at once, under that name. The charge holds the certificates of
   everything that is drawn; a bare account is charged the promise. See `cost_of_publishing`.
3. Noise is drawn, and all files of the release are written to OUT.private/release.
4. The ledger witnesses the release's digest under that name, and OUT.private records it.
5. OUT.private/release is renamed to OUT.

A repetition of the same run continues after the last finished step:

- after 1 or 2, it charges under the same name, so only once, and draws noise; noise of the interrupted run
  was never published;
- after 3 or 4, it uses the noise that was drawn;
- after 5, it reads OUT.

A run whose release was recorded but is lost is refused. Another run for the same OUT is refused at once. If
there is a ledger, only one of two copies of OUT.private reaches step 5.
"""

import json
import secrets
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from dpbandits import _checks
from dpbandits._calls import worded
from dpbandits._reading import json_object, reading
from dpbandits.budget import Account, Cost
from dpbandits.central.logged.evaluation import Evaluation, PrivateValues
from dpbandits.central.logged.logged_table import Bounds, LoggedTable
from dpbandits.central.logged.published_table import PublishedTable, is_taken
from dpbandits.central.logged.source_log import opened_log
from dpbandits.central.logged.terms import Method
from dpbandits.central.published_function import PublishedFunction
from dpbandits.domains import RewardRange
from dpbandits.domains.arms import Label
from dpbandits.errors import BudgetExceeded, CorruptState, InvalidParameter, StateError
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.privacy.moments import NoiseLaw
from dpbandits.privacy.sentences import one_copy
from dpbandits.state.files import (
    locked,
    private_folder,
    replace_durably,
    sync_directory,
    write_durably,
    write_folder,
)
from dpbandits.state.witness import witness_of

__all__ = ["evaluate", "folder_of_run", "publish_once"]


class Released(Protocol):
    """Result of a run: public, and written to a folder."""

    @property
    def release_id(self) -> str:
        """Digest of the release."""

    def to_files(self) -> dict[str, bytes]:
        """Return the files of the folder, by name."""


R = TypeVar("R", bound=Released)


@dataclass(frozen=True, kw_only=True)
class Work(Generic[R]):
    """A release that is to be made once.

    Args:
        purpose: Word with which the charge's id begins.
        fingerprint: Function from a secret key to a digest of data and arguments.
        cost: Function that returns the cost of `draw`.
        draw: Function that draws noise and returns the release, from the run's secret key.
        load: Function that reads a folder which holds `to_files()` of a release.
        witnessed: Function that changes the guarantee of a release by another function.
    """

    purpose: str
    fingerprint: Callable[[bytes], str]
    cost: Callable[[], Cost]
    draw: Callable[[bytes], R]
    load: Callable[[Path], R]
    witnessed: Callable[[R, Callable[[Guarantee], Guarantee]], R]


@worded
def publish_once(
    log: LoggedTable,
    directory: str | PathLike[str],
    privacy: JointDP,
    *,
    horizon: int,
    bound: float | None = None,
    uniform_contexts: bool = False,
    account: Account | None = None,
) -> PublishedTable:
    """Publish a table's function to a folder, or continue this run where it was interrupted.

    Args:
        log: Table to learn from.
        directory: Folder OUT; missing, empty, or written by the same run.
        privacy, horizon, bound, uniform_contexts: As for `LoggedTable.publish`.
        account: Account that is charged for everything at once, before noise is drawn.

    Raises:
        InvalidParameter: The folder belongs to another run; nothing was charged.
        BudgetExceeded: The account has too little budget; nothing was charged and nothing drawn.
        StateError: Another process works on the folder, other users may write to OUT.private, or the release
            is lost.
        ForkedState: Another copy of OUT.private has made its release.
    """
    _checks.an(log, LoggedTable, name="log", pass_="log=LoggedTable.of_people(...)")
    log.covered(privacy, uniform_contexts=uniform_contexts)
    options: dict[str, Any] = {"horizon": horizon, "bound": bound, "uniform_contexts": uniform_contexts}
    told = {**options, "account": None if account is None else account.name}
    work = Work(
        purpose="learn",
        fingerprint=lambda key: log.fingerprint(key, privacy, **told),
        cost=lambda: log.cost(privacy, **options),
        draw=lambda key: log.publish(privacy, key=key, **options),
        load=PublishedTable.load,
        witnessed=lambda table, change: replace(
            table, function=table.function.under(change(table.function.guarantee))
        ),
    )
    return released_once(work, directory, account=account)


@worded
def evaluate(
    policies: PublishedFunction | PublishedTable | Mapping[str, PublishedFunction | PublishedTable],
    log: object,
    directory: str | PathLike[str],
    privacy: JointDP,
    *,
    against: Label,
    method: Method = "doubly_robust",
    largest_weight: float | None = None,
    law: NoiseLaw | None = None,
    account: Account | None = None,
    action: str | None = None,
    reward: str | None = None,
    reward_range: RewardRange | Bounds | None = None,
    propensity: str | None = None,
    user: str | None = None,
    clip: bool = False,
    memory: int | None = None,
    threads: int | None = None,
    progress: bool = False,
) -> PrivateValues:
    """Release the values of published policies on a log once, or continue this run where it was interrupted.

    The log should be of people from whom no policy was learned. Otherwise values are too high, and the
    promises of both releases add up.

    The log is a `LoggedTable`, or a table whose rows an engine adds up, and none is loaded. With an engine a
    repetition continues the same run under the same charge, and does not compare the table, as for `learn`.

    Args:
        policies: A published policy, or several by name. Each further one makes the noise larger.
        log: Log of contexts and arms with known propensities: a `LoggedTable`, or any source of `learn`.
        directory: Folder OUT for the values; missing, empty, or written by the same run.
        privacy: Promise. Of each person's rows `rounds_per_user` count, chosen by a secret.
        against: Label of the constant arm with which policies are compared.
        method: "doubly_robust", which predicts rewards by the first policy, or "ips".
        largest_weight: Public bound M of inverse propensities; default: the number of arms, or twice that if
            the log has propensities. Rows with larger inverse propensities count less, which hides what rare
            arms earn. Noise is in proportion to M.
        law: Law of the noise, "laplace" or "gaussian"; None for the smaller noise. If an account pays for
            several releases, Gaussian noise may use much less of it.
        account: Account that is charged before noise is drawn.
        action, reward: Names of the log's columns; default: those of the table from which the first policy
            was learned. These and all further arguments are for tables in an engine.
        reward_range: Public range (low, high); default: that of the first policy.
        propensity: Name of the column with propensities; None if arms were drawn uniformly.
        user, clip, memory, threads, progress: As for `learn`.

    Raises:
        InvalidParameter: Arguments do not fit, an engine cannot compute a policy's decisions, or the folder
            belongs to another run; nothing was charged.
        InvalidData: The table lacks a column; nothing was charged.
        DataUnavailable: The table cannot be opened, or the engine failed. A repetition charges nothing more.
        BudgetExceeded, StateError, ForkedState: As for `publish_once`.
        MissingExtra: The engine is not installed.
    """
    named = {"policy": policies} if isinstance(policies, PublishedFunction | PublishedTable) else policies
    _checks.an(named, Mapping, name="policies", pass_="a published policy, such as policy.publish()")
    terms: dict[str, Any] = {
        "policies": {
            name: one.function if isinstance(one, PublishedTable) else one for name, one in named.items()
        },
        "privacy": privacy,
        "against": against,
        "method": method,
        "largest_weight": largest_weight,
        "law": law,
    }
    if isinstance(log, LoggedTable):
        for_sources = (action, reward, reward_range, propensity, user, memory, threads)
        if clip or progress or any(one is not None for one in for_sources):
            raise InvalidParameter(
                "a LoggedTable has its columns: pass no action=, reward= and so on beside it"
            )
        return _evaluated_once(Evaluation(log=log, **terms), directory, account)
    if not named:
        raise InvalidParameter("policies: expected at least one")
    first = next(iter(named.values()))
    function = _checks.an(
        first.function if isinstance(first, PublishedTable) else first,
        PublishedFunction,
        name="policies",
        pass_="a published policy, such as policy.publish()",
    )
    action = first.action if action is None and isinstance(first, PublishedTable) else action
    reward = first.reward if reward is None and isinstance(first, PublishedTable) else reward
    span = getattr(function, "reward_range", None) if reward_range is None else reward_range
    if function.menu is None or function.menu.actions is not None:
        raise InvalidParameter("policies: expected policies with contexts= and arms=")
    if action is None or reward is None or span is None:
        raise InvalidParameter(
            "action, reward, reward_range: name the columns of the log, and the public range"
        )
    with opened_log(
        log,
        function.menu,
        action=action,
        reward=reward,
        reward_range=span,
        propensity=propensity,
        user=user,
        clip=clip,
        memory=memory,
        threads=threads,
        progress=progress,
    ) as held:
        return _evaluated_once(Evaluation(log=held, **terms), directory, account)


def _evaluated_once(
    work: Evaluation, directory: str | PathLike[str], account: Account | None
) -> PrivateValues:
    name = None if account is None else account.name
    run: Work[PrivateValues] = Work(
        purpose="evaluate",
        fingerprint=lambda key: work.fingerprint(key, account=name),
        cost=work.cost,
        draw=work.release,
        load=PrivateValues.load,
        witnessed=lambda values, change: values.under(change(values.guarantee)),
    )
    return released_once(run, directory, account=account)


def released_once(work: Work[R], directory: str | PathLike[str], *, account: Account | None) -> R:
    """Make a release in a folder, or continue it where it was interrupted; see the module for the steps."""
    ledger = witness_of(account)
    out = Path(directory).resolve()
    private = folder_of_run(out)
    if is_taken(out) and not (private / _RUN).is_file():
        raise InvalidParameter(_OTHER_RUN)
    private_folder(private, what="the folder of the run")
    with locked(private / "lock", wait=False):
        run = _Run.read(private)
        if run is None:
            run = _Run(secrets.token_hex(16), secrets.token_hex(32))
            run = replace(run, same=work.fingerprint(bytes.fromhex(run.key)))
            run.write(private)
        elif not secrets.compare_digest(run.same, work.fingerprint(bytes.fromhex(run.key))):
            raise InvalidParameter(_OTHER_RUN)
        if is_taken(out):
            if not run.release:  # the folder has other content: this run has not made its release yet
                raise InvalidParameter(_OTHER_RUN)
            return _known(work.load(out), run)
        staged = private / "release"
        released = _complete_release(work, staged)
        if released is None:
            if run.release or (ledger is not None and ledger.last(run.name) is not None):
                raise StateError(
                    f"this run has made its release, and its folder is gone: restore it. To make another, at "
                    f"a further charge, remove {private.name} beside it"
                )
            if account is not None:
                try:
                    charge = f"{work.purpose}:{run.name}"
                    account.ledger.charge(account.name, charge_id=charge, cost=work.cost())
                except (BudgetExceeded, InvalidParameter):
                    shutil.rmtree(private, ignore_errors=True)  # nothing was charged: another run may begin
                    raise
            shutil.rmtree(staged, ignore_errors=True)
            released = work.draw(bytes.fromhex(run.key))
            if ledger is not None:
                released = work.witnessed(released, _witnessed)
            write_folder(staged, released.to_files())
        _known(released, run)
        if ledger is not None:
            ledger.advance(run.name, position=1, digest=released.release_id)
        replace(run, release=released.release_id).write(private)
        replace_durably(staged, out)
        sync_directory(private)
    return released


def folder_of_run(out: Path) -> Path:
    """Return OUT.private. Raises `InvalidParameter` if OUT is the root of the file system."""
    if not out.name:
        raise InvalidParameter(_OTHER_RUN)
    return out.with_name(f"{out.name}.private")


_RUN = "run.json"
_OTHER_RUN = (
    "the folder is there already, or a run for it was begun, with another table or other options; no release "
    "is overwritten: name another folder"
)


@dataclass(frozen=True)
class _Run:
    """Content of OUT.private: run name, key, fingerprint, and the release's digest if it was drawn."""

    name: str
    key: str
    same: str = ""
    release: str = ""

    @classmethod
    def read(cls, private: Path) -> "_Run | None":
        try:
            data = (private / _RUN).read_bytes()
        except FileNotFoundError:
            return None
        with reading("the notes of a run", CorruptState):
            fields = json_object(data.decode(), "the notes of a run", CorruptState)
            bytes.fromhex(fields["key"])
            return cls(**{name: str(fields[name]) for name in ("name", "key", "same", "release")})

    def write(self, private: Path) -> None:
        unfinished = private / f"{_RUN}.new"
        write_durably(unfinished, json.dumps(asdict(self)).encode(), renamed=True)
        replace_durably(unfinished, private / _RUN)


def _complete_release(work: Work[R], staged: Path) -> R | None:
    """Return the release in a folder that was written before an interruption; None if it is incomplete."""
    with suppress(CorruptState):
        return work.load(staged)
    return None


def _known(released: R, run: _Run) -> R:
    if run.release not in ("", released.release_id):
        raise CorruptState("the folder holds another release than the one that this run has made")
    return released


def _witnessed(found: Guarantee) -> Guarantee:
    """Return a guarantee that says that the ledger lets only one copy of the run continue."""
    unchecked = one_copy(witnessed=False)
    stated = (one_copy(witnessed=True) if one == unchecked else one for one in found.assumptions)
    return replace(found, assumptions=tuple(stated))
