"""Lines of the log: text or JSON, each with the id of its request, and with nothing of a person."""

import json
import logging
import re
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest

from dpbandits.errors import InvalidParameter
from dpbandits.service.logs import LogLines
from dpbandits.service.settings import Settings
from service.conftest import Caller

TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture(params=["text", "json"])
def written(request: pytest.FixtureRequest) -> Iterator[StringIO]:
    """What is logged."""
    text, log = StringIO(), logging.getLogger("dpbandits.service")
    handler = logging.StreamHandler(text)
    handler.setFormatter(LogLines(as_json=request.param == "json"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    yield text
    log.removeHandler(handler)


def objects(written: StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in written.getvalue().splitlines()]


@pytest.mark.parametrize("written", ["json"], indirect=True)
def test_a_request_is_an_object_with_the_id_that_is_sent_back(written: StringIO, shop: Caller) -> None:
    reply = shop.get("/v1/policies/offers", X_Request_Id=TRACE)
    assert reply.headers["x-request-id"] == TRACE
    (line,) = (one for one in objects(written) if one.get("request") == TRACE)
    assert (line["method"], line["route"], line["status"]) == ("GET", "/v1/policies/{policy}", 200)
    assert line["ms"] > 0
    assert line["time"].endswith("+00:00")
    decided = shop.decide("v1")
    (line,) = (one for one in objects(written) if one.get("request") == decided.headers["x-request-id"])
    assert line["status"] == "answered"


@pytest.mark.parametrize("sent", ["u-17", "agnes@example.org", "a" * 65, "x y" * 7, "", "q" * 15])
def test_an_id_that_may_be_of_a_person_is_replaced(written: StringIO, shop: Caller, sent: str) -> None:
    found = shop.get("/v1/policies", X_Request_Id=sent).headers["x-request-id"]
    assert re.fullmatch("[0-9a-f]{32}", found)
    assert found in written.getvalue()
    assert not sent or sent not in written.getvalue()


def test_a_traceback_is_not_in_the_log(written: StringIO) -> None:
    try:
        raise ValueError("C4NARY")
    except ValueError:
        logging.getLogger("dpbandits.service").exception("failed")
    assert "ValueError" in written.getvalue()
    assert "C4NARY" not in written.getvalue()


@pytest.mark.parametrize("written", ["json"], indirect=True)
def test_a_defect_has_its_request_and_no_text_of_the_error(
    written: StringIO, shop: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise ValueError("C4NARY")

    monkeypatch.setattr("dpbandits.service.policies.described", broken)
    reply = shop.get("/v1/policies/offers", X_Request_Id=TRACE)
    assert (reply.status_code, reply.headers["x-request-id"]) == (500, TRACE)
    lines = [one for one in objects(written) if one.get("request") == TRACE]
    assert [line["level"] for line in lines] == ["ERROR", "INFO"]
    assert lines[0]["message"].startswith("defect: ValueError at ")
    assert "C4NARY" not in written.getvalue()


@pytest.mark.parametrize("written", ["text"], indirect=True)
def test_a_line_of_text_ends_with_the_id(written: StringIO, shop: Caller) -> None:
    shop.get("/v1/policies", X_Request_Id=TRACE)
    line = rf"INFO GET /v1/policies 200 [\d.]+ ms request={TRACE}$"
    assert re.search(line, written.getvalue(), re.MULTILINE)


def test_the_format_is_one_of_two() -> None:
    with pytest.raises(InvalidParameter, match="text or json"):
        Settings(log_format="xml")
