"""A client that `openapi-python-client` makes of the OpenAPI document decides, with typed results."""

import importlib
import importlib.util
import json
import subprocess
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dpbandits.service.core import Service
from service.conftest import AGNES, OFFERS, Caller, served

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("openapi_python_client") is None,
    reason="openapi-python-client generates the client: pip install 'dpbandits[dev]'",
)

CONFIG = {"post_hooks": [], "content_type_overrides": {"application/x-ndjson": "text/plain"}}


class Generated:
    """The package that was generated, and a client of it."""

    def __init__(self, caller: Caller) -> None:
        made: Any = importlib.import_module("made.client")
        self.client = made.AuthenticatedClient(
            base_url="http://testserver", token=caller.token, raise_on_unexpected_status=True
        )
        caller.client.headers["Authorization"] = f"Bearer {caller.token}"
        self.client.set_httpx_client(caller.client)
        self.models: Any = importlib.import_module("made.models")

    def __call__(self, tag: str, name: str, *path: str, body: Any = None) -> Any:
        called: Any = importlib.import_module(f"made.api.{tag}.{name}")
        return called.sync(*path, client=self.client, **({} if body is None else {"body": body}))

    def result(self, tag: str, name: str) -> set[Any]:
        """Types that a call may return, as its annotation says."""
        called: Any = importlib.import_module(f"made.api.{tag}.{name}")
        return set(typing.get_args(typing.get_type_hints(called.sync)["return"]))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the package that is made of the document."""
    folder = tmp_path_factory.mktemp("generated")
    document, config = folder / "openapi.json", folder / "config.json"
    with served(Service(folder / "data")) as caller:
        document.write_text(caller.get("/openapi.json").text)
    config.write_text(json.dumps(CONFIG))
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--path", str(document)]
    options = ["--config", str(config), "--meta", "none", "--output-path", str(folder / "made")]
    done = subprocess.run(
        [*command, *options, "--fail-on-warning"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture
def generated(made: Path, shop: Caller, monkeypatch: pytest.MonkeyPatch) -> Iterator[Generated]:
    monkeypatch.syspath_prepend(str(made))
    yield Generated(shop)
    for name in [name for name in sys.modules if name.partition(".")[0] == "made"]:
        del sys.modules[name]


def test_it_decides_and_tells_and_its_results_have_types(generated: Generated) -> None:
    models = generated.models
    assert generated.result("decisions", "decide") >= {models.Decision, models.Problem}
    assert generated.result("decisions", "tell_reward") >= {models.Outcome, models.Problem}

    def asked(context: dict[str, Any], user: str) -> Any:
        body = models.DecisionRequest.from_dict({"id": f"of {user}", "user": user, "context": context})
        return generated("decisions", "decide", "offers", body=body)

    decision = asked(AGNES, "u-1")
    assert type(decision) is models.Decision
    assert decision.arm in OFFERS["arms"]
    assert (decision.release, decision.fallback, decision.propensity) == (0, False, pytest.approx(1 / 3))
    outcome = generated(
        "decisions", "tell_reward", "offers", decision.id, body=models.RewardRequest.from_dict({"reward": 1})
    )
    assert outcome.to_dict() == {"outcome": "counted"}
    refused = asked({"age": 44}, "u-2")
    assert type(refused) is models.Problem
    assert [(one.column, one.rule) for one in refused.faults] == [("region", "is missing")]


def test_it_reads_policies_populations_and_batches(generated: Generated) -> None:
    models = generated.models
    found = generated("policies", "get_policy", "offers")
    assert (type(found), found.arms, found.status) == (models.Policy, OFFERS["arms"], "active")
    (population,) = generated("populations", "list_populations").populations
    assert [one.name for one in population.parts] == ["epsilon", "delta"]
    bodies = [{"id": "b1", "user": "b1", "context": AGNES}, {"id": "b2", "user": 7, "context": {}}]
    batch = models.DecisionsRequest.from_dict({"decisions": bodies})
    first, second = generated("decisions", "decide_batch", "offers", body=batch).results
    assert (type(first.decision), type(second.problem)) == (models.Decision, models.Problem)
    checked = generated(
        "decisions", "check_contexts", "offers", body=models.CheckRequest.from_dict({"contexts": [AGNES]})
    )
    assert [one.fits for one in checked.results] == [True]
