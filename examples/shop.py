"""
A shop that asks the service
============================

It asks whom to offer what, and tells who bought::

    dpbandits serve                       # prints its address, and the first token
    export DPB_TOKEN=dpb_...              # one with the scopes decide and reward
    uvicorn shop:app --app-dir examples --port 8000

Its token can neither read nor change anything else. While the service is away visitors get the plain page,
and what they buy waits on the shop's disk.
"""

import os
from typing import Annotated, Any

from fastapi import Body, FastAPI

from dpbandits.client import AsyncRemotePolicy
from dpbandits.errors import ServiceUnavailable
from dpbandits.policy import Receipt

JSON = Annotated[dict[str, Any], Body()]


def shop(url: str, token: str) -> FastAPI:
    offers = AsyncRemotePolicy(url, "offers", token=token, queue="queue", patience=1)
    app = FastAPI()

    @app.post("/visit")
    async def visit(visitor: JSON) -> dict[str, Any]:
        try:
            decision = await offers.ask(visitor["context"], visitor["user"])
        except ServiceUnavailable:
            return {"offer": "nothing", "visit": None}
        return {"offer": decision.arm, "visit": decision.id}

    @app.post("/bought")
    async def bought(sale: JSON) -> Receipt:
        return await offers.tell(sale["visit"], reward=1)

    return app


if "DPB_TOKEN" in os.environ:
    app = shop(os.environ.get("DPB_URL", "http://127.0.0.1:8080"), os.environ["DPB_TOKEN"])

# %%
# Called as a browser would call it, with a service of its own that goes away in between.

if __name__ == "__main__":
    import json
    import subprocess
    import sys
    import tempfile
    import warnings
    from urllib.request import Request, urlopen

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from starlette.testclient import TestClient

    def send(path: str, body: Any) -> Any:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        with urlopen(Request(url + path, json.dumps(body).encode(), headers)) as reply:  # noqa: S310
            return json.load(reply)

    here = tempfile.TemporaryDirectory()
    os.chdir(here.name)
    serve = [sys.executable, "-m", "dpbandits", "serve", "--port", "0"]
    service = subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)  # noqa: S603
    try:
        url, token = service.stdout.readline().strip(), service.stdout.readline().split()[-1]
        send("/v1/populations", {"name": "customers", "privacy": {"epsilon": 2, "delta": 1e-6}})
        policy = {
            "contexts": [{"name": "age", "type": "Range", "low": 18, "high": 90}],
            "arms": ["mail", "call", "nothing"],
            "reward_range": [0, 1],
            "horizon": 5000,
            "privacy": {"epsilon": 1, "delta": 1e-6},
        }
        send("/v1/policies", {"name": "offers", "population": "customers", **policy})
        mine = send("/v1/tokens", {"label": "the shop", "scopes": ["decide", "reward"]})["token"]
        browser = TestClient(shop(url, mine))
        agnes = {"user": "u-17", "context": {"age": 44}}
        offers = [browser.post("/visit", json={**agnes, "user": f"u-{n}"}).json() for n in range(3)]
        print([one["offer"] in policy["arms"] for one in offers])
        print(browser.post("/bought", json={"visit": offers[0]["visit"]}).json())
    finally:
        service.kill()
        service.wait()
        service.stdout.close()
    print(browser.post("/bought", json={"visit": offers[1]["visit"]}).json())
    print(browser.post("/visit", json={**agnes, "user": "u-9"}).json())
    os.chdir("/")
    here.cleanup()
