"""The service on one machine: private decisions over HTTP, with nothing to set up.

- `dpbandits serve` starts it; `application(Service(folder))` is its ASGI application.
- `core`: what the folder holds, what is written first, and why nothing that was acknowledged is lost.
- `decisions`: the states of a decision. `tokens`: the scopes. `problems`: what it says no with.
- Its Python client is `dpbandits.client`, which imports nothing of it.

Nothing of privacy is decided here: the promises, the noise and the budgets are those of the other packages.
"""

__all__: list[str] = []
