"""Commands on tokens of a service that is stopped, or shares a database."""

import json

from dpbandits.service.core import Service
from dpbandits.service.tokens import token_of


def valid(folder, text):
    service = Service(folder)
    try:
        return service.read(lambda reads: token_of(reads, service.keys, text, service.now()))
    finally:
        service.close()


def test_tokens_are_made_listed_rotated_and_withdrawn(command, tmp_path):
    data = tmp_path / "data"
    made = ["service", "token", "--data", data, "--scopes", "decide,reward", "--label", "till", "--days", 1]
    first = command(*made, "--policies", "offers", "--populations", "customers,patients")
    assert "a new service is created there" in first.err  # a mistyped --data is noticed
    text = first.out.strip()
    known = valid(data, text)
    assert (known.scopes, known.limits.policies) == ({"decide", "reward"}, {"offers"})
    assert known.limits.populations == {"customers", "patients"}
    listed = [json.loads(line) for line in command("service", "tokens", "--data", data).out.splitlines()]
    [one] = [one for one in listed if one["id"] == known.id]
    assert command("service", "tokens", "--data", data).err == ""
    assert (one["label"], one["ends_at"] - one["made_at"]) == ("till", 86400)
    rotated = command("service", "rotate", known.id, "--data", data, "--overlap-seconds", 0).out.strip()
    assert valid(data, text) is None
    assert valid(data, rotated).id == known.id
    assert command("service", "withdraw", known.id, "--data", data).status == 0
    assert valid(data, rotated) is None
    again = command("service", "withdraw", known.id, "--data", data)
    assert again.status != 0
    for wrong in (("--days", "nan"), ("--days", 0)):
        refused = command("service", "token", "--data", data, "--scopes", "decide", *wrong)
        assert refused.status != 0, wrong
    assert "no such token" in again.err
