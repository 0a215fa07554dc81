"""Learning from a table once: whatever interrupts, one charge, one draw and one folder.

Beside the public folder OUT stands OUT.private, of mode 0700, which tells a repetition of this run from
another run: a secret key, and under it the fingerprint of table and options. It is not for others: whoever
has it can try out tables. Steps, each on disk before the next:

1. the run gets a random name, kept in OUT.private;
2. the ledger's account pays for all of it at once, under that name: the histogram of contexts and the release
   by what proves them, or a bare account the promise; see `cost_of_publishing`;
3. noise is drawn, and all files of the release are written to OUT.private/release;
4. the ledger witnesses the release's digest, under that name, and OUT.private notes it;
5. OUT.private/release is renamed to OUT.

The same run again goes on where it stopped: after 1 or 2 it is charged under the same name, so once, and
draws, for what was drawn before has not left; after 3 what was drawn is what comes out; after 5 it is read.
Where what was drawn has been noted and is gone, the run is refused. Another run for the same OUT is refused
at once. Of two copies of OUT.private only one reaches step 5 where there is a ledger.
"""

import json
import secrets
import shutil
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

from dpbandits._calls import worded
from dpbandits._reading import json_object, reading
from dpbandits.budget import Account
from dpbandits.central.logged.logged_table import (
    LoggedTable,
    PublishedTable,
    is_taken,
)
from dpbandits.errors import BudgetExceeded, CorruptState, InvalidParameter, StateError
from dpbandits.privacy.definitions import JointDP
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

__all__ = ["folder_of_run", "publish_once"]


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
    """Spend the promise, or go on where this very run stopped, and leave the release in a folder.

    Args:
        log: the table.
        directory: OUT; missing, empty, or written by the same run.
        privacy, horizon, bound, uniform_contexts: as `LoggedTable.publish` takes them.
        account: charged for all of it at once, before anything is drawn.

    Raises:
        InvalidParameter: the folder is another run's; nothing was charged.
        BudgetExceeded: the account cannot pay for all of it; nothing was charged and nothing drawn.
        StateError: another process is at it, others may write to OUT.private, or what was drawn is lost.
        ForkedState: another copy of OUT.private has made its release.
    """
    ledger = witness_of(account)
    log.covered(privacy, uniform_contexts=uniform_contexts)
    out = Path(directory).resolve()
    private = folder_of_run(out)
    if is_taken(out) and not (private / _RUN).is_file():
        raise InvalidParameter(_ANOTHER)
    private_folder(private, what="the folder of the run")
    with locked(private / "lock", wait=False):
        options: dict[str, Any] = {"horizon": horizon, "bound": bound, "uniform_contexts": uniform_contexts}
        told = {**options, "account": None if account is None else account.name}
        run = _Run.read(private)
        if run is None:
            run = _Run(secrets.token_hex(16), secrets.token_hex(32))
            run = replace(run, same=log.fingerprint(bytes.fromhex(run.key), privacy, **told))
            run.write(private)
        elif not secrets.compare_digest(run.same, log.fingerprint(bytes.fromhex(run.key), privacy, **told)):
            raise InvalidParameter(_ANOTHER)
        if is_taken(out):
            if not run.release:  # whatever it is, this run has made none yet
                raise InvalidParameter(_ANOTHER)
            return _known(PublishedTable.load(out), run)
        staged = private / "release"
        published = _whole(staged)
        if published is None:
            if run.release or (ledger is not None and ledger.last(run.name) is not None):
                raise StateError(
                    f"this run has made its release, and its folder is gone: restore it. To make another, at "
                    f"a further charge, remove {private.name} beside it"
                )
            if account is not None:
                try:
                    cost = log.cost(privacy, **options)
                    account.ledger.charge(account.name, charge_id=f"learn:{run.name}", cost=cost)
                except (BudgetExceeded, InvalidParameter):
                    shutil.rmtree(private, ignore_errors=True)  # nothing was charged: another run may begin
                    raise
            shutil.rmtree(staged, ignore_errors=True)
            published = log.publish(privacy, **options)
            if ledger is not None:
                published = _witnessed(published)
            write_folder(staged, published.to_files())
        _known(published, run)
        if ledger is not None:
            ledger.advance(run.name, position=1, digest=published.release_id)
        replace(run, release=published.release_id).write(private)
        replace_durably(staged, out)
        sync_directory(private)
    return published


def folder_of_run(out: Path) -> Path:
    """OUT.private; InvalidParameter where OUT is the root of all folders."""
    if not out.name:
        raise InvalidParameter(_ANOTHER)
    return out.with_name(f"{out.name}.private")


_RUN = "run.json"
_ANOTHER = (
    "the folder is there already, or a run for it was begun, with another table or other options; no release "
    "is overwritten: name another folder"
)


@dataclass(frozen=True)
class _Run:
    """What OUT.private knows: a name, a key, the fingerprint under it, and the release once it is drawn."""

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


def _whole(staged: Path) -> PublishedTable | None:
    """The release that was written before an interruption, if all of it is there."""
    with suppress(CorruptState):
        return PublishedTable.load(staged)
    return None


def _known(published: PublishedTable, run: _Run) -> PublishedTable:
    if run.release not in ("", published.release_id):
        raise CorruptState("the folder holds another release than the one that this run has made")
    return published


def _witnessed(published: PublishedTable) -> PublishedTable:
    """What it says where a ledger lets only one copy of the run go on."""
    found = published.function.guarantee
    unchecked = one_copy(witnessed=False)
    stated = (one_copy(witnessed=True) if one == unchecked else one for one in found.assumptions)
    function = published.function.under(replace(found, assumptions=tuple(stated)))
    return replace(published, function=function)
