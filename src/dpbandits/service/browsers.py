"""Requests of web pages: which pages' scripts may use the service from a browser (CORS).

A browser sends a page's request to a service of another origin only if that service names the page's origin.
The operator lists these origins, and by default there are none. Only the routes of devices, of decisions and
of feature flags are open to pages. Credentials of the browser are never accepted, so a page can use nobody's
login at the desk: it has the token that it was given. Everybody who opens the page can read this token, so it
should have one scope and no other.
"""

import re
from collections.abc import Sequence

from starlette.middleware.cors import CORSMiddleware

from dpbandits.service.gate import Application, Receive, Scope, Send

__all__ = ["open_to"]

_OPEN = re.compile(
    r"/v1/local/[^/]+/(policy|reports)|/v1/policies/[^/]+/(decisions|rewards)([:/].*)?|/ofrep/v1/.*"
)


def open_to(origins: Sequence[str], application: Application) -> Application:
    """Return the application with answers that browsers let pages of these origins read."""
    if not origins:
        return application
    shared = CORSMiddleware(
        application,
        allow_origins=origins,
        allow_methods=["GET", "POST", "PUT"],
        allow_headers=["authorization", "content-type", "if-none-match"],
        expose_headers=["etag", "retry-after"],
    )

    async def answering(scope: Scope, receive: Receive, send: Send) -> None:
        is_open = scope["type"] == "http" and _OPEN.fullmatch(scope["path"])
        await (shared if is_open else application)(scope, receive, send)

    return answering
