"""Private decisions over HTTP.

- `dpbandits serve` starts the service; `application(Service(folder))` is its ASGI application.
- `core`: files, transactions and durability. `decisions`: states of a decision.
- `tokens`: scopes and limits. `problems`: refusals.
- `dpbandits.client` is the Python client, which imports nothing of the service.

Privacy: guarantees, noise and budgets are those of the other packages; nothing is decided here.
"""

__all__: list[str] = []
