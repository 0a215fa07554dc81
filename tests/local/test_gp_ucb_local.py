"""Local Gaussian-process bandits: reports, sensitivity, learning, and that the server takes no raw data."""

import inspect
import math

import numpy as np
import pytest

from dpbandits.domains import Box
from dpbandits.errors import (
    BudgetExceeded,
    IncompatibleState,
    InvalidData,
    InvalidParameter,
    ProtocolError,
)
from dpbandits.local import FileOutbox, MemoryOutbox
from dpbandits.local.contract.gp_spec import GPSpec, PublishedWeights
from dpbandits.local.published.dubey2021_local import Dubey2021LocalServer
from dpbandits.local.server.gp_ucb import GPUCBClient, GPUCBServer
from dpbandits.models.features import MercerFeatures
from dpbandits.models.features.fourier import QuadratureFourierFeatures
from dpbandits.models.kernels import SquaredExponential
from dpbandits.privacy import JointDP, SecureNoise, SimulatedNoise
from dpbandits.state.ledger import MemoryLedger

BOX = Box(low=[0.0], high=[1.0])
FEATURES = MercerFeatures(kernel=SquaredExponential(lengthscale=0.4), domain=BOX, n_features=5)


def spec(**changes):
    arguments = {
        "domain": BOX,
        "features": FEATURES,
        "reward_range": (0, 1),
        "privacy": JointDP(epsilon=8.0, delta=1e-4),
        "noise": SimulatedNoise(1),
        "n_candidates": 4,
    }
    return GPSpec(**{**arguments, **changes})


def test_a_report_is_all_that_leaves_and_is_counted_once():
    contract = spec(noise=SecureNoise())
    server, client = GPUCBServer(contract), GPUCBClient(contract)
    policy = PublishedWeights.from_json(server.publish().to_json())
    row = client.choose(policy, np.array([[0.2], [0.9]]))
    assert row in (0, 1)
    report = client.privatize(reward=1.0)
    assert client.privatize(reward=0.0) == report  # a retry: same bytes, whatever is passed
    assert server.absorb([report, report, b"", report[:-1], b"\x00" + report[1:]]) == 1
    assert server.absorb([report]) == 0
    assert server.n_reports == 1
    assert client.unsent() == [report]
    client.sent(report)
    assert client.unsent() == []
    with pytest.raises(ProtocolError):
        client.privatize(reward=1.0)
    assert contract.guarantee.status == "enforced"
    assert "server" in contract.guarantee.explain()


def test_another_report_needs_budget():
    client = GPUCBClient(spec())
    policy = GPUCBServer(spec()).publish()
    client.choose(policy, np.array([[0.2]]))
    report = client.privatize(reward=1.0)
    client.choose(policy, np.array([[0.2]]))
    with pytest.raises(BudgetExceeded):  # and not the first report again, as if it were of this choice
        client.privatize(reward=1.0)
    assert client.unsent() == [report]


def test_a_device_that_crashed_sends_the_stored_report(tmp_path):
    contract, outbox = spec(noise=SecureNoise()), tmp_path / "outbox"
    server = GPUCBServer(contract)
    client = GPUCBClient(contract, outbox=FileOutbox(outbox))
    client.choose(server.publish(), np.array([[0.2]]))
    report = client.privatize(reward=1.0)
    del client
    restarted = GPUCBClient(contract, outbox=FileOutbox(outbox))
    assert restarted.unsent() == [report]
    assert server.absorb(restarted.unsent()) == 1
    restarted.sent(report)
    assert restarted.unsent() == []


def test_an_empty_decision_set_is_refused():
    with pytest.raises(InvalidData):
        GPUCBClient(spec()).choose(GPUCBServer(spec()).publish(), np.zeros((0, 1)))


def test_what_no_device_sends_is_left_out():
    """One report with huge numbers would otherwise turn the sums round."""
    contract = spec()
    server = GPUCBServer(contract)
    server.publish()
    size = contract.release.mechanism.size
    head = bytes([0xD2]) + contract.digest + bytes(4)
    for number, huge in enumerate((2**63 - 1, -(2**63), int(40 * contract.release.sigma))):
        values = np.zeros(size, dtype="<i8")
        values[0] = huge
        assert server.absorb([head + number.to_bytes(8, "little") + values.tobytes()]) == 0
    assert server.absorb([None, 7, "text"]) == 0
    assert server.n_reports == 0


def test_the_statement_says_what_a_report_does_not_hide():
    text = " ".join(spec().guarantee.explain().split())
    assert "That a device took part, when and from where it sent its report" in text


def test_a_report_that_could_not_be_stored_is_stored_by_the_next_call():
    class FullOnce(MemoryOutbox):
        offered = ()

        def put(self, key, report):
            self.offered = (*self.offered, (key, report))
            if len(self.offered) == 1:
                raise OSError("no space")
            super().put(key, report)

    outbox = FullOnce()
    client = GPUCBClient(spec(noise=SecureNoise()), outbox=outbox)  # its budget covers one report
    client.choose(GPUCBServer(spec()).publish(), np.array([[0.2]]))
    with pytest.raises(OSError, match="no space"):
        client.privatize(reward=1.0)
    report = client.privatize(reward=0.0)
    assert outbox.offered == ((report[9:17].hex(), report),) * 2


def test_a_choice_after_a_report_that_was_not_stored_is_not_answered_with_that_report():
    class Full(MemoryOutbox):
        def put(self, key, report):
            raise OSError("no space")

    client = GPUCBClient(spec(), outbox=Full())
    policy = GPUCBServer(spec()).publish()
    client.choose(policy, np.array([[0.2]]))
    with pytest.raises(OSError, match="no space"):
        client.privatize(reward=1.0)
    client.choose(policy, np.array([[0.9]]))
    with pytest.raises(BudgetExceeded):
        client.privatize(reward=1.0)


def test_a_charge_that_may_have_been_written_is_used_by_the_next_choice():
    class FailsOnce(MemoryLedger):
        failed = False

        def charge(self, account, **arguments):
            super().charge(account, **arguments)
            if not self.failed:
                self.failed = True
                raise OSError("the answer was lost")

    client = GPUCBClient(spec(), ledger=FailsOnce())
    policy = GPUCBServer(spec()).publish()
    client.choose(policy, np.array([[0.2]]))
    with pytest.raises(OSError, match="lost"):
        client.privatize(reward=1.0)
    client.choose(policy, np.array([[0.9]]))
    assert client.privatize(reward=1.0) == client.privatize(reward=1.0)


def test_privatize_needs_a_choice():
    with pytest.raises(ProtocolError):
        GPUCBClient(spec()).privatize(reward=0.5)


@pytest.mark.parametrize("report_gram", [False, True])
def test_any_two_users_are_within_the_sensitivity(report_gram):
    contract = spec(report_gram=report_gram)
    rng = np.random.default_rng(0)
    points, rewards = rng.random((400, 1)), rng.choice([0.0, 1.0, 0.3], 400)
    points[:4], rewards[:4] = 0.5, [0.0, 1.0, 0.0, 1.0]  # one point, opposite rewards: the worst
    coordinates = contract.release.mechanism.to_coordinates(contract.contribution(points, rewards))
    distance = np.linalg.norm(coordinates[:, None] - coordinates[None], axis=-1)
    assert distance.max() <= contract.release.mechanism.sensitivity
    if not report_gram:
        assert distance.max() > 0.98 * contract.release.mechanism.sensitivity


@pytest.mark.parametrize("report_gram", [False, True])
def test_learns_from_reports_alone(report_gram):
    contract = spec(report_gram=report_gram, privacy=JointDP(epsilon=30.0, delta=1e-4))
    server = GPUCBServer(contract)
    rng = np.random.default_rng(3)
    for _ in range(4):
        policy = server.publish()
        reports = []
        for _ in range(60):
            client = GPUCBClient(contract)
            candidates = rng.random((4, 1))
            row = client.choose(policy, candidates)
            reports.append(client.privatize(reward=float(rng.random() < candidates[row, 0])))
        assert server.absorb(reports) == 60
    server.publish()
    mean, sd = server.predict(np.array([[0.1], [0.9]]))
    assert mean[1] - mean[0] > 0.3
    assert (sd > 0).all()


def test_aggregated_noise_is_exact():
    """Sums of 40 reports on nothing, 400 of them, beside one draw of sqrt(40) times the scale each.

    Both variances within 7 standard deviations (2,000 numbers, .22); the largest gap of the distribution
    functions below .09: false alarm below 1e-6 (Kolmogorov and Smirnov).
    """
    contract = spec()
    size, sigma = contract.release.mechanism.size, contract.release.sigma
    nothing = np.zeros((1, size), dtype=np.int64)
    sums = [sum(contract.release.release(0, nothing) for _ in range(40)) for _ in range(400)]
    added = np.sort(np.ravel(sums) / (sigma * math.sqrt(40)))
    at_once = np.sort(contract.noise.integer_gaussian(math.sqrt(40) * sigma, 400 * size) / sigma) / math.sqrt(
        40
    )
    for drawn in (added, at_once):
        assert np.mean(drawn**2) == pytest.approx(1.0, abs=7 * math.sqrt(2 / drawn.size))
    gap = np.abs(np.searchsorted(added, at_once) / added.size - np.arange(added.size) / added.size).max()
    assert gap < 0.09


def test_the_server_has_no_way_in_for_raw_data():
    """Every public method of the server takes reports or public points."""
    for server in (GPUCBServer, Dubey2021LocalServer):
        public = {name for name, _ in inspect.getmembers(server, callable) if not name.startswith("_")}
        assert public == {"absorb", "publish", "predict"}
    assert list(inspect.signature(GPUCBServer.absorb).parameters) == ["self", "reports"]


def test_spec_survives_its_config():
    again = GPSpec.from_config(spec().to_config(), noise=SimulatedNoise(1))
    assert again.digest == spec().digest
    assert spec(prior_variance=0.3).digest != spec().digest
    secure = spec(noise=SecureNoise())
    again = GPSpec.from_config(secure.to_config())
    assert (again.digest, again.release.sigma) == (secure.digest, secure.release.sigma)
    written = {name: value for name, value in secure.to_config().items() if name != "certificate"}
    older = GPSpec.from_config(written)
    assert older.release.sigma > 1.06 * secure.release.sigma
    assert older.digest == spec().digest != secure.digest
    with pytest.raises(InvalidParameter):
        GPSpec.from_config({"spec": "other", "privacy": JointDP(epsilon=1.0).to_config()})
    with pytest.raises(IncompatibleState):
        PublishedWeights.from_json("{}")
    with pytest.raises(InvalidParameter):
        spec(privacy=JointDP(epsilon=1.0, delta=1e-6, rounds_per_user=2))


def test_as_published():
    features = QuadratureFourierFeatures(kernel=SquaredExponential(lengthscale=0.4), dim=1, nodes=6)
    contract = spec(features=features, report_gram=True)
    server = Dubey2021LocalServer(contract, horizon=100)
    rng = np.random.default_rng(0)
    for _ in range(2):
        policy = server.publish()
        reports = []
        for _ in range(20):
            client = GPUCBClient(contract)
            client.choose(policy, rng.random((4, 1)))
            reports.append(client.privatize(reward=1.0))
        assert server.absorb(reports) == 20
    policy = server.publish()
    # Algorithm 3 once more, from the sums: shift, weights and width
    m, release = features.n_features, contract.release
    gram, vector = release.mechanism.from_coordinates(server._total * 2.0**-20)
    tail = math.sqrt(2.0 * math.log(2.0 * 100 / 0.1))
    spectral = math.sqrt(40) * release.gram_noise_sd * (math.sqrt(2.0 * m) + tail)
    shifted = gram + 2.0 * spectral * np.eye(m)
    assert np.linalg.eigvalsh(shifted)[0] >= spectral
    assert policy.mean == pytest.approx(np.linalg.solve(shifted, vector))
    phi = features(rng.random((4, 1)))
    width = np.sqrt(np.einsum("ij,jk,ik->i", phi, np.linalg.inv(shifted), phi))
    scores = policy.scores(phi, thompson_scale=0.0, normals=None)
    assert scores == pytest.approx(phi @ policy.mean + policy.radius * width)
    parts = (
        0.5 * math.sqrt(2.0 * math.log(20.0) + np.linalg.slogdet(shifted / spectral)[1]),
        math.sqrt(3.0 * spectral),
        math.sqrt(40) * release.vector_noise_sd * (math.sqrt(m) + tail) / math.sqrt(spectral),
    )
    assert policy.radius == pytest.approx(sum(parts))
    with pytest.raises(InvalidParameter):
        Dubey2021LocalServer(spec(), horizon=100)
    with pytest.raises(InvalidParameter):
        PublishedWeights(version=0, mean=np.zeros(2), factor=np.eye(2)).scores(
            np.zeros((1, 2)), thompson_scale=1.0, normals=None
        )


def test_nothing_raw_is_shown():
    client = GPUCBClient(spec())
    client.choose(GPUCBServer(spec()).publish(), np.array([[0.123456]]))
    client.privatize(reward=0.654321)
    for shown in (repr(client), str(client), client.spec.guarantee.explain()):
        assert "0.123" not in shown
        assert "0.654" not in shown
