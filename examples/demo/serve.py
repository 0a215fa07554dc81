"""A page that shows one's own report byte by byte, and a service that learns from 2,000 simulated pages.

    make demo                    # or: python examples/demo/serve.py --epsilon 1 --port 0
    make demo ARGS="--trust distributed"    # two aggregators instead: see two_aggregators.py

The service is the one that `dpbandits serve` runs, on a folder that is removed at the end, with one local
policy. The pages beside it are this folder's, and the device is `js/`. It listens on this machine alone, and
answers to no other name, so that no site can reach it by a name of its own. Who uses this machine can read
the token in `where.json`: it fetches this one policy and sends reports, and no more.
"""

import argparse
import json
import os
import secrets
import signal
import socket
import sys
import tempfile
import threading
import time
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import uvicorn
from files import KINDS, files
from starlette.applications import Starlette
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request as Asked
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

import dpbandits as dpb
from dpbandits.service.application import application
from dpbandits.service.core import Service
from dpbandits.service.gate import Application, Gate
from dpbandits.service.problems import Problem
from dpbandits.service.tokens import Token

HOST = "127.0.0.1"


def contract(epsilon: float) -> dpb.local.Spec:
    """Return what devices and the server agree on."""
    return dpb.local.Spec(
        contexts=dpb.Schema(age=dpb.Range(18, 90), sleep=dpb.Range(3, 10)),
        arms=["walk", "nap", "music"],
        privacy=dpb.LocalDP(epsilon=epsilon),
        n_users=2000,
        tuning=dpb.local.SpecTuning(
            mechanism="krr",  # one answer, true or not: what it says can be told in words
            reports_per_version=50,
            window=1000,  # a map is published after fifty reports, however fast they come
        ),
    )


def _unseen(*_: object) -> None:
    """Requests for pages are not logged."""


async def _nobody(_: object) -> Token:
    """Pages take no bodies, so that nobody needs a token."""
    raise Problem("no-token", "This page takes no body.")


def composed(service: Service, where: dict[str, object]) -> Application:
    """The service's application, and under /demo/ these pages, behind the same gate."""
    there = files()

    def begin(_: Asked) -> Response:
        return RedirectResponse("/demo/")

    def told(_: Asked) -> Response:
        return JSONResponse(where)

    def page(asked: Asked) -> Response:
        name = asked.path_params["name"] or "index.html"
        if name not in there:
            return Response(status_code=404)
        return Response(there[name], media_type=KINDS[Path(name).suffix])

    def none(_: Asked) -> Response:
        return Response(status_code=204)

    routes = [
        Route("/favicon.ico", none),
        Route("/demo", begin),
        Route("/demo/where.json", told),
        Route("/demo/{name:path}", page),
    ]
    pages = Gate(Starlette(routes=routes), service.settings, _nobody, _unseen)
    own = application(service)

    async def answering(scope, receive, send):  # type: ignore[no-untyped-def]
        icon = scope.get("path") == "/favicon.ico"  # what browsers ask for unasked: there is none
        ours = scope["type"] == "http" and (icon or (scope["path"] + "/").startswith("/demo/"))
        await (pages if ours else own)(scope, receive, send)

    return TrustedHostMiddleware(answering, allowed_hosts=[HOST, "localhost"])


def post(url: str, token: str, body: object) -> dict[str, str]:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    with urlopen(Request(url, json.dumps(body).encode(), headers)) as reply:  # noqa: S310 - loopback
        found: dict[str, str] = json.loads(reply.read())
        return found


@contextmanager
def demonstration(*, epsilon: float = 2.0, port: int = 0) -> Iterator[tuple[str, str]]:
    """Address of a service that runs until the block ends, and a token for its desk."""
    spec = contract(epsilon)
    # A name of its own: a browser's device keeps to the versions that it has seen under a name.
    name, where = f"demo-{secrets.token_hex(4)}", {}
    with (
        # Named as TCP it sends at once; otherwise the second half of every answer waits 40 ms for the first.
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening,
        tempfile.TemporaryDirectory(prefix="dpbandits-demo-") as folder,
    ):
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, port))
        listening.listen()
        service = Service(Path(folder) / "data")
        first = str(service.first_token)
        config = uvicorn.Config(
            composed(service, where), log_config=None, access_log=False, server_header=False
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            while thread.is_alive() and not server.started:
                time.sleep(0.01)
            url = f"http://{HOST}:{listening.getsockname()[1]}"
            promise = {"kind": "LocalDP", "epsilon": epsilon}
            people = {"name": "people", "privacy": promise}
            post(f"{url}/v1/populations", first, people)
            policy = {"name": name, "population": "people", "spec": json.loads(spec.to_json())}
            post(f"{url}/v1/local", first, policy)
            scopes = {"label": "the page", "scopes": ["report"]}
            token = post(f"{url}/v1/tokens", first, scopes)["token"]
            where |= {"name": name, "url": f"/v1/local/{name}", "token": token, "epsilon": epsilon}
            reader = {"label": "desk of the demo", "scopes": ["read"]}
            yield url, post(f"{url}/v1/tokens", first, reader)["token"]
        finally:
            server.should_exit = True
            thread.join()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--trust", choices=("local", "distributed"), default="local")
    arguments.add_argument(
        "--epsilon", type=float, help="privacy loss of a report, in (0, 16]; 2, or 1 with two aggregators"
    )
    arguments.add_argument("--pages", type=int, default=2000, help="people who report to two aggregators")
    arguments.add_argument("--browsers", type=int, default=3, help="how many of these have Chromium")
    arguments.add_argument("--port", type=int, default=8090, help="0 takes any that is free")
    asked = arguments.parse_args()
    epsilon = {"local": 2.0, "distributed": 1.0}[asked.trust] if asked.epsilon is None else asked.epsilon
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        if asked.trust == "distributed":
            import two_aggregators

            two_aggregators.run(epsilon=epsilon, pages=asked.pages, browsers=asked.browsers)
            return
        with demonstration(epsilon=epsilon, port=asked.port) as (url, token):
            print(f"{url}/demo/")
            print(f"its desk: {url}/ with the token {token}")
            print("Ctrl-C ends it, and removes what it kept.", flush=True)
            if sys.platform == "darwin" or os.environ.keys() & {"DISPLAY", "WAYLAND_DISPLAY"}:
                webbrowser.open(f"{url}/demo/")
            signal.pause()
    except KeyboardInterrupt:
        pass
    except (OSError, OverflowError) as error:  # a port that is taken, and one that is none
        arguments.exit(1, f"{error}; --port 0 takes any port that is free\n")
    except dpb.errors.DPBanditsError as error:
        arguments.exit(1, f"{error}\n")


if __name__ == "__main__":
    main()
