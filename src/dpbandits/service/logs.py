"""The log of the service: its lines carry the id of their request, and never the text of an exception."""

import json
import logging
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

__all__ = ["REQUEST", "LogLines", "log"]

log = logging.getLogger("dpbandits.service")

REQUEST: ContextVar[str] = ContextVar("request", default="")
"""Id of the request that is being answered, for all lines of the log that are about it."""


class LogLines(logging.Formatter):
    """Format of lines of the log with the id of their request, as text or as one object of JSON each.

    An exception is named by its kind alone: its text, and a traceback's, could hold data.

    Args:
        as_json: `time`, `level`, `message`, `request`, and of a request `method`, `route`, `status` and `ms`.
    """

    def __init__(self, *, as_json: bool) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:  # noqa: D102
        request = REQUEST.get()
        if not self._as_json:
            return super().format(record) + f" request={request}" * bool(request)
        line = {"time": datetime.fromtimestamp(record.created, UTC).isoformat(), "level": record.levelname}
        line |= {"message": record.getMessage(), **getattr(record, "fields", {})}
        if request:
            line["request"] = request
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)

    def formatException(self, ei: Any) -> str:  # noqa: D102, N802 - the name is that of the standard library
        return ei[0].__name__ if ei[0] else ""
