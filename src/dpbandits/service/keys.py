"""`Keys`: the service's secret key, keyed digests, and the ids of decisions.

The store has callers' ids, bodies of requests and tokens as digests under this key. Without the key, a
reader of the store cannot find a context by trying the few possible ones.

The id of a decision is its number and a digest of it. An adopted copy continues the numbering from the time
when the copy was made, and so may its original. Therefore each adoption is recorded (`note_adoption`) and
enters the ids of all later decisions: no id is valid both in the original and in the copy.
"""

import hashlib
import hmac
import json
import secrets
from bisect import bisect
from collections.abc import Sequence
from json.encoder import encode_basestring_ascii
from pathlib import Path
from typing import Any

from dpbandits.errors import CorruptState
from dpbandits.service.store import Reads, Writes, note_fact
from dpbandits.state.files import open_regular, refuse_if_others_write, write_durably

__all__ = ["Keys", "adoptions", "canonical", "check_key", "note_adoption"]

_KEY_BYTES = 32
_DIGEST_BYTES = 16
_ADOPTIONS = "adoptions"

Adoption = tuple[int, str]
"""Number of the first decision after an adoption, and a random word that identifies the adoption."""


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def canonical(value: Any) -> str:
    """Return JSON with sorted keys and without spaces."""
    return _CANONICAL.encode(value)


def adoptions(reads: Reads) -> list[Adoption]:
    """Return the adoptions of a store in their order."""
    row = reads.one("SELECT value FROM facts WHERE name = ?", _ADOPTIONS)
    return [] if row is None else [(int(first), str(which)) for first, which in json.loads(row[0])]


def note_adoption(writes: Writes) -> None:
    """Record an adoption, so that later decisions have ids that neither the original nor another copy has."""
    row = writes.one("SELECT MAX(number) FROM decisions")
    first = 1 + int((row[0] if row else None) or 0)
    adopted = [*adoptions(writes), (first, secrets.token_hex(_DIGEST_BYTES))]
    note_fact(writes, _ADOPTIONS, canonical(adopted))


def check_key(writes: Writes, keys: "Keys") -> None:
    """Record a digest of the key in a new store. Raise CorruptState if the store has that of another key."""
    own = keys.digest("which key").hex()
    row = writes.one("SELECT value FROM facts WHERE name = 'key'")
    if row is None:
        writes.run("INSERT INTO facts VALUES ('key', ?)", own)
    elif row[0] != own:
        raise CorruptState("the store belongs to another service.key: every worker needs the same one")


class Keys:
    """The service's secret key, from a file of mode 0600, which is created if needed.

    `adopted` lists the adoptions of the store, which enter the ids of decisions.

    Raises:
        CorruptState: the file is not a key.
        StateError: other users of the machine may write to it.
    """

    def __init__(self, path: Path, adopted: Sequence[Adoption] = ()) -> None:
        self._adopted = adopted
        refuse_if_others_write(path, what="the service's key")
        if not path.exists():
            write_durably(path, secrets.token_bytes(_KEY_BYTES), exclusive=True)
        with open_regular(path) as (file, size):
            self._keyed = hashlib.blake2b(key=file.read(_KEY_BYTES), digest_size=_DIGEST_BYTES)
        if size != _KEY_BYTES:
            raise CorruptState("the service's key file is damaged or another file: restore it from a backup")

    def digest(self, what: str, *parts: str) -> bytes:
        """Return a keyed digest of the texts `parts` for the purpose `what`.

        Different texts are encoded differently.
        """
        text = ", ".join(map(encode_basestring_ascii, (what, *parts)))  # as json.dumps writes a list
        begun = self._keyed.copy()
        begun.update(f"[{text}]".encode())
        return begun.digest()

    def decision_id(self, number: int) -> str:
        """Return the id of a decision: its number and a digest that nobody can guess."""
        before = bisect([first for first, _ in self._adopted], number)
        adopted = [which for _, which in self._adopted[max(before - 1, 0) : before]]
        return f"d{number:x}-{self.digest('decision', str(number), *adopted).hex()}"

    def number_of(self, decision_id: str) -> int | None:
        """Return the number of the decision with this id; None if the service has not issued the id."""
        digits = decision_id[1:].partition("-")[0]
        if len(digits) > 15 or not all(digit in "0123456789abcdef" for digit in digits) or not digits:
            return None
        number = int(digits, 16)
        if not hmac.compare_digest(self.decision_id(number).encode(), decision_id.encode(errors="replace")):
            return None
        return number
