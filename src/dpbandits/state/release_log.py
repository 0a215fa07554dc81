"""`ReleaseLog`: an append-only log of an object's releases and their terms, saved with its state.

An entry is plain JSON. It describes consecutive releases of one purpose on the same terms; a binary tree, for
example, has one release each round. It is written before the noise is drawn. After a crash the log may
therefore count one release too many, never one too few.

| field | meaning |
|---|---|
| purpose | statistic that is released |
| first, count | numbers of the releases within their purpose: first, ..., first + count - 1 |
| law, scale, sensitivity, unit, certificate, releases | description of the noise, from its mechanism |
| source, status | source of the noise, and whether it can be repeated |
| charge | id of the charge, in which "#" stands for number + 1; null if this object charged nothing |
| witnessed | true if a ledger refuses a second copy of the state |

Public events that change later releases stand between these entries, in the order in which they happened
(`ReleaseLog.note`). An event has the field `event`, which says what happened, and no noise. An example is an
arm that is added to a policy.

If an object's ledger or log counts its releases, one entry describes all releases on its terms
(`ReleaseLog.remember`), and its charge is the account's name.

Nothing in the log is computed from users' data.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from dpbandits.errors import CorruptState, ProtocolError

__all__ = ["ReleaseLog"]

_NUMBERING = ("first", "count")

_EVENT = "event"


class ReleaseLog:
    """Append-only list of an object's releases; the module describes its entries.

    Example:
        >>> log, terms = ReleaseLog(), {"law": "discrete Gaussian", "scale": 4.0}
        >>> for number in (0, 1, 1):  # release 1 was interrupted and begun again
        ...     log.enter("block", number, terms)
        >>> log.to_json()
        [{'purpose': 'block', 'first': 0, 'count': 2, 'law': 'discrete Gaussian', 'scale': 4.0}]
        >>> log.count("block")
        2
    """

    def __init__(self) -> None:
        self._entries: list[dict[str, Any]] = []
        self._counts: dict[str, int] = {}

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return iter([dict(entry) for entry in self._entries if _EVENT not in entry])

    @property
    def events(self) -> tuple[Mapping[str, Any], ...]:
        """Public events between the releases, in order."""
        return tuple(dict(entry) for entry in self._entries if _EVENT in entry)

    def __repr__(self) -> str:
        return f"ReleaseLog(entries={len(self._entries)})"

    def count(self, purpose: str) -> int:
        """Return the number of releases of this purpose that were entered."""
        return self._counts.get(purpose, 0)

    def enter(self, purpose: str, number: int, terms: Mapping[str, Any]) -> None:
        """Enter release `number` of a purpose. Entering it again with the same terms does nothing.

        Raises:
            ProtocolError: A number was left out, or this number was entered with other terms.
        """
        for entry in self if number < self.count(purpose) else ():
            if entry["purpose"] == purpose and 0 <= number - entry["first"] < entry["count"]:
                if _terms(entry) != {"purpose": purpose, **terms}:
                    raise ProtocolError("this release was begun on other terms: it is drawn once")
                return
        if number != self.count(purpose):
            raise ProtocolError("releases of one purpose are entered in order, each once")
        last = self._entries[-1] if self._entries else None
        if last is not None and _terms(last) == {"purpose": purpose, **terms}:
            self._entries[-1] = {**last, "count": last["count"] + 1}
        else:
            self._entries.append({"purpose": purpose, "first": number, "count": 1, **terms})
        self._counts[purpose] = number + 1

    def note(self, event: Mapping[str, Any]) -> None:
        """Enter a public event, which has the field `event`. Entering the same event again does nothing.

        Example:
            >>> log = ReleaseLog()
            >>> log.note({"event": "arm added", "arm": "call"})
            >>> len(log.events), len(list(log))
            (1, 0)
        """
        if _EVENT not in event:
            raise ProtocolError("an event of the log of releases says what happened")
        if dict(event) not in self._entries:
            self._entries.append(dict(event))

    def remember(self, purpose: str, terms: Mapping[str, Any]) -> bool:
        """Enter terms once for any number of releases; return True if they are new.

        Use this if a ledger or another log counts the releases.

        Example:
            >>> log = ReleaseLog()
            >>> [log.remember("report", {"source": one}) for one in ("SecureNoise", "Other", "SecureNoise")]
            [True, True, False]
        """
        if any(_terms(entry) == {"purpose": purpose, **terms} for entry in self):
            return False
        self.enter(purpose, self.count(purpose), terms)
        return True

    def to_json(self) -> list[dict[str, Any]]:
        """Return the entries as a list, which `from_json` reads."""
        return [dict(entry) for entry in self._entries]

    @classmethod
    def from_json(cls, entries: Any) -> "ReleaseLog":
        """Rebuild a log from `to_json()`.

        Raises:
            CorruptState: The entries are malformed, or a number is missing or occurs twice.
        """
        log = cls()
        if not isinstance(entries, list):
            raise CorruptState("the log of releases is not a list")
        for entry in entries:
            fields: dict[str, Any] = entry if isinstance(entry, dict) else {}
            if isinstance(fields.get(_EVENT), str):
                log.note(fields)
                continue
            first, count, purpose = (fields.get(name) for name in (*_NUMBERING, "purpose"))
            if type(first) is not int or type(count) is not int or not isinstance(purpose, str):
                raise CorruptState("an entry of the log of releases cannot be read")
            if count < 1 or first != log.count(purpose):
                raise CorruptState("the log of releases lacks a number, or has one twice")
            log._entries.append(dict(fields))
            log._counts[purpose] = first + count
        return log


def _terms(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name not in _NUMBERING}
