"""Decide and tell rewards with httpx alone: what a client in any language does.

    TOKEN=dpb_... python examples/service/with_httpx.py http://127.0.0.1:8080

The token needs the scopes decide and reward. The policy "offers" of docs/guides/service.md must have begun.
"""

import os
import secrets
import sys
import time
from typing import Any

import httpx

BUSY = (408, 429, 502, 503, 504)
"""Statuses after which the same request is sent again."""


def sent(client: httpx.Client, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Send a request until it is answered. Repeating it is safe: the same id has the same answer."""
    for attempt in range(8):
        try:
            reply = client.request(method, path, json=body)
        except httpx.TransportError:  # it may have arrived: the same request is sent again
            time.sleep(0.1 * 2**attempt)
            continue
        if reply.status_code not in BUSY:
            break
        time.sleep(float(reply.headers.get("Retry-After", 0.1 * 2**attempt)))
    else:
        raise SystemExit("the service does not answer")
    found: dict[str, Any] = reply.json()
    if reply.is_error:
        raise SystemExit(f"{found['title']}: {found.get('detail', '')}")
    return found


def main() -> None:
    headers = {"Authorization": f"Bearer {os.environ['TOKEN']}"}
    with httpx.Client(base_url=sys.argv[1], headers=headers, timeout=10) as client:
        at, context = "/v1/policies/offers", {"age": 44, "region": "west"}
        (check,) = sent(client, "POST", f"{at}/decisions:check", {"contexts": [context]})["results"]
        if not check["fits"]:
            raise SystemExit(f"the policy cannot read this context: {check['faults']}")
        visit = secrets.token_hex(8)
        decision = sent(client, "POST", f"{at}/decisions", {"id": visit, "user": visit, "context": context})
        if decision["fallback"]:
            print(f"only the fallback, because of: {decision['reason']}")
        outcome = sent(client, "PUT", f"{at}/decisions/{decision['id']}/reward", {"reward": 1})
        print(f"{decision['arm']}: {outcome['outcome']}")


if __name__ == "__main__":
    main()
