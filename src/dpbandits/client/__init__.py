"""Python client of the HTTP service. It imports nothing of the server.

`RemotePolicy` has the interface of a policy in this process; `AsyncRemotePolicy` has the same methods as
coroutines. `RemoteServer` is a local policy, for users' own devices. `RemoteTokens` makes, lists and rotates
tokens.

*Retries.* Every ask has an idempotency key, given by the caller or random. The client repeats an attempt with
the same key if no answer came or the answer is not the service's. It also does so after the statuses 408,
429, 502, 503 and 504. All attempts take one round and get one answer.

*Offline rewards.* With `queue`, a reward that cannot be sent is written durably to this folder (mode 0700),
and `tell` returns `Receipt.QUEUED`. The reward is sent after the next successful `tell`, or by `flush`, and
then deleted. Until then the folder holds raw rewards: protect it as such.

*Privacy.* The context, the user and the reward are sent to the service alone. A URL of another machine needs
https, or `plain_http=True` on a private network. The client follows no redirect and sends the token in a
header only. No error repeats what was sent.
"""

from typing import TYPE_CHECKING

from dpbandits._lazy import lazy

if TYPE_CHECKING:
    from dpbandits.client.awaited import AsyncRemotePolicy
    from dpbandits.client.devices import RemoteServer
    from dpbandits.client.messages import RemoteDecision
    from dpbandits.client.policies import RemotePolicy
    from dpbandits.client.tokens import RemoteTokens

__all__ = ["AsyncRemotePolicy", "RemoteDecision", "RemotePolicy", "RemoteServer", "RemoteTokens"]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "dpbandits.client.awaited": ("AsyncRemotePolicy",),
        "dpbandits.client.devices": ("RemoteServer",),
        "dpbandits.client.messages": ("RemoteDecision",),
        "dpbandits.client.policies": ("RemotePolicy",),
        "dpbandits.client.tokens": ("RemoteTokens",),
    },
)
