r"""Witnesses: external append-only counters that detect a rollback of a ledger.

A ledger is a file. If it is deleted, restored from a backup or replaced by an older copy, charges since that
copy are forgotten, and their budget could be spent again. A witness is stored where the people and programs
that could do this have no access. For each lineage it stores a position, which only grows by one at a time,
and a digest. `SQLiteLedger(path, witness=...)` reports every charge and every advance to its witness, as a
digest with a secret salt.

- `AppendOnlyWitness`: the interface of witnesses. Ledgers have this interface, too, so a ledger can be the
  witness of another ledger.
- `FileWitness(folder)`: an append-only file for each lineage, on another disk, mount or account than the
  ledger.

Attacks on the connection
-------------------------
A ledger writes a charge to its own disk, then reports it to the witness, and returns after both; the crash
table is in `dpbandits.budget.sqlite`. An attacker who can stop, delay or refuse the witness's answers

- **can stop** the programs that use the ledger. Without an answer no call succeeds, and nothing is released.
  Each interrupted call may leave one charge that is paid for and unused. Repeating the call under the same
  id uses that charge. So no number of time-outs spends more than one charge per id, or releases anything
  unpaid;
- **learns** when and how often something is charged or saved (the position), and nothing else. Digests have
  256 bits and a salt that stays in the ledger's file. Refusing or delaying shows no more than watching, as
  the repeated call has the same position and digest;
- **cannot roll back**. TLS prevents the replay of an old answer. A replayed answer would be behind the
  ledger's file by more than the last event, and is refused; or by exactly that event, which is then reported
  again.

An attacker who controls both the witness and the ledger's file can do all of this. A witness does not see a
release that was never charged.
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
    """Last committed position of a lineage, and digest of the state at this position."""

    position: int
    digest: str


def check_name(name: object, *, what: str) -> None:
    """Raise InvalidParameter if a name is not a non-empty printable string."""
    if not isinstance(name, str) or not name or not name.isprintable():
        raise InvalidParameter(f"{what} must be a non-empty printable string")


def new_witness(lineage: str, position: int, digest: str) -> Witness:
    """Return a `Witness` with this position and digest, after checking all arguments."""
    check_name(lineage, what="a lineage")
    check_name(digest, what="a digest")
    if type(position) is not int or not 0 <= position <= LARGEST_POSITION:
        raise InvalidParameter("position must be an integer from 0 to 2**63 - 1")
    return Witness(position, digest)


def check_advance(last: Witness | None, new: Witness) -> None:
    """Raise `ForkedState` unless `new` equals `last`, or has the next position, or there is no `last`."""
    if last is None or new == last or new.position == last.position + 1:
        return
    raise ForkedState(
        f"the ledger has witnessed position {last.position} of this state and cannot take position "
        f"{new.position}: another copy has continued, load the state from that copy's path"
    )


class AppendOnlyWitness(Protocol):
    """Interface of an append-only store of each lineage's last position and digest, as ledgers are."""

    @abstractmethod
    def last(self, lineage: str) -> Witness | None:
        """Return the last position and digest of a lineage; None if the lineage was never seen.

        Raises:
            StateError: The witness could not be reached.
        """

    @abstractmethod
    def advance(self, lineage: str, *, position: int, digest: str) -> None:
        """Store the digest of a position durably, by compare-and-set; see `Ledger.advance`.

        Raises:
            ForkedState: The stored position is later, or has another digest.
            StateError: The witness could not be reached; `last` shows whether the digest was stored.
        """


class Payer(Seen, AppendOnlyWitness):
    """Interface of a ledger to saved objects: it charges accounts for releases, and counts commits.

    `dpbandits.budget.Ledger` implements it.
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
    """Account of a ledger that is charged for releases; see `Ledger.account(name)` and `open_account`.

    Args:
        ledger: Ledger of the account. It also detects copies and rollbacks of saved states.
        name: Name of the account. Public.
    """

    ledger: Payer
    name: str

    def __post_init__(self) -> None:
        _checks.an(self.ledger, Payer, name="ledger", pass_='account=ledger.account("people")')
        check_name(self.name, what="an account's name")


def witness_of(account: Account | None, ledger: Payer | None = None) -> Payer | None:
    """Return the ledger that detects old copies of a state.

    This is the account's ledger, or `ledger` if there is no account.

    Raises:
        InvalidParameter: An argument has another type, or the account belongs to another ledger.
    """
    _checks.an(account, Account, name="account", pass_='account=ledger.account("people")', optional=True)
    _checks.an(ledger, Payer, name="ledger", pass_='ledger=SQLiteLedger("budget.ledger")', optional=True)
    if account is None:
        return ledger
    if ledger is not None and ledger is not account.ledger:
        raise InvalidParameter(
            "account, ledger: the account belongs to another ledger; pass the account alone"
        )
    return account.ledger


class FileWitness:
    """Witness that stores one append-only file of mode 0600 per lineage in a folder.

    Each line of a file has position, digest and a checksum. A line that a crash left unfinished is skipped;
    a finished line that was changed raises `CorruptState`. Any number of processes may share the folder.
    Choose a folder that is not restored when the ledger's disk is restored. On Linux `chattr +a` on the
    files makes the system refuse everything but appending.

    Args:
        folder: Existing folder to which other users cannot write.

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
            # Sync also an existing line: its writer may have died before syncing it.
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
        """Return a context manager that locks the folder, and turns errors of the disk into `StateError`."""
        try:
            with locked(self._folder / "witness.lock"):
                yield
        except OSError as error:
            reason = errno.errorcode.get(error.errno or 0, "unknown error")
            raise StateError(
                f"the witness's folder could not be used ({reason}), so nothing is released: repeat the "
                "call, which is safe"
            ) from None

    def _path(self, lineage: str) -> Path:
        new_witness(lineage, 0, "-")  # checks the name
        return self._folder / f"{hashlib.sha256(lineage.encode()).hexdigest()[:32]}.witness"

    def _last(self, path: Path, lineage: str) -> tuple[Witness | None, bool]:
        """Return the last position and digest, and True if the file is empty or its last line is finished."""
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
        raise CorruptState(
            "the last line of the witness was changed: find out by whom, then restore the line"
        )
    return witness


def _check(lineage: str, witness: Witness) -> str:
    return hashlib.blake2b(repr((lineage, *witness)).encode(), digest_size=8).hexdigest()
