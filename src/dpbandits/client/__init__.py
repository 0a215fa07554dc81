"""The Python client of a service. It imports nothing of the server.

`RemotePolicy` is a policy of a service, asked and told as one of this process; `AsyncRemotePolicy` awaits.
`RemoteServer` is a local policy, for people's own devices. `RemoteTokens` makes, lists and rotates tokens.

*Retries.* Every ask has an id, the caller's or a random one, and is repeated with it: whichever attempt
arrived first took the one round, and all get its answer. An attempt is repeated where no answer came, where
the answer is none of the service's, or where the service asks for patience (408, 429, 502, 503, 504).

*Rewards while the service is away.* With `queue`, a reward that cannot be sent is written to this folder
(mode 0700), durably, and `tell` gives `Receipt.QUEUED`; it is sent behind the next one that gets through, or
by `flush`, and then deleted. Until then the folder holds rewards of people: keep it as you keep those.

*What travels.* The context, the user and the reward, to the service alone; so a URL of another machine needs
https, or `plain_http=True` where the network is private. No redirect is followed, the token is in a header
only, and no error repeats what was sent.
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
