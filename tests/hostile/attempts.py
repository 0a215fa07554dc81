"""Building a class with one argument replaced by a hostile value."""

import warnings
from typing import Literal

from dpbandits.errors import DPBanditsError
from hostile.cases import CASES

__all__ = ["LENIENT", "Answer", "attempt"]

Answer = Literal["built", "refused", "another_kind", "broken"]

LENIENT = frozenset({("SourceClient", "spec"), ("Modeler", "kernel")})
"""Arguments whose values of another kind Python answers; everywhere else the library says what to pass."""


def attempt(name: str, argument: str, bad: object) -> tuple[Answer, Exception | None]:
    """What came of it, and the error where the library did not answer with its own."""
    case = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            shown = repr(case.build(**{**case.arguments, argument: bad}))
        except DPBanditsError as error:
            return ("refused", None) if len(str(error)) > 8 else ("broken", error)
        except FileNotFoundError as error:  # a path that leads nowhere
            return ("another_kind", None) if isinstance(bad, str) else ("broken", error)
        except (TypeError, AttributeError) as error:
            return ("another_kind", None) if (name, argument) in LENIENT else ("broken", error)
        except Exception as error:  # noqa: BLE001 - this is what is looked for
            return "broken", error
        return ("built", None) if isinstance(shown, str) else ("broken", TypeError("repr"))
