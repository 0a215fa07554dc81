"""Natural mistakes, as `mistakes.txt` lists them, and what the library answers.

    PYTHONPATH=tests python tests/messages/mistakes.py            # every row with the message that it gets
    PYTHONPATH=tests python tests/messages/mistakes.py Matern     # only rows with this text

`docs/reference/error-messages.md` shows the same table, and `test_mistakes.py` judges it.
"""

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pandas as pd

import dpbandits as dpb
from dpbandits.cli import main

__all__ = ["MISTAKES", "PRELUDE", "SECRETS", "Answer", "Mistake", "answer", "as_markdown", "place"]

SECRETS = ("s3cret", "7777")
"""Stand for private values in the rows."""


class Mistake(NamedTuple):
    """What somebody writes.

    Attributes:
        room: promises, tables, central, keeping, local, outsourced, lab or commands.
        title: what went wrong, in the words of the one who did it.
        code: at most three lines of Python, or a command line that begins with `dpbandits`.
        says: texts that the message must hold, what came and what to do among them; none where the
            mistake is understood.
    """

    room: str
    title: str
    code: str
    says: tuple[str, ...] = ()


class Answer(NamedTuple):
    """What came back.

    Attributes:
        kind: of the error; empty where the mistake was understood.
        message: its text.
        ours: whether the library raised it on purpose: one of its own errors, or an AttributeError in its own
            words.
    """

    kind: str
    message: str
    ours: bool


PRELUDE = {
    "people": 'dpb.Schema(age=dpb.Range(18, 90), region=dpb.Categories(["north", "south", "west"]))',
    "person": '{"age": 44, "region": "west"}',
    "promise": "dpb.JointDP(epsilon=1, delta=1e-6)",
    "usual": 'dict(contexts=people, arms=["mail", "call"], reward_range=(0, 1), horizon=1000, '
    "privacy=promise)",
    "policy": "dpb.central.GPBandit(**usual)",
    "decision": 'policy.ask(person, user="u-1")',
    "box": "dpb.Box([0, 0], [1, 1])",
    "kernel": "dpb.kernels.Matern(nu=2.5, lengthscale=0.3)",
    "search": "dpb.central.GPBandit(domain=box, kernel=kernel, reward_range=(0, 1), horizon=1000, "
    "privacy=promise)",
    "C": "np.random.default_rng(0).random((4, 2))",
    "spec": 'dpb.local.Spec(contexts=people, arms=["mail", "call"], privacy=dpb.LocalDP(epsilon=1))',
    "client": "dpb.local.Client(spec)",
    "server": "dpb.local.Server(spec)",
    "published": "server.publish()",
    "rows": '{"x": [0.1, 0.5], "y": [1.0, 2.0]}',
    "shape": "dict(contexts=dpb.Schema(x=dpb.Range(0, 1)), privacy=dpb.RowDP(epsilon=1, distance=0.1), "
    'objective="y")',
    "curator": "dpb.outsourced.Curator(rows, **shape)",
    "ledger": "dpb.MemoryLedger()",
    "world": 'dpb.lab.worlds.load("synthetic-income", seed=1_000_000, horizon=200)',
}
"""Name in the rows -> what it is. Every row makes what it uses anew."""


def _read(text: str) -> Iterator[Mistake]:
    """The rows of `mistakes.txt`."""
    room = ""
    for block in text.split("\n\n")[1:]:
        head, *rest = block.splitlines()
        if head.startswith("== "):
            room = head[3:]
            continue
        says = rest.pop()[2:].split(" | ") if rest[-1].startswith("> ") else []
        yield Mistake(room, head[2:], "\n".join(rest), tuple(says))


MISTAKES = tuple(_read(Path(__file__).with_name("mistakes.txt").read_text("utf-8").rstrip()))


@contextlib.contextmanager
def place() -> Iterator[None]:
    """A folder with the files that the rows name, as the present one."""
    rng = np.random.default_rng(0)
    cells = [f"p{i},{a:.3f},{i % 2},{r:.3f}" for i, (a, r) in enumerate(rng.random((30, 2)))]
    header = "id,age,arm,reward"
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            Path("folder").mkdir()
            Path("log.csv").write_text("\n".join([header, *cells]) + "\n")
            Path("text.csv").write_text("\n".join([header, *cells, "p,s3cret,0,0.5"]) + "\n")
            Path("wrong.toml").write_text("= 3")
            Path("half.toml").write_text('path = "log.csv"\n[columns.age]\nlow = 0\nhigh = 1\n')
            log = '[log]\narm = "arm"\narms = [0, 1]\nreward = "reward"\n'
            known = 'path = "log.csv"\nhorizon = 9\n[columns.age]\nlow = 0\nhigh = 1\n'
            Path("logged.toml").write_text(known + log)
            given = "".join(f"[columns.{name}]\nlow = 0\nhigh = 1\n" for name in ("arm", "reward"))
            Path("given-away.toml").write_text(known + given + log)
            Path("half.json").write_text('{"policy": "central.GPBandit", "horizon": 3}')
            Path("spec.json").write_text("{}")
            yield
        finally:
            os.chdir(before)


class _Names(dict[str, Any]):
    """What the rows use, made when it is first asked for."""

    def __missing__(self, name: str) -> Any:
        self[name] = eval(PRELUDE[name], {"dpb": dpb, "np": np}, self)  # noqa: S307 - of this file
        return self[name]


def answer(mistake: Mistake) -> Answer:
    """What the library answers, in a folder as `place` makes it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _command(mistake.code) if mistake.room == "commands" else _python(mistake.code)


def _python(code: str) -> Answer:
    try:
        exec(code, {"dpb": dpb, "np": np, "pd": pd, "without": _without}, _Names())  # noqa: S102 - of this file
    except dpb.errors.DPBanditsError as error:
        return Answer(type(error).__name__, str(error), ours=True)
    except AttributeError as error:
        return Answer("AttributeError", str(error), ours=_raised_in(error.__traceback__, "dpbandits"))
    except Exception as error:  # noqa: BLE001 - it is judged
        return Answer(type(error).__name__, str(error), ours=False)
    return Answer("", "", ours=True)


def _without(package: str) -> Any:
    """As if a package were not installed."""
    return mock.patch.dict(sys.modules, {package: None})


def _raised_in(trace: TracebackType | None, package: str) -> bool:
    frames = [frame for frame, _ in traceback.walk_tb(trace)]
    return str(frames[-1].f_globals.get("__name__")).split(".")[0] == package


def _command(line: str) -> Answer:
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", shlex.split(line)),
        mock.patch.dict(os.environ, COLUMNS="1000", NO_COLOR="1"),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as left:
            status = left.code or 0
    said = " ".join(err.getvalue().split())
    kind, _, message = said.partition(": ") if status == 1 else ("usage", "", said)
    return Answer(
        kind if status else "", message or said, ours=status in (0, 1, 2) and "Traceback" not in said
    )


def as_markdown(room: str) -> str:
    """The mistakes of a room and what is answered, as a table."""
    lines = ["| mistake | code | answer |", "|---|---|---|"]
    for one in (one for one in MISTAKES if one.room == room):
        with place():
            got, here = answer(one), f"{Path.cwd()}/"
        said = f"**{got.kind}**: {_text(got.message.replace(here, ''))}" if got.kind else "*understood*"
        code = "<br>".join(f"`{line}`" for line in one.code.splitlines())
        lines.append(f"| {one.title} | {_cell(code)} | {_cell(said)} |")
    return "\n".join(lines)


def _text(message: str) -> str:
    """A message as Markdown shows it as it is."""
    return re.sub(r"([\\`*_{}\[\]<>#$~])", r"\\\1", message)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    for row in MISTAKES:
        if all(word in f"{row}" for word in sys.argv[1:]):
            with place():
                reply = answer(row)
            sys.stdout.write(f"{row.code}\n    {reply.kind or 'understood'}: {reply.message}\n")
