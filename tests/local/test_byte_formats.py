"""The byte formats: a device makes the vectors byte for byte, and a reader of the page alone agrees.

Between the two lines of dashes nothing but the standard library is used: it is what somebody writes who has
only docs/reference/byte-formats.md.
"""

import base64
import hashlib
import json
import math
import re
from decimal import Decimal, localcontext
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from dpbandits.domains import Box
from dpbandits.local import (
    Client,
    PublishedArms,
    ReadoutSpec,
    ReportCounts,
    ReportKey,
    Server,
    SourceClient,
    SourceSpec,
    Spec,
)
from dpbandits.privacy import LocalDP

FILE = Path(__file__).resolve().parents[2] / "reproduction" / "results" / "report-vectors.json"
FOUND = json.loads(FILE.read_text())
VECTORS = {one["name"]: one for one in FOUND["vectors"]}
READOUTS = {one["name"]: one for one in FOUND["readouts"]}

# -----------------------------------------------------------------------------------------------------

WORD = 1 << 64


def lattice(value):
    return math.floor(value * WORD)


def rates(name, cells, epsilon):
    """Thresholds of a mechanism, in 64ths of two to the power of 64."""
    with localcontext(prec=80):
        raised = Decimal(epsilon * (1 - 1e-9)).exp()
        grown = raised - 1
        if name == "signed":
            theta = min(Decimal("0.4"), ((2 + (grown + 2) / cells) / (2 * grown**2)).sqrt())
            whole = 1 + grown * theta
            return lattice(raised * theta / whole), lattice(theta / whole), lattice(theta)
        return {
            "laplace": (lattice((Decimal(-epsilon * (1 - 1e-9)) / 2).exp()) + 1,),
            "paper-laplace": (lattice((Decimal(-epsilon * (1 - 1e-9)) / 4).exp()) + 1,),
            "krr": (lattice(raised / (raised + 2 * cells - 1)),),
            "hadamard": (lattice(raised / (raised + 1)),),
            "oue": (lattice(1 / (raised + 1)) + 1,),
        }[name]


def variance(name, cells, epsilon):
    if name == "signed":
        a, b, theta = (part / WORD for part in rates(name, cells, epsilon))
        return ((a + b) + (cells - 1) * 2 * theta) / cells / (a - b) ** 2
    p = rates("krr", cells, epsilon)[0] / WORD
    q = (1 - p) / (2 * cells - 1)
    return ((p + q) + (cells - 1) * 2 * q) / cells / (p - q) ** 2


def chosen(name, cells, epsilon):
    if name != "auto":
        return name
    return "krr" if variance("krr", cells, epsilon) < variance("signed", cells, epsilon) else "signed"


def unit(spec, context):
    """The context in the unit cube, and cells a category; None for what cannot be read."""
    contexts = spec["contexts"]
    if contexts["type"] == "Box":
        rows = zip(context, contexts["low"], contexts["high"], strict=True)
        codes = {}
        point = [x if x is None else min(max((x - low) / (high - low), 0.0), 1.0) for x, low, high in rows]
    else:
        point, codes = [], {}
        for place, column in enumerate(contexts["columns"]):
            value = context[column["name"]]
            if column["type"] == "Range":
                share = (value - column["low"]) / (column["high"] - column["low"])
                point.append(min(max(share, 0.0), 1.0))
            else:
                codes[place] = len(column["values"])
                point.append((column["values"].index(value) + 0.5) / codes[place])
    return (None if None in point else point), codes


def columns_of(spec):
    return len(spec["contexts"]["low"] if spec["contexts"]["type"] == "Box" else spec["contexts"]["columns"])


def leaf(spec, splits, point):
    """The place of the point's bin among all bins."""
    boxes, children = {0: [[0.0, 1.0] for _ in point]}, {}
    for number, node in enumerate(splits):
        edges = [high - low for low, high in boxes[node]]
        longest = [j for j, edge in enumerate(edges) if edge == max(edges)]
        if spec["learner"] == "ma2025-printed":
            digest = hashlib.blake2b(f"{spec['seed']}|split|{node}".encode(), digest_size=8).digest()
            longest = longest[int.from_bytes(digest, "little") % len(longest) :]
        low, high = boxes[node][longest[0]]
        for side, bounds in enumerate(([low, (low + high) / 2], [(low + high) / 2, high])):
            box = [list(edge) for edge in boxes[node]]
            box[longest[0]] = bounds
            boxes[2 * number + 1 + side] = box
        children[node] = (2 * number + 1, longest[0], (low + high) / 2)
    node = 0
    while node in children:
        first, column, middle = children[node]
        node = first + (point[column] >= middle)
    return sorted(set(boxes) - set(children)).index(node)


def table(spec, published, point, codes):
    """Arm, part and turned of a point's cell on the grid, and how many parts there are."""
    ranges = len(point) - len(codes)
    room = 1400 // math.prod(codes.values())
    side = min(64, math.floor(room ** (1 / ranges) + 1e-9)) if ranges else 1
    columns = range(len(point))
    if room == 0 or (ranges and side < (6 if len(point) <= 3 else 10)):
        side, columns = 8, published["columns"]
    cell = 0
    for x, size in ((point[j], codes.get(j, side)) for j in columns):
        cell = cell * size + min(int(x * size), size - 1)
    arm_bits, part_bits = published["bits"]
    width = arm_bits + part_bits + 1
    number = int.from_bytes(base64.b64decode(published["table"]), "little") >> (cell * width)
    code = number & ((1 << width) - 1)
    name, epsilon = spec["tuning"]["mechanism"], spec["privacy"]["epsilon"]
    parts = spec["tuning"]["constants"].get("parts") or min(
        (1, 2, 4, 8, 16), key=lambda n: variance(chosen(name, n, epsilon), n, epsilon)
    )
    return (code >> 1) & ((1 << arm_bits) - 1), code >> (arm_bits + 1), bool(code & 1), int(parts)


def answer(text, published, context, reward, given, epsilon=None, pulled=None):
    """What a device does with these random bytes: the arm and the report; `pulled`: what a source's did."""
    readout, version = json.loads(text), json.loads(published)
    spec = readout.get("target", readout)
    labels, epsilon = spec["arms"], epsilon or readout["privacy"]["epsilon"]
    place = 0

    def draw(n):
        nonlocal place
        place += n
        return given[place - n : place]

    def word():
        return int.from_bytes(draw(8), "little")

    def below(n):
        while (drawn := word()) > (WORD // n) * n - 1:
            pass
        return drawn % n

    group = int(word() >= readout["share"] * WORD) if readout["kind"] == "ReadoutSpec" else None
    point, codes = unit(spec, context)
    at, turned, silent = point or [0.5] * columns_of(spec), False, False
    if version["kind"] == "PublishedQuestions":
        arm, cell, turned, cells = table(spec, version, at, codes)
        silent = version["about"] == "place"
    else:
        cell, cells = leaf(spec, version["splits"], at), len(version["splits"]) + 1
        if version["arms"] is not None:
            arm = version["arms"][cell]
        else:
            some = [k for k, chance in enumerate(version["weights"][cell]) if chance > 0]
            share = (word() >> 11) * 2.0**-53 * sum(version["weights"][cell])
            arm, total = some[-1], 0.0
            for k in some:
                total += version["weights"][cell][k]
                if share < total:
                    arm = k
                    break
            arm = arm if pulled is None else pulled
            cell, cells = cell * len(labels) + arm, cells * len(labels)
    if group is not None:
        low, high = readout["reward_range"]["low"], readout["reward_range"]["high"]
        arm, nonce, coin = (arm if group else labels.index(readout["control"])), draw(8), word()
        outcome = readout["missing"] if reward is None else min(max(reward, low), high)
        positive = coin < (outcome - low) / (high - low) * WORD
        payload = encoded("krr", rates("krr", 1, epsilon), 1, 0, positive, word, below)
        head = bytes([0xD3]) + hashlib.blake2b(text.encode(), digest_size=4).digest()
        return labels[arm], head + bytes(4) + nonce + bytes([group]) + payload
    nonce, anywhere, coin = draw(8), below(cells), word()
    low, high = spec["reward_range"]["low"], spec["reward_range"]["high"]
    if point is None or reward is None:
        cell, positive = anywhere, coin < WORD // 2
    else:
        share = min(1.0, max(0.0, (reward - low) / (high - low)))
        positive = (silent or coin < share * WORD) != turned
    name = chosen(spec["tuning"]["mechanism"], cells, epsilon)
    payload = encoded(name, rates(name, cells, epsilon), cells, cell, positive, word, below)
    head = bytes([0xD1]) + hashlib.blake2b(text.encode(), digest_size=4).digest()
    kind = bytes([spec["epsilons"].index(epsilon)]) if spec["epsilons"] else b""
    return labels[arm], head + version["version"].to_bytes(4, "little") + nonce + kind + payload


def packed(bits):
    return int("".join("01"[bit] for bit in bits).ljust(-(-len(bits) // 8) * 8, "0"), 2).to_bytes(
        -(-len(bits) // 8), "big"
    )


def encoded(name, thresholds, cells, cell, positive, word, below):
    category = 2 * cell + (not positive)
    if name == "krr":
        lies, other = word() >= thresholds[0], below(2 * cells - 1)
        code = other + (other >= category) if lies else category
        return code.to_bytes(-(-(2 * cells - 1).bit_length() // 8), "little")
    if name == "hadamard":
        order, row = 1 << (2 * cells + 1).bit_length(), 2 + category
        side, index = word(), word()
        index &= order - 1
        if ((row & index).bit_count() & 1) != (side >= thresholds[0]):
            index ^= row & -row
        return index.to_bytes(-(-(order - 1).bit_length() // 8), "little")
    if name == "oue":
        draws = [word() for _ in range(2 * cells)]
        return packed(
            [draw < (WORD // 2 if k == category else thresholds[0]) for k, draw in enumerate(draws)]
        )
    if "laplace" in name:
        return with_noise(name, thresholds[0], cells, cell, positive, word)
    same, opposite, theta = thresholds
    draws = [word() for _ in range(cells)]
    signs = [0 if draw >= 2 * theta else 1 if draw < theta else -1 for draw in draws]
    own = (1 if positive else -1) * (1 if draws[cell] < same else -1)
    signs[cell] = own if draws[cell] < same + opposite else 0
    return packed([sign != 0 for sign in signs]) + packed([sign < 0 for sign in signs])


def with_noise(name, alpha, cells, cell, positive, word):
    runs, still_open = [0] * (4 * cells), list(range(4 * cells))
    while still_open:
        rounds = [[word() < alpha for _ in range(8)] for _ in still_open]
        for number, coins in zip(still_open, rounds, strict=True):
            runs[number] += coins.index(False) if False in coins else 8
        still_open = [number for number, coins in zip(still_open, rounds, strict=True) if all(coins)]
    entries = [runs[k] - runs[2 * cells + k] for k in range(2 * cells)]
    own = {"laplace": ((0, 1), (1, 0)), "paper-laplace": ((1, 0), (1, 1))}[name][positive]
    entries[2 * cell : 2 * cell + 2] = [entries[2 * cell] + own[0], entries[2 * cell + 1] + own[1]]
    most = noise_bounds(name, alpha, cells)[0]
    clipped = [min(most, max(-most, entry)) for entry in entries]
    return b"".join(entry.to_bytes(2, "little", signed=True) for entry in clipped)


def noise_bounds(name, alpha, cells):
    """Of an entry, and of the sum of absolute entries that a server takes."""
    size, share = 2 * cells, alpha / WORD
    decay, sums = -math.log(share), []
    for slope in (decay * j / 64 for j in range(1, 64)):
        rise = share * math.exp(slope)
        moment = (1 - share) * (1 + rise) / ((1 + share) * (1 - rise))
        sums.append((size * math.log(moment) + math.log(1e9)) / slope)
    whole = (2 if name == "paper-laplace" else 1) + math.ceil(min(sums))
    return 1 + math.ceil(math.log(1e9 * size) / decay), whole


def decoded(name, cells, payload):
    """What a report adds to the integer sums."""
    bits = [bit == "1" for byte in payload for bit in f"{byte:08b}"]
    if name == "signed":
        plane = -(-cells // 8) * 8
        return bits[:cells], bits[plane : plane + cells]
    if name == "oue":
        return bits[: 2 * cells]
    if name in ("krr", "hadamard"):
        size = 2 * cells if name == "krr" else 1 << (2 * cells + 1).bit_length()
        return [k == int.from_bytes(payload, "little") for k in range(size)]
    pairs = zip(payload[::2], payload[1::2], strict=True)
    return [int.from_bytes(bytes(pair), "little", signed=True) for pair in pairs]


def tagged(report, fingerprint, key):
    data = bytes.fromhex(fingerprint) + report
    return report + hashlib.blake2b(data, key=key, digest_size=16).digest()


# -----------------------------------------------------------------------------------------------------


class Given:
    """The bytes of a vector, in place of the operating system's."""

    def __init__(self, given):
        self._left = given

    def __call__(self, n):
        taken, self._left = self._left[:n], self._left[n:]
        assert len(taken) == n, "the device draws more random bytes than the vector has"
        return taken


def class_of(vector):
    spec = json.loads(vector["spec"])
    return vector["epsilon"] if spec["epsilons"] else None


@pytest.mark.parametrize("name", VECTORS)
def test_a_device_makes_the_vectors_byte_for_byte(name):
    vector = VECTORS[name]
    spec = Spec.from_json(vector["spec"])
    assert (spec.to_json(), spec.fingerprint, spec.digest.hex()) == (
        vector["spec"],
        vector["fingerprint"],
        vector["digest"],
    )
    published = PublishedArms.from_json(vector["published"], spec)
    assert published.to_json(spec) == vector["published"]
    own = class_of(vector)
    for one in vector["reports"]:
        client = Client(spec, privacy=None if own is None else LocalDP(epsilon=own))
        with patch("os.urandom", Given(bytes.fromhex(one["random"]))):
            assert client.choose(published, one["context"]) == one["arm"]
            assert client.report(one["reward"]).hex() == one["report"]


@pytest.mark.parametrize("name", VECTORS)
def test_a_server_counts_the_vectors(name):
    vector = VECTORS[name]
    spec = Spec.from_json(vector["spec"])
    published = PublishedArms.from_json(vector["published"], spec)
    reports = [bytes.fromhex(one["report"]) for one in vector["reports"]]
    counts = ReportCounts(spec, [published])
    assert counts.absorb(reports).accepted == len(reports)
    kind = 0 if class_of(vector) is None else spec.epsilons.index(class_of(vector))
    version, mechanism = counts.versions[published.version], spec.protocol.counted_by(published)[kind]
    assert version.sums[kind].tolist() == vector["sums"]
    signed, count = mechanism.estimate(version.sums[kind], len(reports))
    np.testing.assert_allclose(signed, vector["signed"], rtol=1e-12)
    np.testing.assert_allclose(count, vector["count"], rtol=1e-12)
    assert ReportKey(bytes.fromhex(FOUND["key"])).signed(reports[0], spec).hex() == vector["tagged"]


@pytest.mark.parametrize("name", VECTORS)
def test_who_has_the_page_alone_reads_the_vectors_as_the_server_does(name):
    vector = VECTORS[name]
    digest = hashlib.blake2b(vector["spec"].encode(), digest_size=4)
    assert digest.hexdigest() == vector["digest"]
    assert hashlib.blake2b(vector["spec"].encode(), digest_size=32).hexdigest() == vector["fingerprint"]
    start, total = 17 + bool(json.loads(vector["spec"])["epsilons"]), None
    for one in vector["reports"]:
        report = bytes.fromhex(one["report"])
        assert report[:5] == b"\xd1" + digest.digest()
        assert int.from_bytes(report[5:9], "little") == json.loads(vector["published"])["version"]
        added = np.array(decoded(vector["mechanism"], vector["cells"], report[start:]), dtype=int)
        total = added if total is None else total + added
    assert total.tolist() == vector["sums"]
    made = tagged(
        bytes.fromhex(vector["reports"][0]["report"]), vector["fingerprint"], bytes.fromhex(FOUND["key"])
    )
    assert made.hex() == vector["tagged"]


@pytest.mark.parametrize("name", VECTORS)
def test_who_has_the_page_alone_makes_the_same_reports(name):
    vector = VECTORS[name]
    for one in vector["reports"]:
        given, own = bytes.fromhex(one["random"]), class_of(vector)
        arm, report = answer(vector["spec"], vector["published"], one["context"], one["reward"], given, own)
        assert arm == one["arm"]
        assert report.hex() == one["report"]


@pytest.mark.parametrize("name", READOUTS)
def test_readouts_of_the_vectors_come_out_byte_for_byte_also_from_the_page_alone(name):
    vector = READOUTS[name]
    spec = ReadoutSpec.from_json(vector["spec"])
    assert (spec.to_json(), spec.fingerprint, spec.digest.hex()) == (
        vector["spec"],
        vector["fingerprint"],
        vector["digest"],
    )
    published = PublishedArms.from_json(vector["published"], spec)
    groups, sums = set(), np.zeros((2, 2), dtype=int)
    for one in vector["reports"]:
        given, report = bytes.fromhex(one["random"]), bytes.fromhex(one["report"])
        client = Client(spec)
        with patch("os.urandom", Given(given)):
            assert client.choose(published, one["context"]) == one["arm"]
            assert client.report(one["reward"]) == report
        made = answer(vector["spec"], vector["published"], one["context"], one["reward"], given)
        assert made == (one["arm"], report)
        sums[report[17], report[18]] += 1
        groups.add(report[17])
    assert sums.tolist() == vector["sums"]
    assert groups == {0, 1}


def test_who_has_the_page_alone_reports_what_a_source_decided_without_the_device():
    target = Spec(
        contexts=Box(low=[0], high=[1]), arms=range(3), privacy=LocalDP(epsilon=1.0), learner="questions"
    )
    own = {"name": "last year", "n_users": 2000, "privacy": LocalDP(epsilon=4.0)}
    spec = SourceSpec(target=target, **own).reports
    fields = json.loads(target.to_json()) | {"n_users": 2000, "chooser": "client"}
    fields |= {"privacy": {"kind": "LocalDP", "epsilon": 4.0}}
    digest = hashlib.blake2b(f"{target.digest.hex()}|last year".encode(), digest_size=6).digest()
    fields |= {"learner": "explore", "seed": int.from_bytes(digest, "little")}
    fields["tuning"] |= {"constants": {"depth": spec.tuning.constants["depth"]}}
    text = json.dumps(fields, sort_keys=True)
    assert text == spec.to_json()
    published = Server(spec).publish()
    for number, (pulled, reward) in enumerate(((0, 1.0), (1, 0.0), (2, 0.25), (2, None))):
        given = b"".join(hashlib.sha256(bytes([number, block])).digest() for block in range(200))
        client = SourceClient(spec)
        with patch("os.urandom", Given(given)):
            client.observe(published, [0.3], arm=pulled)
            made = client.report(reward)
        arm, report = answer(text, published.to_json(spec), [0.3], reward, given, pulled=pulled)
        assert (arm, report.hex()) == (pulled, made.hex())


@pytest.mark.parametrize("name", ["laplace", "paper-laplace"])
def test_who_has_the_page_alone_drops_the_noise_that_the_server_drops(name):
    vector = VECTORS[name]
    spec = Spec.from_json(vector["spec"])
    published = PublishedArms.from_json(vector["published"], spec)
    cells = vector["cells"]
    entry, whole = noise_bounds(name, rates(name, cells, vector["epsilon"])[0], cells)
    assert entry < whole < 2 * cells * entry
    full, rest = divmod(whole, entry)
    at_both = [entry] * full + [-rest] + [0] * (2 * cells - full - 1)
    head = bytes.fromhex(vector["reports"][0]["report"])[:9]
    for number, (entries, taken) in enumerate(
        (
            (at_both, True),
            ([*at_both[:-1], 1], False),
            ([-entry] + [0] * (2 * cells - 1), True),
            ([entry + 1] + [0] * (2 * cells - 1), False),
        )
    ):
        payload = b"".join(value.to_bytes(2, "little", signed=True) for value in entries)
        counts = ReportCounts(spec, [published])
        assert counts.absorb([head + number.to_bytes(8, "little") + payload]).accepted == taken


def test_the_page_says_every_name_that_the_formats_have():
    """So that a field that is added to a spec or a version is added to the page."""
    page = (FILE.parents[2] / "docs" / "reference" / "byte-formats.md").read_text()
    names = set()
    for vector in (VECTORS | READOUTS).values():
        for text in (vector["spec"], vector["published"]):
            names |= set(re.findall(r'"(\w+)": ', text))
    names |= {one["mechanism"] for one in VECTORS.values()}
    assert {name for name in names if f"`{name}`" not in page} == set()
