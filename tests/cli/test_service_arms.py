"""Commands that change the arms of a policy of a stopped service."""

import json

from dpbandits.service.core import Service

ASKED = {
    "name": "offers",
    "population": "people",
    "contexts": [{"name": "age", "type": "Range", "low": 18, "high": 90}],
    "arms": ["mail", "call"],
    "reward_range": [0, 1],
    "horizon": 400,
    "privacy": {"epsilon": 1, "delta": 1e-6},
    "settings": {},
}


SHOP = {name: value for name, value in ASKED.items() if name != "arms"} | {
    "products": {
        "columns": [{"name": "price", "type": "Range", "low": 0, "high": 10}],
        "rows": [{"name": "mug", "price": 4}, {"name": "cup", "price": 2}],
    },
    "arms": ["mug", "cup"],
}


def begun(folder, asked=ASKED):
    service = Service(folder)
    try:
        service.write(
            lambda writes: service.ledger.open_account("people", privacy=promise_of(ASKED["privacy"]))
        ).result()
        service.begin_policy(dict(asked), "")
    finally:
        service.close()


def promise_of(asked):
    from dpbandits.service.budgets import promise_of as promised

    return promised(asked)


def test_arms_are_added_and_retired_once(command, tmp_path):
    data = tmp_path / "data"
    begun(data)
    call = ["service", "add-arm", "offers", "chat", "--data", data, "--like", "call", "--minimum", 0.2]
    one = command(*call)
    change = json.loads(one.out)
    assert (change["event"], change["arm"], change["like"], change["minimum"]) == (
        "arm added",
        "chat",
        "call",
        0.2,
    )
    again = command(
        "service", "add-arm", "offers", "chat", "--data", data, "--like", "call", "--minimum", 0.2
    )
    assert json.loads(again.out) == change
    retired = json.loads(command("service", "retire-arm", "offers", "mail", "--data", data).out)
    assert retired["event"] == "arm retired"
    refused = command("service", "retire-arm", "offers", "fax", "--data", data)
    assert refused.status != 0
    assert "no arm" in refused.err


def test_a_product_is_added_with_its_features(command, tmp_path):
    data = tmp_path / "data"
    begun(data, SHOP)
    call = ["service", "add-arm", "offers", "jug", "--data", data, "--features"]
    change = json.loads(command(*call, '{"price": 7.5}').out)
    assert (change["arm"], change["features"]) == ("jug", {"price": 7.5})
    for features, said in (("price 7", "not the features of an arm"), ('{"price": 11}', "outside")):
        refused = command("service", "add-arm", "offers", "pot", "--data", data, "--features", features)
        assert refused.status != 0
        assert said in refused.err


def test_a_folder_without_a_service_is_refused_and_stays_empty(command, tmp_path):
    refused = command("service", "retire-arm", "offers", "mail", "--data", tmp_path / "typo")
    assert refused.status != 0
    assert "has no data of a service: pass the folder" in refused.err
    assert not (tmp_path / "typo").exists()
