"""`Problem`: refusals of the service, as problem+json (RFC 9457).

Privacy: a problem has only fixed words and public numbers. It never repeats a context, candidate, reward,
user, arm, or any other text of a request.
"""

import re
import sqlite3
from dataclasses import dataclass, field
from typing import Any

from dpbandits import errors
from dpbandits.service.store import NotKnown
from dpbandits.service.writer import Crowded, Refusal

__all__ = ["PROBLEM_TYPES", "Problem", "in_json", "problem_of"]

PROBLEM_TYPES: dict[str, tuple[int, str]] = {
    "malformed": (400, "The request cannot be read"),
    "no-token": (401, "A token is needed"),
    "out-of-scope": (403, "The token has another scope"),
    "not-found": (404, "There is nothing here"),
    "method-not-allowed": (405, "This cannot be done here"),
    "slow": (408, "The request came too slowly"),
    "conflict": (409, "This is not possible as things stand"),
    "other-body": (409, "The id was used for another request"),
    "budget-exceeded": (409, "The population's budget does not cover it"),
    "no-rounds-left": (409, "The policy has no rounds left"),
    "user-has-had-all": (409, "The user has had all of their rounds"),
    "erased": (410, "It was erased after the retention time"),
    "changed-meanwhile": (412, "It was changed meanwhile"),
    "too-large": (413, "The request is too large"),
    "unsupported-media-type": (415, "The request has another media type"),
    "invalid": (422, "The request does not fit"),
    "needs-if-match": (428, "If-Match is needed"),
    "too-many-requests": (429, "Too many requests"),
    "defect": (500, "The service has a defect"),
    "not-ready": (503, "The service is not ready"),
    "busy": (503, "The service is busy"),
    "read-only": (503, "The service is read-only"),
    "not-recorded": (503, "Nothing was recorded"),
    "not-known": (503, "Whether it was recorded is not known"),
}
"""HTTP status and title of each type of problem, by its slug.

Slugs are part of the interface: new ones may be added, and none changes.
"""


@dataclass(eq=False)
class Problem(Refusal):
    """Refusal of a type in `PROBLEM_TYPES`, with advice for the caller.

    Args:
        slug: type of the problem.
        detail: explanation and advice, in fixed words, types and public numbers.
        headers: headers of the answer.
        more: further public members of the JSON.
    """

    slug: str
    detail: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def status(self) -> int:
        """HTTP status of the answer."""
        return PROBLEM_TYPES[self.slug][0]

    def to_json(self) -> dict[str, Any]:
        """Return the members of problem+json."""
        status, title = PROBLEM_TYPES[self.slug]
        said = {"detail": self.detail} if self.detail else {}
        return {"type": f"urn:dpbandits:{self.slug}", "title": title, "status": status, **said, **self.more}

    def said_at(self, path: str) -> tuple[int, str, dict[str, Any]]:
        """Return status, media type and members of the answer to a request for `path`.

        Answers of OFREP routes have another form. Their `key` is the last part of the path.
        """
        if not path.startswith("/ofrep/"):
            return self.status, "application/problem+json", self.to_json()
        _, _, key = path.partition("/evaluate/flags/")
        faults = [f"{one['column']} {one['rule']}" for one in self.more.get("faults", ())]
        code = self.more.get("errorCode", _FLAG_ERRORS.get(self.slug, "GENERAL"))
        details = "; ".join([self.detail or PROBLEM_TYPES[self.slug][1], *faults])
        said = {"errorCode": code, "errorDetails": details}
        status = self.status if self.status in _AS_IT_IS or self.status >= 500 else 400
        return status, "application/json", {"key": key, **said} if key else said


_AS_IT_IS = frozenset({401, 403, 404, 405, 408, 413, 415, 429})
_FLAG_ERRORS = {"not-found": "FLAG_NOT_FOUND", "malformed": "PARSE_ERROR", "invalid": "INVALID_CONTEXT"}

_OF_ERRORS: tuple[tuple[type[Exception], str], ...] = (
    (NotKnown, "not-known"),
    (errors.ContributionExceeded, "user-has-had-all"),
    (errors.HorizonExceeded, "no-rounds-left"),
    (errors.BudgetExceeded, "budget-exceeded"),
    (errors.UnknownDecision, "not-found"),
    (errors.ProtocolError, "conflict"),
    (errors.StateError, "not-recorded"),
    (sqlite3.Error, "not-recorded"),
    (OSError, "not-recorded"),
    (errors.DPBanditsError, "invalid"),
)


_NUMBER = r"-?[0-9.]+(?:e[+-]?[0-9]+)?"
_IN_JSON: tuple[tuple[str, str], ...] = (
    (r": (?:pass|write) (?:\w+=|\w+\().*$", ""),
    (r" \(\w+Error\)", ""),
    (r" has dtype \w+, expected integers or floats$", " is not a number"),
    (r" has shape \([^)]*\), expected a non-empty array .*$", " is not a number"),
    (rf"(?:Range)?\(({_NUMBER}), ({_NUMBER})\)", r"[\1, \2]"),
    (r"\((low, high)\)", r"[\1]"),
    (r"\b(\w+)=\{", r'"\1": {'),
    (r"\b(\w+)=(?=[,:; ]|$)", r'"\1"'),
    (r"\ban? NoneType\b", "null"),
    (r"\ban? bool\b", "true or false"),
    (r"\ban? (?:int|float)\b", "a number"),
    (r"\ban? str\b", "a text"),
    (r"\ban? dict\b", "an object"),
    (r"\ba tuple\b", "a list"),
    (r"\bdictionaries\b", "objects"),
)
"""Patterns of the library's messages, and the words of JSON instead."""


def in_json(text: str) -> str:
    """Return a message of the library with the words of JSON for Python's types and calls.

    Example:
        >>> in_json('price is a NoneType, expected a str: pass price="price"')
        'price is null, expected a text'
    """
    for pattern, words in _IN_JSON:
        text = re.sub(pattern, words, text)
    return text


def problem_of(error: BaseException) -> Problem:
    """Return the problem that answers a request which raised `error`.

    Only the library's own errors may put their text into it.
    """
    if isinstance(error, Problem):
        return error
    if isinstance(error, Crowded):
        return Problem("too-many-requests", str(error), headers={"Retry-After": "1"})
    for kind, slug in _OF_ERRORS:
        if isinstance(error, kind):
            detail = "" if PROBLEM_TYPES[slug][0] == 503 else in_json(str(error))
            return Problem(slug, detail or "The service could not use its store; repeat the request.")
    return Problem("defect", "Nothing was recorded. The service's log names the place.")
