"""Learning from a table once: one charge, one draw of noise and one folder, also after interruptions.

The public folder OUT has a companion OUT.private, of mode 0700. It contains a secret key and, computed with
the key, the fingerprint of table and options, which distinguishes a repetition of this run from another run.
Nobody else may read OUT.private, since the key allows testing guesses of the table. The steps are, each on
disk before the next:

1. The run gets a random name, stored in OUT.private.
2. The ledger's account pays for everything at once, under that name. The charge holds the certificates of
   the context histogram and the release; a bare account is charged the promise. See `cost_of_publishing`.
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
    ledger = witness_of(account)
    log.covered(privacy, uniform_contexts=uniform_contexts)
    out = Path(directory).resolve()
    private = folder_of_run(out)
    if is_taken(out) and not (private / _RUN).is_file():
        raise InvalidParameter(_OTHER_RUN)
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
            raise InvalidParameter(_OTHER_RUN)
        if is_taken(out):
            if not run.release:  # the folder has other content: this run has not made its release yet
                raise InvalidParameter(_OTHER_RUN)
            return _known(PublishedTable.load(out), run)
        staged = private / "release"
        published = _complete_release(staged)
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


def _complete_release(staged: Path) -> PublishedTable | None:
    """Return the release in a folder that was written before an interruption; None if it is incomplete."""
    with suppress(CorruptState):
        return PublishedTable.load(staged)
    return None


def _known(published: PublishedTable, run: _Run) -> PublishedTable:
    if run.release not in ("", published.release_id):
        raise CorruptState("the folder holds another release than the one that this run has made")
    return published


def _witnessed(published: PublishedTable) -> PublishedTable:
    """Return a copy whose statement says that the ledger lets only one copy of the run continue."""
    found = published.function.guarantee
    unchecked = one_copy(witnessed=False)
    stated = (one_copy(witnessed=True) if one == unchecked else one for one in found.assumptions)
    function = published.function.under(replace(found, assumptions=tuple(stated)))
    return replace(published, function=function)
