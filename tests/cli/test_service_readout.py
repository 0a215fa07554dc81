"""`dpbandits service readout`: the comparison with the control group, in a table and as JSON."""

import json

import pytest

from cli.test_service_arms import ASKED, begun
from dpbandits.service.core import Service

READ = (
    ASKED
    | {"horizon": 40, "tuning": {"n_features": 3, "reporting_delay": 1}}
    | {
        "readout": {
            "control": {"arm": "mail", "share": 0.5},
            "metrics": {"complaint": "bool"},
            "looks": 2,
            "segments": {"age": [30, 50]},
        }
    }
)


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    begun(folder, READ)
    return folder


def test_before_the_first_look(command, data):
    found = command("service", "readout", "offers", "--data", data)
    assert found.out.splitlines()[0] == "look 0 of 2"
    assert "after 19 rounds" in found.out


def test_the_table_and_the_sentence(command, data):
    service = Service(data)
    try:
        for number in range(40):
            body = {"id": f"v{number}", "user": f"u{number}", "context": {"age": 40}}
            decision = json.loads(service.decide("offers", "t", body).result())["id"]
            service.reward("offers", decision, 1.0, {"complaint": 0.0}).result()
        while service.readout("offers")["looks"] < 2:
            pass
    finally:
        service.close()
    shown = command("service", "readout", "offers", "--data", data).out
    found = json.loads(command("service", "readout", "offers", "--data", data, "--json").out)
    assert (found["looks"], found["planned_looks"]) == (2, 2)
    assert shown.startswith("look 2 of 2")
    for words in ("reward", "complaint", "difference", "age 30 to 50", found["result"]["sentence"]):
        assert words in shown


def test_the_end_of_a_comparison(command, data):
    service = Service(data)
    try:
        for number in range(12):
            body = {"id": f"v{number}", "user": f"u{number}", "context": {"age": 40}}
            service.decide("offers", "t", body).result()
    finally:
        service.close()
    shown = command("service", "readout", "offers", "--data", data, "--end", "--json")
    found = json.loads(shown.out)
    assert (found["looks"], found["over"]) == (1, True)
    assert sum(found["result"]["readings"]["rounds"]) == 11
    assert json.loads(command("service", "readout", "offers", "--data", data, "--json").out) == found


def test_a_policy_without_a_readout_and_a_mistyped_folder(command, tmp_path):
    begun(tmp_path / "data")
    plain = command("service", "readout", "offers", "--data", tmp_path / "data")
    assert plain.status != 0
    assert "without a readout" in plain.err
    typo = command("service", "readout", "offers", "--data", tmp_path / "typo")
    assert "has no data of a service" in typo.err
