"""`RemoteTokens`: make, list, rotate and withdraw tokens of a service."""

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
    """Tokens of a service; `token` needs the scope `admin`. Arguments and errors are those of `RemotePolicy`.

    `make` is never retried. If no answer came, look for the token in `listed` and give it a known text with
    `rotate`.

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
        """Make a token. Its text is in `token` of the answer and is never shown again.

        Args:
            label: text for the operators.
            scopes: scopes of the token.
            policies: names of the policies that the token reaches; default all.
            populations: names of the populations that the token reaches; default all. A request must be
                within both lists.
            seconds: lifetime of the token; default unlimited.
        """
        body = {"label": label, "scopes": scopes, "policies": policies, "populations": populations}
        return self._once_only("", body, seconds)

    def listed(self) -> list[dict[str, Any]]:
        """Return the valid tokens, latest first, without their texts."""
        return list(self._made("GET", "", None)["tokens"])

    def rotate(
        self, identity: str, *, overlap_seconds: float = 3600.0, seconds: float | None = None
    ) -> dict[str, Any]:
        """Give the token of an id a new text, in `token` of the answer; the old text ends after the overlap.

        Repeat the call if no answer came: the oldest text stays valid.

        Args:
            identity: id of the token.
            overlap_seconds: seconds for which the old text stays valid.
            seconds: new lifetime of the token from now on; default unchanged.
        """
        return self._once_only(
            f"/{quoted_id(identity)}:rotate", {"overlap_seconds": overlap_seconds}, seconds
        )

    def withdraw(self, identity: str) -> None:
        """Withdraw the token of an id."""
        self._made("DELETE", f"/{quoted_id(identity)}", None, patience=0.0)

    def _once_only(self, path: str, body: dict[str, Any], seconds: float | None) -> dict[str, Any]:
        """Send a request once. Invalid limits are refused, not dropped: a token without them can do more."""
        lists = [body.get(name) for name in ("scopes", "policies", "populations")]
        if any(one is not None and not isinstance(one, list | tuple) for one in lists):
            raise InvalidData("scopes, policies and populations: expected lists of names")
        ends = None if seconds is None else _checks.number(seconds, name="seconds")
        self.close()  # on a reused connection a request may be sent twice
        return self._made("POST", path, body | {"seconds": ends}, patience=0.0)
