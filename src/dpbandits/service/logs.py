"""Log of the service. Lines have the id of their request and never the text of an exception."""

import json
import logging
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

__all__ = ["REQUEST", "LogLines", "log"]

log = logging.getLogger("dpbandits.service")

REQUEST: ContextVar[str] = ContextVar("request", default="")
"""Id of the current request, which is in all its log lines."""


class LogLines(logging.Formatter):
    """Formatter of log lines with the id of their request, as text or as one JSON object per line.

    Privacy: an exception is logged by its type alone, because its text or a traceback may hold data.

    Args:
        as_json: True for JSON with `time`, `level`, `message` and `request`. Lines about requests also have
            `method`, `route`, `status` and `ms`.
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
