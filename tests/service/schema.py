"""Every route with what its schema allows and what it does not, as schemathesis makes it up.

    python tests/service/schema.py EXAMPLES SEED [PHASES]

Starts a service that holds something of every kind, and sends its routes what schemathesis makes of the
OpenAPI document, with the first token, which has every scope. Prints what was found, as JSON; exits with 1
where an answer was a 5xx, had a status or a body that the document does not name, or let through what it
should refuse.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from service.conftest import AGNES, CUSTOMERS, OFFERS
from service.processes import ServerProcess, serving
from service.test_local import ASKED, PEOPLE
from service.test_outsourced import DOSES, PATIENTS, curator_of, release_of

COUNTS = re.compile(r"(\d+) generated")


CONFIG = """
# Members of a batch are judged each by itself: one that does not fit is a problem among the results.
[[operations]]
include-name = ["POST /v1/policies/{policy}/decisions:batch", "POST /v1/policies/{policy}/rewards:batch"]
checks.negative_data_rejection.enabled = false
"""


def filled(server: ServerProcess, folder: Path) -> None:
    """Something of every kind: as the examples of the document name it."""
    for path, body in (
        ("populations", CUSTOMERS),
        ("populations", PEOPLE),
        ("populations", {**PATIENTS, "privacy": {**PATIENTS["privacy"], "epsilon": 1000}}),
        ("policies", OFFERS),
        ("policies/offers/decisions", {"id": "visit-1", "user": "u-17", "context": AGNES}),
        ("local", ASKED),
        ("outsourced", DOSES),
    ):
        server.send("POST", f"/v1/{path}", body)
    server.send("PUT", "/v1/outsourced/doses/release", release_of(curator_of(), folder / "release"))
    server.send("POST", "/v1/outsourced/doses/questions", {"rows": [2]})


def run(examples: int, seed: int, phases: str) -> dict[str, Any]:
    """What schemathesis found."""
    with tempfile.TemporaryDirectory() as scratch, serving(Path(scratch) / "data") as server:
        filled(server, Path(scratch))
        (Path(scratch) / "schemathesis.toml").write_text(CONFIG)
        done = subprocess.run(
            [
                str(Path(sys.executable).with_name("schemathesis")),
                "run",
                f"{server.url}/openapi.json",
                *("-H", f"Authorization: Bearer {server.token}"),
                *("--max-examples", str(examples), "--seed", str(seed), "--generation-deterministic"),
                *("--phases", phases, "--suppress-health-check", "all", "--request-timeout", "120"),
                # what a schema cannot say (a box needs low < high) is refused with 422
                *("--exclude-checks", "positive_data_acceptance"),
            ],
            cwd=scratch,  # it leaves a cache where it runs
            env=os.environ | {"COLUMNS": "200"},
            capture_output=True,
            text=True,
            check=False,
        )
    cases = [int(one) for one in COUNTS.findall(done.stdout)]
    return {"failed": done.returncode != 0, "cases": sum(cases), "said": done.stdout}


def main(examples: int, seed: int, phases: str) -> None:
    found = run(examples, seed, phases)
    told = {"cases": found["cases"], "examples": examples, "seed": seed}
    sys.stdout.write(f"{found['said'][-6000:]}\n{json.dumps(told)}\n")
    sys.exit(found["failed"])


if __name__ == "__main__":
    main(
        int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "examples,coverage,fuzzing"
    )
