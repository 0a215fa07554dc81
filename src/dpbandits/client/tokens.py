"""`RemoteTokens`: making, listing, rotating and withdrawing tokens of a service."""

from collections.abc import Sequence
from typing import Any

from dpbandits import _checks
from dpbandits._calls import worded
from dpbandits.client.connection import Remote
from dpbandits.client.messages import quoted_id
from dpbandits.errors import InvalidData

__all__ = ["RemoteTokens"]


@worded
class RemoteTokens(Remote):
    """Tokens of a service, for a token with the scope `admin`. Arguments and errors: see `RemotePolicy`.

    Making is not repeated: where no answer came, `listed` says whether it is there, and `rotate` gives it a
    text.

    Example:
        >>> RemoteTokens("http://127.0.0.1:8080", token="dpb_of_yours")
        RemoteTokens()
    """

    def __init__(self, url: str, *, token: str, **options: Any) -> None:
        super().__init__("tokens", url, None, token=token, **options)

    def make(
        self,
        label: str,
        scopes: Sequence[str],
        *,
        policies: Sequence[str] | None = None,
        populations: Sequence[str] | None = None,
        seconds: float | None = None,
    ) -> dict[str, Any]:
        """Make a token; its text is in `token` of the answer, and nowhere else.

        `policies` and `populations` are lists of names that it reaches, by default all: each narrows the
        other. It ends after `seconds`; by default it does not.
        """
        body = {"label": label, "scopes": scopes, "policies": policies, "populations": populations}
        return self._once_only("", body, seconds)

    def listed(self) -> list[dict[str, Any]]:
        """Return tokens that may be used, the latest first, without their texts."""
        return list(self._made("GET", "", None)["tokens"])

    def rotate(
        self, identity: str, *, overlap_seconds: float = 3600.0, seconds: float | None = None
    ) -> dict[str, Any]:
        """Give a token, by its id, a new text, in `token` of the answer; the old one ends after the overlap.

        `seconds` moves its end to so many from now. Repeat it where no answer came: the oldest text stays.
        """
        return self._once_only(
            f"/{quoted_id(identity)}:rotate", {"overlap_seconds": overlap_seconds}, seconds
        )

    def withdraw(self, identity: str) -> None:
        """Withdraw a token, by its id."""
        self._made("DELETE", f"/{quoted_id(identity)}", None, patience=0.0)

    def _once_only(self, path: str, body: dict[str, Any], seconds: float | None) -> dict[str, Any]:
        """A request in which nothing is taken for missing: without limits or an end a token may do more."""
        lists = [body.get(name) for name in ("scopes", "policies", "populations")]
        if any(one is not None and not isinstance(one, list | tuple) for one in lists):
            raise InvalidData("scopes, policies and populations: expected lists of names")
        ends = None if seconds is None else _checks.number(seconds, name="seconds")
        self.close()  # on a connection that lay open a request may be sent twice
        return self._made("POST", path, body | {"seconds": ends}, patience=0.0)
