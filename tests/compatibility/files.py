"""Files that a release writes, and what they say. Later versions must read them as that release did.

    cd tests && python -m compatibility.files

writes the files of this version into `tests/compatibility/VERSION`. That is done once, before a release.
Files of a release are never written again.
"""

import json
import re
import shutil
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import dpbandits as dpb
from dpbandits.central.published_function import PublishedFunction
from dpbandits.local import DurableServer, Spec
from dpbandits.service.core import Service
from service.conftest import CUSTOMERS, OFFERS, served

HERE = Path(__file__).parent

VERSION = "0.1.0"
"""Version that `main` writes files of."""

PEOPLE = dpb.Schema(age=dpb.Range(18, 90), region=dpb.Categories(["north", "south", "west"]))
CROWD = [
    {"age": int(age), "region": region}
    for age, region in zip(
        np.random.default_rng(17).integers(18, 91, 240),
        np.random.default_rng(18).choice(["north", "south", "west"], 240),
        strict=True,
    )
]
SHARED = {"reward_range": (0, 1), "horizon": 300, "seed": 5}

POLICIES: dict[str, Callable[[Any], Any]] = {
    "marginals": lambda account: _policy(account=account, arms=["mail", "call"], release="marginals"),
    "features": lambda account: _policy(
        account=account, arms=["mail", "call"], release="features", delta=1e-6
    ),
    "cells": lambda account: _policy(
        account=account,
        domain=dpb.Finite(np.linspace(0, 1, 12)[:, None]),
        kernel=dpb.kernels.Matern(nu=2.5, lengthscale=0.3),
        release="cells",
    ),
    "numbers": lambda account: _policy(
        account=account,
        actions=dpb.Actions(dpb.Schema(price=dpb.Range(1, 20, steps=10)), value=dpb.values.Revenue(cost=2.0)),
        delta=1e-6,
    ),
    "products": lambda account: _policy(
        account=account,
        arms=dpb.Products(
            {"name": ["a", "b", "c", "d"], "price": [5, 10, 15, 20], "kind": ["shoe", "hat", "hat", "shoe"]},
            columns=dpb.Schema(price=dpb.Range(0, 20), kind=dpb.Categories(["shoe", "hat"])),
            name="name",
        ),
        delta=1e-6,
    ),
}
"""A policy of every kind of release, by the name of its folder."""


def _policy(*, release: Any = None, delta: float = 0.0, **choices: Any) -> Any:
    known = choices if "domain" in choices else {"contexts": PEOPLE} | choices
    return dpb.central.GPBandit(
        **SHARED,
        **known,
        privacy=dpb.JointDP(epsilon=8, delta=delta),
        tuning=dpb.central.GPTuning(release=release, blocks=(60, 150)),
    )


def lived(policy: Any) -> Any:
    """Ask for 200 people, tell 195 of their rewards, and leave five decisions open."""
    brought = [() if policy.contexts is None else (person,) for person in CROWD[:200]]
    decisions = [policy.ask(*one, user=f"u{number}") for number, one in enumerate(brought)]
    for decision, person in list(zip(decisions, CROWD, strict=False))[:195]:
        policy.tell(decision.id, float(person["age"] > 50))
    return policy


def plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    return json.loads(json.dumps(value, default=lambda one: one.tolist()))


def of_policy(policy: Any) -> dict[str, Any]:
    """Return what a policy says of itself: nothing here depends on how a processor rounds."""
    return plain(
        {
            "rounds_asked": policy.rounds_asked,
            "pending": list(policy.pending),
            "released": np.asarray(policy.released).ravel()[:200],
            "blocks": policy.blocks_released,
            "guarantee": _rounded(policy.guarantee.epsilon),
            "config": policy.to_config(),
        }
    )


def of_published(published: Any, *, people: bool) -> dict[str, Any]:
    """Return what a published function says and decides."""
    decided = [published.recommend(person) for person in CROWD] if people else [published.recommend()]
    return plain({"decided": decided, "guarantee": _rounded(published.guarantee.epsilon)})


def of_server(server: Any) -> dict[str, Any]:
    """Return what a server of local reports has counted."""
    return {"fingerprint": server.spec.fingerprint, "epsilon": server.guarantee.epsilon}


def of_service(folder: Path) -> dict[str, Any]:
    """Return what a service answers about the policy in its folder."""
    with served(Service(folder), token=(folder / "token.txt").read_text()) as caller:
        found = caller.get("/v1/policies/offers")
        told = caller.decide("again", user="v1")
        return {"status": found.status_code, "fields": sorted(found.json()), "decided": told.status_code}


def routes(described: Any) -> dict[str, Any]:
    """Return, by method and path, what a request must have and what its answer has."""
    schemas, found = described["components"]["schemas"], {}

    def fields(part: Any, kind: str) -> list[str]:
        body = part.get("content", {}).get("application/json", {}).get("schema", {})
        named = schemas.get(body.get("$ref", "").rpartition("/")[2], body)
        return sorted(named.get(kind, ()))

    for path, methods in described["paths"].items():
        for method, about in methods.items():
            good = [reply for status, reply in about["responses"].items() if status.startswith("2")]
            found[f"{method.upper()} {path}"] = {
                "needs": fields(about.get("requestBody", {}), "required"),
                "takes": fields(about.get("requestBody", {}), "properties"),
                "answers": sorted({name for reply in good for name in fields(reply, "required")}),
            }
    return found


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")


def write(folder: Path) -> None:
    """Write every file, and `expected.json` with what they say."""
    expected: dict[str, Any] = {}
    for name, make in POLICIES.items():
        place = folder / "policies" / name
        ledger = dpb.SQLiteLedger(place.parent / f"{name}.sqlite")
        account = ledger.open_account("people", privacy=dpb.JointDP(9, 1e-5))
        policy = make(account)
        with type(policy).open(place, new=policy) as live:
            lived(live)
            live.publish().save(folder / "published" / name)
            expected[f"policies/{name}"] = of_policy(live)
            expected[f"published/{name}"] = of_published(live.publish(), people=name != "cells")
        if name != "cells":  # a function of a domain has no decisions for people
            text = PublishedFunction.load(folder / "published" / name).to_decisions()
            (folder / "published" / f"{name}.decisions.json").write_text(text)
        expected[f"ledgers/{name}"] = _rounded(ledger.balance("people").spent_epsilon)
    spec = Spec(contexts=PEOPLE, arms=["mail", "call"], privacy=dpb.LocalDP(epsilon=2))
    reports = []
    with DurableServer.open(spec, folder / "local") as server:
        for person in CROWD[:50]:
            device = dpb.local.Client(spec)
            device.choose(server.publish(), person)
            reports.append(device.report(1.0))
        server.absorb(reports)
        (folder / "spec.json").write_text(spec.to_json())
        (folder / "reports.txt").write_text("".join(f"{report.hex()}\n" for report in reports))
        expected["local"] = of_server(server)
        expected["spec"] = spec.digest.hex()
    place = folder / "service"
    with served(service := Service(place)) as caller:
        caller.post("/v1/populations", CUSTOMERS)
        caller.post("/v1/policies", OFFERS)
        for number in range(30):
            caller.reward(caller.decide(f"v{number}").json()["id"], 1)
        (place / "token.txt").write_text(str(service.first_token))
        (folder / "routes.json").write_text(json.dumps(routes(caller.get("/openapi.json").json()), indent=1))
    with tempfile.TemporaryDirectory() as kept:
        copy = Path(shutil.copytree(place, Path(kept) / "service"))
        expected["service"] = of_service(copy)
    (folder / "expected.json").write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n")


def main() -> None:
    """Write the files of this version anew."""
    folder = HERE / VERSION
    if re.fullmatch(re.escape(VERSION), dpb.__version__):
        raise SystemExit(f"{VERSION} is released: its files stay as they are")
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "published").mkdir(parents=True)
    (folder / "policies").mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write(folder)


if __name__ == "__main__":
    main()
