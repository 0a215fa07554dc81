"""Test vectors of the byte formats (contracts, versions, reports, sums, tags) from given random bytes.

    python -m reproduction.studies.report_vectors --out reproduction/results/report-vectors.json

A device reads its random bytes from a stream here: block k is SHA-256 of the vector's name, a zero byte and k
in eight bytes, little-endian. The page docs/reference/byte-formats.md says what the numbers are.
"""

import argparse
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import numpy as np

import dpbandits as dpb
from dpbandits.local import Client, PublishedArms, ReadoutSpec, ReportCounts, ReportKey, Spec, SpecTuning
from dpbandits.local.contract.grid import PublishedQuestions

KEY = bytes(range(32))
BOX = dpb.Box(low=[18, 0], high=[90, 1])
PEOPLE = dpb.Schema(age=dpb.Range(18, 90), region=dpb.Categories(["north", "south", "west"]))
SPLITS = (0, 1, 2, 5)
BINS = {"splits": SPLITS, "arms": np.array([2, 0, 1, 1, 0])}
WEIGHTS = {"splits": (0,), "weights": np.array([[0.5, 0.25, 0.25], [0.0, 0.125, 0.875]])}
POINTS = [([34, 0.7], 1.0), ([90, 0.0], 0.25), ([17, 2.0], 7.0), ([54, 0.5], 0.0)]
MANY = dpb.Schema(
    **{f"x{place}": dpb.Range(0, 1) for place in range(6)}, region=dpb.Categories(["north", "south", "west"])
)
OF_MANY = [
    ({f"x{place}": 0.15 * place for place in range(6)} | {"region": region}, reward)
    for region, reward in (("west", 1.0), ("north", 0.0))
]
PERSONS = [({"age": 44, "region": "south"}, 1.0), ({"age": 90, "region": "west"}, 0.0)]


class Stream:
    """Random bytes of a name; `given` is what was read."""

    def __init__(self, name: str) -> None:
        self._name, self._blocks, self._left, self.given = name.encode() + b"\0", 0, b"", b""

    def __call__(self, n: int) -> bytes:
        while len(self._left) < n:
            self._left += hashlib.sha256(self._name + self._blocks.to_bytes(8, "little")).digest()
            self._blocks += 1
        taken, self._left = self._left[:n], self._left[n:]
        self.given += taken
        return taken


def cases():
    """Name -> spec, published version, [(context, reward)], the class of epsilon or None."""
    common = {
        "contexts": BOX,
        "arms": range(3),
        "privacy": dpb.LocalDP(epsilon=2.0),
        "learner": "tree",
        "seed": 7,
    }
    names = ("signed", "krr", "oue", "hadamard", "laplace", "paper-laplace")
    specs = {name: (Spec(**common, tuning=SpecTuning(mechanism=name)), BINS, POINTS, None) for name in names}
    keyed = Spec(**common | {"learner": "ma2025-printed"}, n_users=100, tuning=SpecTuning(mechanism="krr"))
    client = Spec(**common, chooser="client", tuning=SpecTuning(mechanism="krr"))
    classes = Spec(**common, epsilons=(0.5, 2.0), tuning=SpecTuning(mechanism="signed"))
    people = Spec(
        contexts=PEOPLE, arms=["mail", "call", "none"], privacy=dpb.LocalDP(epsilon=1.0), learner="tree"
    )
    asking = Spec(**{**common, "learner": "questions"}, tuning=SpecTuning(constants={"parts": 2.0}))
    bit = Spec(contexts=PEOPLE, arms=["mail", "call"], privacy=dpb.LocalDP(epsilon=1.0), learner="questions")
    many = Spec(contexts=MANY, arms=["mail", "call"], privacy=dpb.LocalDP(epsilon=4.0), learner="questions")
    return specs | {
        "keyed-ties": (keyed, BINS, POINTS, None),
        "client-chooses": (client, WEIGHTS, POINTS, None),
        "classes": (classes, BINS, POINTS, 0.5),
        "people": (people, BINS, PERSONS, None),
        "missing": (specs["signed"][0], BINS, [([34, 0.7], None), ([34, None], 1.0), ([50, 0.5], 1.0)], None),
        "questions": (asking, {"about": "reward"}, POINTS, None),
        "place": (asking, {"about": "place"}, POINTS[:2], None),
        "one-bit": (bit, {"about": "reward"}, PERSONS, None),
        "columns": (many, {"about": "reward", "columns": (4, 6)}, OF_MANY, None),
    }


def readouts():
    """Name -> readout, [(context, outcome)]: of bins, of a policy that clients draw from, of questions."""
    targets = cases()
    own = {"privacy": dpb.LocalDP(epsilon=1.0), "n_users": 1000}
    outcomes = (1.0, None, 0.25, 7.0, -1.0, 0.0)
    for name, target, control, changes in (
        ("readout-bins", "krr", 0, {"share": 0.5}),
        ("readout-drawn", "client-chooses", 2, {"share": 0.25, "reward_range": (-1, 3), "missing": 1}),
        ("readout-questions", "one-bit", "call", {"share": 0.75, "seed": 2}),
    ):
        spec, made, rows, _ = targets[target]
        policy = published_of(spec, made)
        readout = ReadoutSpec(target=spec, policy=policy, control=control, **own | changes)
        yield name, readout, [(rows[k % len(rows)][0], outcome) for k, outcome in enumerate(outcomes)]


def published_of(spec, made):
    """A version made up here."""
    if "about" not in made:
        return PublishedArms(version=3, **made)
    columns = made.get("columns", ())
    grids = spec.protocol.grids
    cell = np.arange((grids.over(columns) if columns else grids.whole).size)
    rows = {"arms": cell * 7 % spec.n_arms, "parts": cell // 3 % grids.n_parts, "turned": cell * 5 % 7 < 3}
    return PublishedQuestions(version=4, **rows, **made)


def device(spec, epsilon) -> Callable[..., tuple[object, bytes, bytes]]:
    """Context, reward, version, stream -> arm, report, and the random bytes read."""

    def report(published, context, reward, stream):
        client = Client(spec, privacy=None if epsilon is None else dpb.LocalDP(epsilon=epsilon))
        with patch("os.urandom", stream):
            arm = client.choose(published, context)
            made = client.report(reward)
        return arm, made, stream.given

    return report


def made() -> dict[str, object]:
    """All vectors."""
    vectors = []
    for name, (spec, own, rows, epsilon) in cases().items():
        published = published_of(spec, own)
        counts, reports = ReportCounts(spec, [published]), []
        for place, (context, reward) in enumerate(rows):
            arm, report, given = device(spec, epsilon)(published, context, reward, Stream(f"{name}/{place}"))
            row = {"context": context, "reward": reward, "arm": arm}
            reports.append(row | {"random": given.hex(), "report": report.hex()})
        counts.absorb([bytes.fromhex(one["report"]) for one in reports])
        kind = 0 if epsilon is None else spec.epsilons.index(epsilon)
        mechanism = spec.protocol.counted_by(published)[kind]
        sums = counts.versions[published.version].sums[kind]
        signed, count = mechanism.estimate(sums, len(rows))
        vectors.append(
            {
                "name": name,
                "spec": spec.to_json(),
                "fingerprint": spec.fingerprint,
                "digest": spec.digest.hex(),
                "published": published.to_json(spec),
                "mechanism": mechanism.name,
                "cells": mechanism.n_cells,
                "epsilon": mechanism.epsilon,
                "reports": reports,
                "sums": sums.tolist(),
                "signed": signed.tolist(),
                "count": count.tolist(),
                "tagged": ReportKey(KEY).signed(bytes.fromhex(reports[0]["report"]), spec).hex(),
            }
        )
    compared = []
    for name, spec, rows in readouts():
        published, reports = spec.policy, []
        for place, (context, outcome) in enumerate(rows):
            arm, report, given = device(spec, None)(published, context, outcome, Stream(f"{name}/{place}"))
            row = {"context": context, "reward": outcome, "arm": arm}
            reports.append(row | {"random": given.hex(), "report": report.hex()})
        counts = ReportCounts(spec, [published])
        counts.absorb([bytes.fromhex(one["report"]) for one in reports])
        sums = [[0, 0] if one is None else one.tolist() for one in counts.versions[0].sums]
        texts = {"spec": spec.to_json(), "published": published.to_json(spec)}
        digests = {"fingerprint": spec.fingerprint, "digest": spec.digest.hex()}
        compared.append({"name": name} | texts | digests | {"reports": reports, "sums": sums})
    return {
        "command": "python -m reproduction.studies.report_vectors",
        "key": KEY.hex(),
        "vectors": vectors,
        "readouts": compared,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.parse_args().out.write_text(json.dumps(made(), indent=1) + "\n")
