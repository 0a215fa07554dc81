"""Refusals name what JSON has: no type, call or exception of Python."""

import copy
import re
from collections.abc import Iterator
from typing import Any

import pytest

from service.conftest import OFFERS, Caller
from service.test_actions import PRICED
from service.test_products import ASKED as SHOP
from service.test_scopes import ROUTES

PYTHON = re.compile(
    r"NoneType|Error\b|dtype|\btuple|\bdict|\b(an?|expected) (int|float|str|bool)\b|\bNone\b|\bpass \w+="
    r"|\w=[\"{(,: ]|\w\((?!s\))\w"
)
WRONG: tuple[Any, ...] = (None, [1, 2, 3], {})


def places(body: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every member of a JSON value, with the first of each list alone."""
    members: dict[Any, Any] = body if isinstance(body, dict) else {}
    if isinstance(body, list):
        members = dict(enumerate(body[:1]))
    for key, member in members.items():
        yield (*at, key)
        yield from places(member, (*at, key))


def changed(body: Any, at: tuple[Any, ...], value: Any) -> Any:
    found = copy.deepcopy(body)
    one = found
    for key in at[:-1]:
        one = one[key]
    one[at[-1]] = value
    return found


@pytest.mark.parametrize("body", [OFFERS, PRICED, SHOP], ids=["arms", "actions", "products"])
def test_what_does_not_fit_a_policy_is_said_in_the_words_of_json(shop: Caller, body: Any) -> None:
    said = set()
    for at in places(body):
        for value in WRONG:
            reply = shop.post("/v1/policies:preview", changed(body, at, value))
            if reply.status_code != 200:
                said.add(reply.json()["detail"])
    assert len(said) > 12
    assert not [one for one in said if PYTHON.search(one)]


def test_other_routes_speak_json_too(shop: Caller) -> None:
    said = set()
    for (method, _), (_, path, body) in ROUTES.items():
        for at in places(body):
            reply = shop(method.upper(), path, changed(body, at, [1, 2, 3]))
            assert reply.status_code < 500
            if reply.status_code >= 400:
                said.add(str(reply.json().get("detail", reply.json().get("errorDetails"))))
    assert len(said) > 20
    assert not [one for one in said if PYTHON.search(one)]
