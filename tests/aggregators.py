"""Two aggregators in processes of their own, and devices that report: see `distributed/aggregators`."""

import json
import os
import secrets
import shutil
import signal
import subprocess
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any, Self

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from dpbandits.distributed import DapCollector, DapTask, DistributedSpec
from dpbandits.distributed.dap import DURATION

AGGREGATORS, NODE = Path(__file__).resolve().parent / "distributed" / "aggregators", shutil.which("node")
JS = Path(__file__).resolve().parents[1] / "js"
INSTALLED = NODE is not None and (AGGREGATORS / "node_modules").exists()
HOW = "`npm ci` in tests/distributed/aggregators installs what this needs, for Node 20 or newer"


def bundle() -> bytes:
    """Return the code of a page, one minified module: `js/src/distributed.js` with `@divviup/dap`."""
    program, script = AGGREGATORS / "node_modules" / ".bin" / "esbuild", JS / "src" / "distributed.js"
    options = ["--bundle", "--minify", "--format=esm", "--target=es2022", "--main-fields=module,main"]
    # Node's crypto is a fallback that browsers never load
    command = [str(program), str(script), *options, "--external:crypto"]
    there = os.environ | {"NODE_PATH": str(AGGREGATORS / "node_modules")}
    done = subprocess.run(command, capture_output=True, timeout=60, check=True, env=there)
    return done.stdout


def text(value: bytes) -> str:
    return urlsafe_b64encode(value).decode().rstrip("=")


class Pair:
    """A leader and a helper on this machine. `kill` ends one at any instruction, and `start` continues it.

    With `exact`, the rate of the noise is so large that every draw is zero but with probability 1e-43.
    """

    def __init__(self, spec: DistributedSpec, folder: Path, *, exact: bool = False) -> None:
        self.spec, self.folder, self.exact = spec, folder, exact
        self.running: dict[str, subprocess.Popen[str]] = {}
        self.addresses: dict[str, str] = {}
        self.tokens = {name: secrets.token_urlsafe() for name in ("helperToken", "collectorToken")}
        self.key = X25519PrivateKey.generate()
        versions = range(len(spec.reports_per_version))
        self.tasks = [DapTask.of(spec, version) for version in versions]
        self.tokens_of_tasks = [secrets.token_bytes(16) for _ in versions]
        self.keys = {role: X25519PrivateKey.generate() for role in ("leader", "helper")}

    def __enter__(self) -> Self:
        self.start("helper")
        self.start("leader")
        return self

    def __exit__(self, *_: object) -> None:
        for role in list(self.running):
            self.kill(role)

    def start(self, role: str) -> None:
        """Start an aggregator on its database, and on its earlier port if it had one."""
        own, earlier = self.keys[role], self.addresses.get(role, "http://127.0.0.1:0/")
        config = {
            "role": role,
            "spec": self.spec.to_json(),
            "exact": self.exact,
            "port": int(earlier.rstrip("/").rsplit(":", 1)[1]),
            "database": str(self.folder / f"{role}.db"),
            "helper": self.addresses.get("helper"),
            "keyId": 1,
            "privateKey": text(own.private_bytes_raw()),
            "publicKey": text(own.public_key().public_bytes_raw()),
            "collectorKey": text(self.key.public_key().public_bytes_raw()),
            "verifyKeys": [text(key) for key in self.tokens_of_tasks],
            **self.tokens,
        }
        path = self.folder / f"{role}.json"
        path.write_text(json.dumps(config))
        command = [str(NODE), "aggregator.js", str(path)]
        process = subprocess.Popen(command, cwd=AGGREGATORS, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        said = process.stdout.readline()
        if "One operator: no more than central." not in said:
            process.communicate()
            raise RuntimeError(said)
        self.running[role] = process
        self.addresses[role] = said.split()[1]

    def kill(self, role: str) -> None:
        process = self.running.pop(role)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()

    def collector(self) -> DapCollector:
        key = self.key.private_bytes_raw()
        token = self.tokens["collectorToken"]
        return DapCollector(self.spec, leader=self.addresses["leader"], token=token, private_key=key)

    def task(self, version: int) -> dict[str, Any]:
        """Return what a device needs to know of a version."""
        task = self.tasks[version]
        sizes = {"length": task.length, "chunk": task.chunk, "duration": DURATION}
        return {"id": task.name, **sizes, **self.addresses}

    def crowd(self, version: int, buckets: list[int]) -> "subprocess.Popen[str]":
        """Start devices that send these buckets; `acknowledged` waits for them."""
        question = {"task": self.task(version), "buckets": buckets}
        command = [str(NODE), "crowd.js"]
        process = subprocess.Popen(
            command, cwd=AGGREGATORS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(question) + "\n")
        process.stdin.close()
        process.stdin = None
        return process

    def send(self, version: int, buckets: list[int]) -> dict[str, Any]:
        return acknowledged(self.crowd(version, buckets))


def acknowledged(crowd: "subprocess.Popen[str]") -> dict[str, Any]:
    out, _ = crowd.communicate(timeout=600)
    found: dict[str, Any] = json.loads(out)
    return found
