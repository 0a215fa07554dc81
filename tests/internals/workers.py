"""Into a worker of the service: who folds in it, and what a ledger's event sees."""

from contextlib import AbstractContextManager
from typing import Any

from dpbandits.service.core import Service
from dpbandits.service.row_ledger import RowLedger
from dpbandits.service.shared import Folding


def folding(service: Service) -> Folding:
    """What makes the releases of a worker."""
    found = service._folding
    assert found is not None
    return found


def closed(service: Service, policy: str) -> int | None:
    """Let no reward of blocks that are due count, as a fold does first."""
    return folding(service)._closed(policy)


def event(ledger: RowLedger) -> AbstractContextManager[Any]:
    """An event, so that another can come in between."""
    return ledger._event()
