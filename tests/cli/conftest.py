import sys
from typing import NamedTuple

import pytest

from dpbandits.audit import Guesses
from dpbandits.cli import main
from dpbandits.lab.worlds import TableBandit


class Done(NamedTuple):
    """What a command left."""

    status: int
    out: str
    err: str


@pytest.fixture
def command(monkeypatch, capfd):
    """The installed entry point, in this process: words -> `Done`."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["dpbandits", *map(str, words)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as left:
            main()
        return Done(left.value.code or 0, *capfd.readouterr())

    return run


@pytest.fixture
def policies_alone(monkeypatch):
    """Make a study of a table skip slow parts: the supervised ceiling, the attacks and the pictures."""
    monkeypatch.setattr(TableBandit, "supervised_ceiling", lambda *_: 0.5)
    monkeypatch.setattr(
        "dpbandits.lab.people.study.attack_reward", lambda *_, **__: Guesses(trials=20, correct=10, bound=1.0)
    )
    monkeypatch.setattr("dpbandits.lab.people.report.to_png", lambda _: b"a picture")
