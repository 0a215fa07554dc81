"""A policy as a feature flag of OpenFeature, whose rewards are told with `track`.

    pip install openfeature-sdk openfeature-provider-ofrep
    TOKEN=dpb_... python examples/service/openfeature_flags.py http://127.0.0.1:8080

The token needs the scopes decide and reward. The policy "offers" of docs/guides/service.md must have begun.
Any other OFREP provider decides as well; this one adds `track`.
"""

import os
import sys
import threading
from collections import OrderedDict
from typing import Any
from urllib.parse import quote

from openfeature import api
from openfeature.contrib.provider.ofrep import OFREPProvider
from openfeature.evaluation_context import EvaluationContext
from openfeature.flag_evaluation import FlagEvaluationDetails
from openfeature.hook import Hook, HookContext
from openfeature.track import TrackingEventDetails

REMEMBERED = 10_000
"""Decisions whose rewards may still be told; the oldest is forgotten first."""


class Decisions(Hook):
    """Remembers which decision a user's evaluation of a flag was."""

    def __init__(self) -> None:
        self._latest: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._lock = threading.Lock()

    def after(self, hook_context: HookContext, details: FlagEvaluationDetails[Any], hints: Any) -> None:
        decision, user = details.flag_metadata.get("decision"), hook_context.evaluation_context.targeting_key
        if decision is not None and user is not None:
            with self._lock:
                self._latest[hook_context.flag_key, user] = str(decision)
                while len(self._latest) > REMEMBERED:
                    self._latest.popitem(last=False)

    def of(self, flag: str, user: str) -> str | None:
        with self._lock:
            return self._latest.get((flag, user))


class RewardingProvider(OFREPProvider):
    """The official provider; `track(flag, context, TrackingEventDetails(value=reward))` tells a reward."""

    def __init__(self, base_url: str, token: str) -> None:
        super().__init__(base_url, headers_factory=lambda: {"Authorization": f"Bearer {token}"})
        self._decisions = Decisions()

    def get_provider_hooks(self) -> list[Hook]:
        return [self._decisions]

    def track(
        self,
        tracking_event_name: str,
        evaluation_context: EvaluationContext | None = None,
        tracking_event_details: TrackingEventDetails | None = None,
    ) -> None:
        user = evaluation_context.targeting_key if evaluation_context else None
        reward = tracking_event_details.value if tracking_event_details else None
        decision = None if user is None else self._decisions.of(tracking_event_name, user)
        if decision is None or reward is None:
            return  # nothing was decided here for this user, or there is no reward to tell
        path = f"/v1/policies/{quote(tracking_event_name, safe='')}/decisions/{decision}/reward"
        url, headers = f"{self.base_url.rstrip('/')}{path}", (self.headers_factory or dict)()
        self.session.put(
            url, json={"reward": reward}, headers=headers, timeout=self.timeout
        ).raise_for_status()


def main() -> None:
    api.set_provider(RewardingProvider(sys.argv[1], os.environ["TOKEN"]))
    client = api.get_client()
    person = EvaluationContext("u-17", {"age": 44, "region": "west"})
    first = client.get_string_details("offers", "nothing", person)
    again = client.get_string_details("offers", "nothing", person)
    if first.error_code is not None:
        raise SystemExit(f"only the default value: {first.error_message}")
    client.track("offers", person, TrackingEventDetails(value=1.0))
    same = first.flag_metadata["decision"] == again.flag_metadata["decision"]
    print(f"{first.value} ({first.reason}), repeated: {'the same' if same else 'another'} decision")


if __name__ == "__main__":
    main()
