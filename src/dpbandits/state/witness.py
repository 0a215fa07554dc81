r"""Append-only witnesses: who remembers how far a ledger has gone when its file does not.

A ledger is a file, and a file can be deleted, restored from a backup or swapped for an older copy: what was
charged since is budget again. A witness is kept where whoever can do that cannot reach. It remembers, for
each lineage, one position and one digest, and only ever goes one further. A ledger that names one
(`SQLiteLedger(path, witness=...)`) tells it every charge and every advance, as a digest under a secret salt.

The interface is that of a ledger's own witness, so another ledger may serve as well.

- `FileWitness(folder)`: a file a lineage, appended to, on another disk, mount or account than the ledger.

What somebody gains who can stop or delay answers, or refuse
------------------------------------------------------------
A ledger writes a charge to its own disk first, then tells the witness, and the call returns after both; see
`dpbandits.budget.sqlite` for the crash table. So whoever sits on the line

- **stops** the ledger's users: without an answer no call succeeds, and nothing is released. Each interrupted
  call may leave one charge paid for and unused; repeated under its id it is that charge, so that no number of
  time-outs spends more than one charge an id, or releases anything unpaid;
- **learns** when something is charged or saved and how often (the position), and nothing of what: digests
  have 256 bits under a salt that stays in the ledger's file. To refuse or to delay teaches no more than to
  watch: the repeated call carries the same position and digest;
- **cannot roll back**: an old answer played again (TLS prevents it) lies behind the file either by more than
  the last event, which is refused, or by just that one, which is then told anew.

Whoever owns the witness *and* the ledger's file can do all of it: a witness that forgets on purpose protects
nobody. Nor does a witness see a release that was never charged.
"""

import errno
import hashlib
import json
import os
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from dpbandits import _checks
from dpbandits._seen import Seen
from dpbandits.errors import CorruptState, ForkedState, InvalidParameter, StateError
from dpbandits.state.container import LARGEST_POSITION
from dpbandits.state.files import (
    locked,
    open_regular,
    open_to_write,
    refuse_if_others_write,
    sync_directory,
    write_through,
)

__all__ = [
    "Account",
    "AppendOnlyWitness",
    "FileWitness",
    "Payer",
    "Witness",
    "check_advance",
    "check_name",
    "new_witness",
    "witness_of",
]


class Witness(NamedTuple):
    """The last committed position of a lineage, and the digest of the state there."""

    position: int
    digest: str


def check_name(name: object, *, what: str) -> None:
    """Refuse what is no public name."""
    if not isinstance(name, str) or not name or not name.isprintable():
        raise InvalidParameter(f"{what} must be a non-empty printable string")


def new_witness(lineage: str, position: int, digest: str) -> Witness:
    """A witness, its arguments checked."""
    check_name(lineage, what="a lineage")
    check_name(digest, what="a digest")
    if type(position) is not int or not 0 <= position <= LARGEST_POSITION:
        raise InvalidParameter("position must be an integer from 0 to 2**63 - 1")
    return Witness(position, digest)


def check_advance(last: Witness | None, new: Witness) -> None:
    """The compare in compare-and-set: ForkedState unless `new` repeats or follows `last`."""
    if last is None or new == last or new.position == last.position + 1:
        return
    raise ForkedState(
        f"the ledger has witnessed position {last.position} of this state and cannot take position "
        f"{new.position}: another copy has gone on, load the state where that copy keeps it"
    )


class AppendOnlyWitness(Protocol):
    """Remembers how far each lineage has gone; every ledger is one, too."""

    @abstractmethod
    def last(self, lineage: str) -> Witness | None:
        """The last witness of a lineage, or None when it was never seen.

        Raises:
            StateError: no answer could be had.
        """

    @abstractmethod
    def advance(self, lineage: str, *, position: int, digest: str) -> None:
        """Remember `digest` at `position`, durably, compare-and-set; see `Ledger.advance`.

        Raises:
            ForkedState: the lineage has gone on, or another digest was witnessed there.
            StateError: no answer could be had; whether it was remembered, `last` says.
        """


class Payer(Seen, AppendOnlyWitness):
    """Ledger of a saved object: it pays for releases, and witnesses how far the object's state has gone.

    `dpbandits.budget.Ledger` is the one that there is.
    """

    @abstractmethod
    def charge(self, account: str, *, charge_id: str, cost: Any) -> Any:
        """See `Ledger.charge`."""

    @abstractmethod
    def balance(self, account: str) -> Any:
        """See `Ledger.balance`."""

    @abstractmethod
    def charged(self, account: str, charge_id: str) -> Any:
        """See `Ledger.charged`."""


@dataclass(frozen=True)
class Account:
    """An account of a ledger: it pays for releases. `Ledger.account(name)` and `open_account` give one.

    Args:
        ledger: the ledger, which also witnesses how far a saved state has gone.
        name: the account's name, public.
    """

    ledger: Payer
    name: str

    def __post_init__(self) -> None:
        _checks.an(self.ledger, Payer, name="ledger", pass_='account=ledger.account("people")')
        check_name(self.name, what="an account's name")


def witness_of(account: Account | None, ledger: Payer | None = None) -> Payer | None:
    """The ledger that witnesses: the account's, or `ledger` where nothing is paid.

    Raises:
        InvalidParameter: an argument is of another kind, or the account is another ledger's.
    """
    _checks.an(account, Account, name="account", pass_='account=ledger.account("people")', optional=True)
    _checks.an(ledger, Payer, name="ledger", pass_='ledger=SQLiteLedger("budget.ledger")', optional=True)
    if account is None:
        return ledger
    if ledger is not None and ledger is not account.ledger:
        raise InvalidParameter("account, ledger: the account is another ledger's; pass the account alone")
    return account.ledger


class FileWitness:
    """Append-only files in a folder, one a lineage, of mode 0600; lines are only ever added.

    Each line holds position, digest and a checksum. A line that a crash left unfinished is passed over; a
    finished one that was changed is `CorruptState`. Any number of processes may share the folder. Keep it
    where whoever restores the ledger's disk does not restore it as well; on Linux `chattr +a` on the files
    makes the system refuse anything but appending.

    Args:
        folder: an existing folder that others cannot write to.

    Example:
        >>> import tempfile
        >>> witness = FileWitness(tempfile.mkdtemp())
        >>> witness.advance("study", position=0, digest="ab")
        >>> witness.last("study")
        Witness(position=0, digest='ab')
    """

    def __init__(self, folder: str | PathLike[str]) -> None:
        self._folder = Path(folder).resolve()
        if not self._folder.is_dir():
            raise StateError("the witness's folder does not exist: create it, or mount it, first")
        refuse_if_others_write(self._folder, what="the witness's folder")

    def last(self, lineage: str) -> Witness | None:
        """See `AppendOnlyWitness.last`."""
        path = self._path(lineage)
        with self._turn():
            return self._last(path, lineage)[0]

    def advance(self, lineage: str, *, position: int, digest: str) -> None:
        """See `AppendOnlyWitness.advance`."""
        new = new_witness(lineage, position, digest)
        path = self._path(lineage)
        with self._turn():
            last, finished = self._last(path, lineage)
            check_advance(last, new)
            # A line that is there already may have been written by a process that died before syncing it.
            line = b""
            if new != last or not finished:
                line = json.dumps([*new, _check(lineage, new)]).encode() + b"\n"
            descriptor = open_to_write(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            try:
                write_through(descriptor, line if finished else b"\n" + line)
            finally:
                os.close(descriptor)
            sync_directory(path.parent)

    def __repr__(self) -> str:
        return "FileWitness()"

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """One process at a time; what the disk refuses is a witness that did not answer."""
        try:
            with locked(self._folder / "witness.lock"):
                yield
        except OSError as error:
            reason = errno.errorcode.get(error.errno or 0, "unknown error")
            raise StateError(
                f"the witness's folder could not be used ({reason}): nothing may leave before it can; "
                "repeat the call, which is safe"
            ) from None

    def _path(self, lineage: str) -> Path:
        new_witness(lineage, 0, "-")  # checks the name
        return self._folder / f"{hashlib.sha256(lineage.encode()).hexdigest()[:32]}.witness"

    def _last(self, path: Path, lineage: str) -> tuple[Witness | None, bool]:
        """The last witness, and whether the file ends with a finished line (or is empty)."""
        refuse_if_others_write(path, what="a file of the witness")
        try:
            with open_regular(path) as (file, size):
                reach = 4096
                while True:
                    file.seek(max(0, size - reach))
                    tail = file.read()
                    whole = tail if reach >= size else tail.partition(b"\n")[2]
                    for line in reversed(whole.split(b"\n")):
                        if line.endswith(b"]"):
                            return _read(line, lineage), tail.endswith(b"\n")
                    if reach >= size:
                        return None, not tail or tail.endswith(b"\n")
                    reach *= 4
        except FileNotFoundError:
            return None, True


def _read(line: bytes, lineage: str) -> Witness:
    try:
        position, digest, check = json.loads(line)
        witness = new_witness(lineage, position, digest)
    except (ValueError, TypeError, RecursionError):  # InvalidParameter is a ValueError
        witness, check = None, None
    if witness is None or check != _check(lineage, witness):
        raise CorruptState("the last line of the witness was changed: find out by whom, then restore it")
    return witness


def _check(lineage: str, witness: Witness) -> str:
    return hashlib.blake2b(repr((lineage, *witness)).encode(), digest_size=8).hexdigest()
