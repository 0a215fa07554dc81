import sys
from typing import NamedTuple

import pytest

from dpbandits.cli import main


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
