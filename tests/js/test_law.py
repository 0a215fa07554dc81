"""The device in JavaScript makes the reports of the device in Python: the vectors, and its whole law.

A report is a function of the random words that a device reads, and depends on each of them only through the
interval between two thresholds that it lies in. So both ends of every interval stand for all 2^64 words, and
the lengths of the intervals are the law.
"""

import hashlib
import itertools
import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.local import Client, PublishedArms, ReadoutSpec, Spec
from dpbandits.privacy.reports import mechanism
from flat import spec_with
from js.driver import asked, needs_node

pytestmark = [needs_node, pytest.mark.numerics]

FOUND = json.loads(
    (Path(__file__).resolve().parents[2] / "reproduction" / "results" / "report-vectors.json").read_text()
)
VECTORS = FOUND["vectors"]
WORD = 1 << 64
EPSILONS = (1e-6, 0.1, 0.5, 1.0, math.log(3), 2.0, 4.0, 9.25, 16.0)
CELLS = (1, 2, 3, 8, 64, 1024)
LAWS = {
    "signed": lambda one: dict(zip(("same", "opposite", "theta"), one.rates, strict=True)),
    "krr": lambda one: {"keep": one.rates[0]},
    "oue": lambda one: {"q": one.rates[1]},
    "hadamard": lambda one: {"side": one.side},
    "laplace": lambda one: {"alpha": one.alpha},
    "paper-laplace": lambda one: {"alpha": one.alpha},
}


def test_the_vectors_come_out_byte_for_byte() -> None:
    rows = [(vector, one) for vector in VECTORS + FOUND["readouts"] for one in vector["reports"]]
    made = asked(
        [
            {
                "what": "report",
                "spec": vector["spec"],
                "published": vector["published"],
                **({"epsilon": vector["epsilon"]} if "epsilon" in vector else {}),
                **{name: one[name] for name in ("context", "reward", "random")},
            }
            for vector, one in rows
        ]
    )
    wanted = [{"arm": one["arm"], "report": one["report"], "left": 0} for _, one in rows]
    assert made == wanted
    every = VECTORS + FOUND["readouts"]
    contracts = asked([{"what": "contract", "spec": vector["spec"]} for vector in every])
    assert [one["fingerprint"] for one in contracts] == [vector["fingerprint"] for vector in every]
    assert [one["digest"] for one in contracts] == [vector["digest"] for vector in every]


def test_digests_are_those_of_hashlib() -> None:
    cases = [(bytes(range(256)) * 2)[:length] for length in (0, 1, 127, 128, 129, 256, 300)]
    made = asked([{"what": "digest", "bytes": one.hex(), "size": 32} for one in cases])
    assert [one["digest"] for one in made] == [
        hashlib.blake2b(one, digest_size=32).hexdigest() for one in cases
    ]


def test_thresholds_are_equal_to_the_last_bit() -> None:
    grid = [
        (name, cells, epsilon)
        for name in LAWS
        for cells in CELLS
        for epsilon in EPSILONS
        if "laplace" not in name or epsilon > 0.01
    ]
    made = asked(
        [{"what": "law", "name": name, "cells": cells, "epsilon": epsilon} for name, cells, epsilon in grid]
    )
    for (name, cells, epsilon), found in zip(grid, made, strict=True):
        one = mechanism(name, n_cells=cells, epsilon=epsilon)
        wanted = {key: str(rate * WORD) for key, rate in LAWS[name](one).items()}
        assert found["thresholds"] == wanted, (name, cells, epsilon)
        if "laplace" in name:
            assert found["entry"] == one.clamp.entry


def test_the_rule_that_names_a_mechanism_and_the_parts_is_the_same() -> None:
    box = dpb.Box(low=[0], high=[1])
    for_auto = [(cells, epsilon) for cells in CELLS for epsilon in EPSILONS]
    made = asked([{"what": "law", "name": "auto", "cells": n, "epsilon": epsilon} for n, epsilon in for_auto])
    common: dict[str, Any] = {"contexts": box, "arms": range(2), "max_leaves": 2048}
    specs = [
        spec_with(**common, privacy=dpb.LocalDP(epsilon=epsilon), learner="tree") for _, epsilon in for_auto
    ]
    assert [one["name"] for one in made] == [
        spec.protocol.mechanism_for(n).name for spec, (n, _) in zip(specs, for_auto, strict=True)
    ]
    asking = [
        spec_with(**common, privacy=dpb.LocalDP(epsilon=epsilon), learner="questions", mechanism=name)
        for epsilon in EPSILONS[1:]
        for name in ("auto", *LAWS)
        if "laplace" not in name or epsilon > 0.05
    ]
    found = asked([{"what": "contract", "spec": spec.to_json()} for spec in asking])
    assert [one["parts"] for one in found] == [spec.protocol.grids.n_parts for spec in asking]


def test_grids_have_the_same_cells() -> None:
    specs = []
    for ranges, categories in itertools.product(range(4), ((), (2,), (3, 5), (7, 11))):
        columns: dict[str, Any] = {f"x{j}": dpb.Range(0, 1) for j in range(ranges)}
        columns |= {f"c{j}": dpb.Categories(list(range(n))) for j, n in enumerate(categories)}
        if columns:
            people = dpb.Schema(**columns)
            promise = dpb.LocalDP(epsilon=1)
            specs.append(Spec(contexts=people, arms=["a", "b"], privacy=promise))
    specs = [spec for spec in specs if spec.protocol.asks and not spec.protocol.grids.names_columns]
    assert len(specs) > 8
    found = asked([{"what": "contract", "spec": spec.to_json()} for spec in specs])
    assert [one["sizes"] for one in found] == [list(spec.protocol.grids.whole.sizes) for spec in specs]


def intervals(*thresholds: int) -> list[tuple[int, int]]:
    """Half-open intervals of words between thresholds."""
    edges = sorted({0, WORD, *thresholds})
    return list(itertools.pairwise(edges))


def laws_of_words(name: str, cells: int, one: Any) -> list[list[tuple[int, int]]]:
    """Intervals of every word that a report of this mechanism reads."""
    cuts = {key: int(rate * WORD) for key, rate in LAWS[name](one).items()}
    if name == "signed":
        theta, same, both = cuts["theta"], cuts["same"], cuts["same"] + cuts["opposite"]
        return [intervals(theta, 2 * theta, same, both)] * cells
    if name == "oue":
        return [intervals(cuts["q"], WORD // 2)] * (2 * cells)
    if name == "hadamard":  # of the second word the lowest bits count: all of them, and one with high bits
        order = 1 << (2 * cells + 1).bit_length()
        return [intervals(cuts["side"]), [(k, k + 1) for k in range(order)]]
    others = 2 * cells - 1  # of the second word its remainder counts, below the last multiple
    return [intervals(cuts["keep"]), [(k, k + 1) for k in range(others)]]


@pytest.mark.parametrize("name", ["signed", "krr", "oue", "hadamard"])
@pytest.mark.parametrize(
    ("cells", "epsilon"), [(1, 1.0), (2, 4.0), pytest.param(3, 0.5, marks=pytest.mark.slow)]
)
def test_over_all_words_the_law_is_that_of_python(name: str, cells: int, epsilon: float) -> None:
    one = mechanism(name, n_cells=cells, epsilon=epsilon)
    words = laws_of_words(name, cells, one)
    questions, wanted, shares = [], [], []
    for cell, positive in itertools.product(range(cells), (True, False)):
        for some in itertools.product(*words):
            share = math.prod(Fraction(high - low, WORD) for low, high in some)
            ends = [[low for low, _ in some], [high - 1 for _, high in some]]
            for drawn in ends if ends[0] != ends[1] else ends[:1]:
                random = b"".join(word.to_bytes(8, "little") for word in drawn)
                left = iter(drawn)
                payload = one.encode(
                    cell,
                    positive=positive,
                    words=lambda n, left=left: np.array(list(itertools.islice(left, n)), dtype=np.uint64),
                )
                questions.append(
                    {
                        "what": "encode",
                        "name": name,
                        "cells": cells,
                        "epsilon": epsilon,
                        "cell": cell,
                        "positive": positive,
                        "random": random.hex(),
                    }
                )
                wanted.append({"payload": payload.hex(), "left": 0})
            shares.append((cell, positive, payload, share))
    assert asked(questions) == wanted
    # And what was enumerated is everything: its shares are the likelihoods that the audits rest on.
    scale = {"krr": Fraction(WORD, 2 * cells - 1), "hadamard": Fraction(WORD, len(words[-1]))}.get(name, 1)
    total: dict[Any, Fraction] = {}
    for cell, positive, payload, share in shares:
        key = (cell, positive, payload)
        total[key] = total.get(key, Fraction(0)) + share * scale
    for (cell, positive, payload), share in total.items():
        assert share == one.likelihood(payload, cell, positive=positive)


@pytest.mark.parametrize("name", ["laplace", "paper-laplace"])
def test_over_coins_the_laplace_noise_is_that_of_python(name: str) -> None:
    """Up to two heads, and runs longer than what is drawn at once; both ends of both intervals."""
    one = mechanism(name, n_cells=1, epsilon=1.0)
    alpha = int(one.alpha * WORD)
    heads, tail = (0, alpha - 1), (alpha, WORD - 1)
    questions, wanted = [], []
    for runs in itertools.product((0, 1, 2, 9), repeat=4):
        for end, positive in itertools.product((0, 1), (True, False)):
            coins = [[heads[end]] * run + [tail[end]] * (16 - run) for run in runs]
            drawn = [word for row in coins for word in row[:8]]
            drawn += [word for row, run in zip(coins, runs, strict=True) if run >= 8 for word in row[8:]]
            left = iter(drawn)
            payload = one.encode(
                0,
                positive=positive,
                words=lambda n, left=left: np.array(list(itertools.islice(left, n)), dtype=np.uint64),
            )
            random = b"".join(word.to_bytes(8, "little") for word in drawn).hex()
            asking = {"what": "encode", "name": name, "cells": 1, "epsilon": 1.0, "cell": 0}
            questions.append(asking | {"positive": positive, "random": random})
            wanted.append({"payload": payload.hex(), "left": 0})
    assert asked(questions) == wanted


class Given:
    """Bytes in place of the operating system's."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng, self.read = rng, b""

    def __call__(self, n: int) -> bytes:
        drawn = self._rng.bytes(n)
        self.read += drawn
        return drawn


PEOPLE = dpb.Schema(
    age=dpb.Range(18, 90),
    region=dpb.Categories(["north", "south", "west"], missing="west"),
    owns=dpb.Categories([True, False]),
    rooms=dpb.Range(0, 9, missing=3),
)


def contracts() -> list[tuple[Spec | ReadoutSpec, PublishedArms]]:
    """Contracts of every kind, and a version of each."""
    rng = np.random.default_rng(5)
    promise, made = dpb.LocalDP(epsilon=1), []
    splits = (0, 1, 2, 5, 3, 8)
    keyed = {"learner": "ma2025-printed", "n_users": 100}
    for learner, seed in (({"learner": "tree"}, 0), (keyed, 7), (keyed, 2**70)):
        common: dict[str, Any] = {"privacy": promise, "seed": seed, **learner}
        spec = spec_with(contexts=PEOPLE, arms=["mail", "call", "none"], **common)
        made.append((spec, PublishedArms(version=1, splits=splits, arms=rng.integers(3, size=7))))
        spec = spec_with(
            contexts=dpb.Box(low=[-3, 0], high=[5, 1e-3]), arms=range(4), chooser="client", **common
        )
        chances = rng.dirichlet(np.full(4, 0.4), size=7)
        chances[2] = [0, 0, 1, 0]
        made.append((spec, PublishedArms(version=2, splits=splits, weights=chances)))
    asking = Spec(contexts=PEOPLE, arms=[1, 2.5, "none"], privacy=promise, reward_range=(-2, 9))
    made.append((asking, dpb.local.Server(asking).publish()))
    own: dict[str, Any] = {"privacy": promise, "n_users": 100, "reward_range": (0, 4), "missing": 1}
    readouts = [
        ReadoutSpec(target=spec, policy=version, control=spec.arms[1], share=0.4, seed=3, **own)
        for spec, version in made
    ]
    return [*made, *((one, one.policy) for one in readouts)]


CONTEXTS: list[Any] = [
    {"age": 44, "region": "south", "owns": True, "rooms": 2},
    {"age": 17.5, "region": "north", "owns": 0, "rooms": 99},
    {"age": 90, "region": None, "owns": False, "rooms": None},
    {"age": 53.99999999999999, "region": "NaN", "owns": 1, "rooms": ""},
    {"age": "44", "region": "south", "owns": True, "rooms": 2},
    {"age": None, "region": "south", "owns": True, "rooms": 2},
    {"region": "south", "owns": True, "rooms": 2},
    {"age": 44, "region": "east", "owns": True, "rooms": 2},
    {"age": 44, "region": "south", "owns": "True", "rooms": 2},
    [30, "west", True, 4],
    [30, "west"],
    [1.5, 0.0005],
    [-9, 1],
    [1, 5e-4],
    [None, 0],
    {},
    "age",
    None,
    7,
]
AVAILABLE: list[Any] = [None, ["mail"], ["call", "none"], [1], [2.5, True], [0, 3], [], ["what"], "mail", 3]


def test_all_that_a_person_may_bring_is_read_alike() -> None:
    rng = np.random.default_rng(11)
    questions, wanted = [], []
    for spec, published in contracts():
        pairs = [
            (context, one) for context in CONTEXTS for one in rng.choice(len(AVAILABLE), 2, replace=False)
        ]
        pairs += [(context, place) for context in CONTEXTS[:1] for place in range(len(AVAILABLE))]
        for context, available in ((context, AVAILABLE[place]) for context, place in pairs):
            reward = [None, 0, 1, 0.3, -5, 8.75, True, "1"][rng.integers(8)]
            client, source = Client(spec), Given(rng)
            with patch("os.urandom", source):
                arm = client.choose(published, context, available=available)
                report = client.report(reward)
            texts = {
                "spec": spec.to_json(),
                "published": published.to_json(spec),
                "random": source.read.hex(),
            }
            person = {"context": context, "available": available, "reward": reward}
            questions.append({"what": "report", **texts, **person})
            wanted.append({"arm": arm, "report": report.hex(), "left": 0})
    found = asked(questions)
    for question, one, other in zip(questions, found, wanted, strict=True):
        assert one == other, {name: question[name] for name in ("context", "available", "reward")}


def changed(text: str, **changes: Any) -> str:
    return json.dumps(json.loads(text) | changes, sort_keys=True)


def test_what_is_not_offered_is_refused_by_name() -> None:
    vector = VECTORS[0]
    spec, published = vector["spec"], vector["published"]
    days = dpb.Schema(day=dpb.DateRange("2024-01-01", "2024-12-31"), age=dpb.Range(0, 1))
    dates = Spec(contexts=days, arms=["a", "b"], privacy=dpb.LocalDP(epsilon=1), learner="tree")
    hour = dpb.Schema(hour=dpb.Cycle(24))
    hours = Spec(contexts=hour, arms=["a", "b"], privacy=dpb.LocalDP(epsilon=1), learner="tree")
    tuning = json.loads(spec)["tuning"]
    refusals = {
        "not offered: contract GPSpec": {"spec": changed(spec, kind="GPSpec")},
        "not offered: mechanism duchi": {"spec": changed(spec, tuning=tuning | {"mechanism": "duchi"})},
        "not offered: column DateRange": {"spec": dates.to_json()},
        "not offered: column Cycle": {"spec": hours.to_json()},
        "malformed: contract": {"spec": changed(spec, epsilons=[0.5])},
        "malformed: version": {"spec": spec, "published": changed(published, arms=[0, 1, 2, 3, 0])},
        "pinned: another contract": {
            "spec": spec,
            "published": changed(published, spec="00000000"),
        },
        "law: epsilon": {"spec": changed(spec, privacy={"kind": "LocalDP", "epsilon": 17.0})},
    }
    plain = {"what": "report", "context": [1, 2], "reward": 1, "random": "", "published": published}
    questions = [plain | one for one in refusals.values()]
    for one in questions:  # a version follows its contract
        if "spec" in one and one["published"] is published and one["spec"] != spec:
            digest = hashlib.blake2b(one["spec"].encode(), digest_size=4).hexdigest()
            one["published"] = changed(published, spec=digest)
    questions[-1]["random"] = "00" * 1000
    assert [one.get("message") for one in asked(questions)] == list(refusals)


@pytest.mark.parametrize(
    "changes",
    [
        {"arms": [0, 1, 2]},
        {"arms": [0, 1, 2, 0, 3]},
        {"arms": None, "weights": [[1, 0, 0]] * 5},
        {"splits": [0, 0, 1, 2]},
        {"splits": [0, 9, 1, 2]},
        {"splits": [1]},
        {"version": -1},
        {"version": 2**32},
        {"kind": "PublishedQuestions"},
    ],
)
def test_a_version_that_python_refuses_is_refused(changes: dict[str, Any]) -> None:
    vector = VECTORS[0]
    published = changed(vector["published"], **changes)
    with pytest.raises(dpb.errors.IncompatibleState):
        PublishedArms.from_json(published, Spec.from_json(vector["spec"]))
    question = {"what": "report", "spec": vector["spec"], "published": published}
    [answer] = asked([question | {"context": [1, 2], "reward": 1, "random": "00" * 999}])
    assert answer["refused"] == "malformed"
