"""Messages of DAP-09 and VDAF-08: recorded ones are read, and Node makes and reads the same ones."""

import json
import subprocess
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest

import dpbandits as dpb
from aggregators import AGGREGATORS, HOW, INSTALLED, NODE
from dpbandits.distributed import (
    Collector,
    DapCollector,
    DapTask,
    DistributedSpec,
    DistributedTuning,
    IdealAggregation,
)
from dpbandits.distributed.dap import MODULUS, decode_sums, open_sealed
from dpbandits.errors import IncompatibleState, InvalidData, InvalidParameter, ProtocolError

FOUND = json.loads((AGGREGATORS.parent / "dap-09.json").read_text())
SPEC = DistributedSpec(
    contexts=dpb.Schema(x=dpb.Range(0, 1)),
    arms=["a", "b"],
    privacy=dpb.DistributedDP(epsilon=1),
    horizon=1000,
    tuning=DistributedTuning(cells=4, min_batch=1),
)
BUCKETS = np.array([0, 4, 8])


def collector(**changes):
    key = bytes.fromhex(FOUND["collection"]["collector"])
    given = {"leader": "https://leader.example", "token": "secret", "private_key": key}
    return DapCollector(SPEC, **(given | changes))


def opaque(message, size):
    length = int.from_bytes(message[:size], "big")
    return message[size : size + length], message[size + length :]


def test_the_task_of_the_vectors_is_that_of_the_spec():
    task = DapTask.of(SPEC, 0)
    assert (task.id.hex(), task.length, task.chunk) == (
        FOUND["report"]["task"],
        FOUND["length"],
        FOUND["chunk"],
    )
    assert len({DapTask.of(SPEC, version).name for version in range(3)}) == 3
    over, under = task.rate
    assert over / under == SPEC.histogram.rate


def test_recorded_shares_add_up_to_the_sum_of_the_ideal_functionality():
    shares = [bytes.fromhex(share) for share in FOUND["prio3"]["agg_shares"]]
    aggregation = IdealAggregation(SPEC, noise=dpb.SimulatedNoise(0))
    aggregation.upload_buckets(0, BUCKETS)
    noisy = aggregation.collect(0).sums
    noises = [noisy - aggregation.unsafe_view(0, aggregator=one) for one in (0, 1)]
    assert np.array_equal(decode_sums(shares, SPEC.length), noisy - sum(noises))


def test_sums_below_zero_and_elements_outside_the_field():
    def share(*elements):
        return b"".join(one.to_bytes(16, "little") for one in elements)

    sums = decode_sums([share(MODULUS - 7, 5), share(2, MODULUS - 5)], 2)
    assert sums.tolist() == [-5, 0]
    for shares in ([share(MODULUS, 0)], [share(1)], [share(1, 2**100)]):
        with pytest.raises(InvalidData):
            decode_sums(shares, 2)


def test_a_recorded_collection_is_read_and_a_changed_one_refused():
    answer = bytes.fromhex(FOUND["collection"]["bytes"])
    found = collector().read(0, answer)
    assert (found.version, found.reports, found.sums.tolist()) == (0, 3, [1, 0, 0, 0, 1, 0, 0, 0, 1])
    changed = bytearray(answer)
    changed[-1] ^= 1
    many = answer[:1] + b"\xff" + answer[2:]
    for wrong in (answer[:-1], answer + b"\0", bytes(changed), b"\x02" + answer[1:], many, b""):
        with pytest.raises(InvalidData):
            collector().read(0, wrong)
    with pytest.raises(InvalidData):
        collector().read(1, answer)  # the shares are bound to their task
    with pytest.raises(InvalidData):
        collector(private_key=bytes(31) + b"\1").read(0, answer)


@pytest.mark.parametrize(("role", "share"), [("leader", 0), ("helper", 1)])
def test_a_recorded_report_opens_with_an_aggregators_key(role, share):
    """It is a second reading of the bytes that devices upload: metadata, public share, two ciphertexts."""
    report = FOUND["report"]
    message = bytes.fromhex(report["bytes"])
    metadata, (public, rest) = message[:24], opaque(message[24:], 4)
    assert metadata[16:] == bytes(8)  # no clock is told
    sealed = []
    for _ in range(2):
        assert rest[0] == 1
        enc, rest = opaque(rest[1:], 2)
        ciphertext, rest = opaque(rest, 4)
        sealed.append((enc, ciphertext))
    assert rest == b""
    enc, ciphertext = sealed[share]
    aad = bytes.fromhex(report["task"]) + metadata + len(public).to_bytes(4, "big") + public
    info = b"dap-09 input share" + bytes((1, 2 + share))
    plain = open_sealed(bytes.fromhex(report[role]), enc=enc, info=info, aad=aad, ciphertext=ciphertext)
    recorded = bytes.fromhex(FOUND["prio3"]["prep"][0]["input_shares"][share])
    assert len(plain) == 2 + 4 + len(recorded)


def test_the_id_of_a_task_depends_on_everything_that_noise_and_batches_depend_on():
    others = [
        replace(SPEC, privacy=dpb.DistributedDP(epsilon=2)),
        replace(SPEC, privacy=dpb.DistributedDP(epsilon=1, reports_per_user=2)),
        replace(SPEC, tuning=DistributedTuning(cells=4, min_batch=2)),
        replace(SPEC, seed=1),
    ]
    assert len({DapTask.of(spec, 0).id for spec in (SPEC, *others)}) == 5


def test_the_token_goes_to_the_leader_of_this_machine_and_to_no_proxy(monkeypatch):
    asked = []

    class Leader(BaseHTTPRequestHandler):
        def do_PUT(self):
            asked.append(self.path)
            self.send_response(403)
            self.end_headers()

        def log_message(self, *_):
            """Requests are not logged."""

    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # nobody listens there
    with HTTPServer(("127.0.0.1", 0), Leader) as leader:
        threading.Thread(target=leader.serve_forever, daemon=True).start()
        try:
            with pytest.raises(ProtocolError, match="status 403"):
                collector(leader=f"HTTP://localhost:{leader.server_port}").collect(0, wait=1)
        finally:
            leader.shutdown()
    assert asked == [f"/tasks/{DapTask.of(SPEC, 0).name}/collection_jobs/{asked[0].rsplit('/', 1)[1]}"]


def test_pages_fetch_the_spec_a_version_and_both_addresses():
    published = Collector(SPEC).publish()
    told = json.loads(collector().policy(published, helper="https://helper.example"))
    assert DistributedSpec.from_json(json.dumps(told["spec"], sort_keys=True)) == SPEC
    assert told["published"]["version"] == 0
    assert (told["leader"], told["helper"]) == ("https://leader.example/", "https://helper.example/")
    for wrong in (
        "http://helper.example",
        "helper",
        'https://helper.example/"',
        "https://me:pw@helper.example",
    ):
        with pytest.raises(InvalidParameter, match="helper"):
            collector().policy(published, helper=wrong)
    other = replace(SPEC, seed=1, tuning=DistributedTuning(cells=2))
    with pytest.raises(IncompatibleState):
        collector().policy(Collector(other).publish(), helper="https://helper.example")


def test_an_independent_library_encrypts_what_is_opened():
    hpke = pytest.importorskip("cryptography.hazmat.primitives.hpke")
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    suite = hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_128_GCM)
    key = X25519PrivateKey.from_private_bytes(bytes(range(32)))
    message = suite.encrypt(b"text", key.public_key(), b"info")
    opened = open_sealed(bytes(range(32)), enc=message[:32], info=b"info", aad=b"", ciphertext=message[32:])
    assert opened == b"text"


@pytest.mark.parametrize(
    "wrong",
    [
        {"leader": "http://leader.example"},
        {"leader": "leader"},
        {"leader": "https://[leader"},
        {"leader": "https://me:pw@leader.example"},
        {"token": "two\nlines"},
        {"private_key": bytes(31)},
        {"private_key": "text"},
    ],
)
def test_what_a_collector_refuses(wrong):
    with pytest.raises(InvalidParameter):
        collector(**wrong)
    assert "secret" not in repr(collector())


@pytest.mark.skipif(not INSTALLED, reason=HOW)
def test_node_makes_the_recorded_messages_again():
    """Random bytes fix the messages of VDAF-08: the unmodified package makes each of them again."""
    task = DapTask.of(SPEC, 0).id.hex()
    done = subprocess.run(
        [str(NODE), "vectors.js", task], cwd=AGGREGATORS, capture_output=True, timeout=60, check=True
    )
    made = json.loads(done.stdout)
    assert made["prio3"] == FOUND["prio3"]
    assert collector().read(0, bytes.fromhex(made["collection"]["bytes"])).reports == 3
