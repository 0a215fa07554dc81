"""The device in JavaScript, driven from here through `js/test/serve.js`."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

JS = Path(__file__).resolve().parents[2] / "js"
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="there is no node: Debian's package nodejs has it")


def run(*arguments: str, text: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """A command of Node in js/, which has to end well."""
    done = subprocess.run(
        [str(NODE), *arguments],
        cwd=JS,
        input=text,
        capture_output=True,
        text=True,
        timeout=100,
        env=os.environ | environment,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done


def asked(questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Answers to questions, in one process: see `js/test/serve.js`."""
    lines = "".join(json.dumps(question) + "\n" for question in questions)
    return [json.loads(line) for line in run("test/serve.js", text=lines).stdout.splitlines()]
