"""Local Gaussian-process bandits: reports, sensitivity, learning, and that the server takes no raw data."""

import json
import math

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from dpbandits.budget import MemoryLedger
from dpbandits.domains import Box
from dpbandits.errors import (
    BudgetExceeded,
    IncompatibleState,
    InvalidData,
    InvalidParameter,
    ProtocolError,
)
from dpbandits.local import Client, FileOutbox, GPSpec, MemoryOutbox, PublishedWeights, Server
from dpbandits.local.contract.reports import HEADER_BYTES, Chosen
from dpbandits.local.published.dubey2021_local import Dubey2021Weights
from dpbandits.models.features import LittleVariance, MercerFeatures
from dpbandits.models.features.fourier import QuadratureFourierFeatures
from dpbandits.models.kernels import SquaredExponential
from dpbandits.policy import PublicCoins
from dpbandits.privacy import JointDP, SecureNoise, SimulatedNoise
from dpbandits.privacy.prefix_sums import RELEASE_UNIT
from dpbandits.privacy.reports.clamp import TAIL, gaussian_clamp
from flat import changed, gp_spec_with
from reproduction.dubey2021.theory import local_noise_spectrum

pytestmark = pytest.mark.numerics

BOX = Box(low=[0.0], high=[1.0])
FEATURES = MercerFeatures(kernel=SquaredExponential(lengthscale=0.4), domain=BOX, n_features=5)

DUBEY2021 = {"learner": "dubey2021", "constants": {"horizon": 100.0}}
LEARNERS = [{"learner": "weights"}, DUBEY2021]


def spec(**changes):
    arguments = {
        "domain": BOX,
        "features": FEATURES,
        "reward_range": (0, 1),
        "privacy": JointDP(epsilon=8.0, delta=1e-4),
        "noise": SimulatedNoise(1),
        "n_candidates": 4,
    }
    return gp_spec_with(**{**arguments, **changes})


def test_a_report_is_all_that_leaves_and_is_counted_once():
    contract = spec(noise=SecureNoise())
    server, client = Server(contract), Client(contract)
    policy = PublishedWeights.from_json(server.publish().to_json(contract), contract)
    row = client.choose(policy, np.array([[0.2], [0.9]]))
    assert row in (0, 1)
    report = client.report(1.0)
    assert client.report(0.0) == report  # a retry: same bytes, whatever is passed
    assert server.absorb([report, report, b"", report[:-1], b"\x00" + report[1:]]).accepted == 1
    assert server.absorb([report]).accepted == 0
    assert server.totals.accepted == 1
    assert client.unsent() == [report]
    client.sent(report)
    assert client.unsent() == []
    with pytest.raises(ProtocolError):
        client.report(1.0)
    assert contract.statement().status == "enforced"
    assert "server" in contract.statement().explain()


def test_another_report_needs_budget():
    client = Client(spec())
    policy = Server(spec()).publish()
    client.choose(policy, np.array([[0.2]]))
    report = client.report(1.0)
    with pytest.raises(BudgetExceeded):
        client.choose(policy, np.array([[0.2]]))
    assert client.report(0.0) == report  # what was refused changed nothing: a retry of the choice before
    assert client.unsent() == [report]


def test_a_device_that_crashed_sends_the_stored_report(tmp_path):
    contract, outbox = spec(noise=SecureNoise()), tmp_path / "outbox"
    server = Server(contract)
    client = Client(contract, outbox=FileOutbox(outbox))
    client.choose(server.publish(), np.array([[0.2]]))
    report = client.report(1.0)
    del client
    restarted = Client(contract, outbox=FileOutbox(outbox))
    assert restarted.unsent() == [report]
    assert server.absorb(restarted.unsent()).accepted == 1
    restarted.sent(report)
    assert restarted.unsent() == []


@pytest.mark.parametrize(
    "candidates", [np.zeros((0, 1)), [], None, "x", [[math.nan]], [0.5], [[1, 2]], [[[0.5]]], object()]
)
def test_candidates_that_cannot_be_read_are_missing_and_say_nothing(candidates):
    class Silent(SimulatedNoise):
        def integer_gaussian(self, sigma, size):
            return np.zeros(size, dtype=np.int64)

    client = Client(spec(noise=Silent(0)))
    assert client.choose(Server(spec()).publish(), candidates) == 0
    assert not np.frombuffer(client.report(1.0)[HEADER_BYTES:], "<i8").any()
    assert client.unsafe_counts["missing contexts"] == 1


def test_candidates_outside_are_clipped_and_rows_that_cannot_be_read_are_never_chosen():
    contract = spec()
    client, policy = Client(contract), Server(contract).publish()
    rows = [[math.nan], [1e300], [math.inf], [-7.0], [math.nan]]
    chosen = {client.decide(policy, rows) for _ in range(100)}
    assert chosen == {1, 2, 3}
    inside = {contract.protocol.choose(policy, rows, contract.privacy).about[0] for _ in range(100)}
    assert inside == {0.0, 1.0}
    with pytest.raises(InvalidData):
        contract.check(rows)
    contract.check([[0.0], [1.0]])


@pytest.mark.parametrize("reward", [None, math.nan, "1", [0.5], {}])
def test_a_reward_that_is_missing_reports_zero_under_the_same_noise(reward):
    class Silent(SimulatedNoise):
        def integer_gaussian(self, sigma, size):
            return np.zeros(size, dtype=np.int64)

    client = Client(spec(noise=Silent(0)), budget=16.0)
    client.choose(Server(spec()).publish(), [[0.2]])
    assert not np.frombuffer(client.report(reward)[HEADER_BYTES:], "<i8").any()
    client.choose(Server(spec()).publish(), [[0.2]])
    assert np.frombuffer(client.report(0.9)[HEADER_BYTES:], "<i8").any()


def test_what_no_device_sends_is_left_out():
    """One report with huge numbers would otherwise turn the sums round."""
    contract = spec()
    server = Server(contract)
    server.publish()
    size = contract.protocol.release.mechanism.size
    head = bytes([0xD2]) + contract.digest + bytes(4)
    clamp = contract.protocol.clamp
    for number, huge in enumerate(
        (2**63 - 1, -(2**63), int(32 * contract.protocol.release.sigma), clamp.entry + 1)
    ):
        values = np.zeros(size, dtype="<i8")
        values[0] = huge
        assert server.absorb([head + number.to_bytes(8, "little") + values.tobytes()]).accepted == 0
    values = np.full(size, clamp.entry, dtype="<i8")  # each within its bound, all together no honest report
    assert clamp.entry * math.sqrt(size) > clamp.norm
    assert server.absorb([head + bytes(8) + values.tobytes()]).accepted == 0
    assert server.absorb([None, 7, "text"]).accepted == 0
    assert server.totals.accepted == 0


def contributions(contract, points, rewards):
    """(n, D) exact integers that users with these chosen points and rewards add without noise."""
    choices = [Chosen(version=0, arm=0, about=point) for point in points]
    return np.concatenate([contract.protocol.exact(*pair) for pair in zip(choices, rewards, strict=True)])


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_report_is_clipped_after_its_noise_and_weighs_what_the_spec_says(learner):
    class Loud(SimulatedNoise):
        def integer_gaussian(self, sigma, size):
            return np.array([int(40 * sigma)] + [0] * (size - 1), dtype=np.int64)

    contract = spec(**learner, noise=Loud(0))
    client, server = Client(contract), Server(contract)
    client.choose(server.publish(), np.array([[0.2]]))
    report = client.report(0.5)
    assert np.frombuffer(report[HEADER_BYTES:], "<i8")[0] == contract.protocol.clamp.entry
    assert server.absorb([report]).accepted == 1
    largest = contributions(contract, np.linspace(0, 1, 50)[:, None], np.ones(50))
    honest = np.linalg.norm(contract.protocol.release.mechanism.to_coordinates(largest), axis=1).max()
    heaviest = contract.protocol.clamp.norm * RELEASE_UNIT
    assert contract.protocol.weight <= heaviest / honest
    assert contract.protocol.weight < 80


def test_honest_gaussian_reports_are_within_the_bounds():
    """The norm of 2,000 reports at a tail of one in a million each; bounds are at one in a billion."""
    contract = spec(noise=SimulatedNoise(1))
    size, sigma = contract.protocol.release.mechanism.size, contract.protocol.release.sigma
    noise = contract.noise.integer_gaussian(sigma, 2000 * size).reshape(2000, size)
    assert contract.protocol.clamp.holds(noise).all()
    bound = gaussian_clamp(sigma, size=size, entry=0.0, norm=0.0)
    assert (
        stats.chi2.sf((bound.norm / sigma) ** 2, size)
        <= TAIL
        < stats.chi2.sf((0.8 * bound.norm / sigma) ** 2, size)
    )
    assert 2 * size * stats.norm.sf(bound.entry / sigma) <= TAIL
    assert 2 * size * stats.norm.sf(0.9 * bound.entry / sigma) > TAIL


def test_the_statement_says_what_a_report_does_not_hide():
    text = " ".join(spec().statement().explain().split())
    assert "Participation, the time and origin of the report" in text
    assert "k reports lose at most k epsilon and k delta together" in text


def test_a_report_that_could_not_be_stored_is_stored_by_the_next_call():
    class FullOnce(MemoryOutbox):
        offered = ()

        def put(self, key, report):
            self.offered = (*self.offered, (key, report))
            if len(self.offered) == 1:
                raise OSError("no space")
            super().put(key, report)

    outbox = FullOnce()
    client = Client(spec(noise=SecureNoise()), outbox=outbox)  # its budget covers one report
    client.choose(Server(spec()).publish(), np.array([[0.2]]))
    with pytest.raises(OSError, match="no space"):
        client.report(1.0)
    report = client.report(0.0)
    assert outbox.offered == ((report[9:17].hex(), report),) * 2


def test_a_choice_after_a_report_that_was_not_stored_is_not_answered_with_that_report():
    class Full(MemoryOutbox):
        def put(self, key, report):
            raise OSError("no space")

    client = Client(spec(), outbox=Full(), budget=16.0)
    policy = Server(spec()).publish()
    client.choose(policy, np.array([[0.2]]))
    with pytest.raises(OSError, match="no space"):
        client.report(1.0)
    with pytest.raises(OSError, match="no space"):  # first the report of the choice before is stored
        client.choose(policy, np.array([[0.9]]))


def test_a_charge_that_may_have_been_written_is_used_by_the_next_call():
    class FailsOnce(MemoryLedger):
        failed = False

        def charge(self, account, **arguments):
            super().charge(account, **arguments)
            if not self.failed:
                self.failed = True
                raise OSError("the answer was lost")

    client = Client(spec(), account=FailsOnce().account("local-reports"))
    policy = Server(spec()).publish()
    client.choose(policy, np.array([[0.2]]))
    with pytest.raises(OSError, match="lost"):
        client.report(1.0)
    assert client.report(1.0) == client.report(1.0)
    assert client.unsent() == [client.report(1.0)]


def test_a_report_needs_a_choice():
    with pytest.raises(ProtocolError):
        Client(spec()).report(0.5)


@pytest.mark.parametrize("learner", LEARNERS)
def test_any_two_users_are_within_the_sensitivity(learner):
    contract = spec(**learner)
    rng = np.random.default_rng(0)
    points, rewards = rng.random((400, 1)), rng.choice([0.0, 1.0, 0.3], 400)
    points[:4], rewards[:4] = 0.5, [0.0, 1.0, 0.0, 1.0]  # one point, opposite rewards: the worst
    coordinates = contract.protocol.release.mechanism.to_coordinates(contributions(contract, points, rewards))
    distance = np.linalg.norm(coordinates[:, None] - coordinates[None], axis=-1)
    assert distance.max() <= contract.protocol.release.mechanism.sensitivity
    if contract.learner == "weights":
        assert distance.max() > 0.98 * contract.protocol.release.mechanism.sensitivity


def test_learns_from_reports_alone():
    contract = spec(privacy=JointDP(epsilon=30.0, delta=1e-4))
    server = Server(contract)
    rng = np.random.default_rng(3)
    for _ in range(4):
        policy = server.publish()
        reports = []
        for _ in range(60):
            client = Client(contract)
            candidates = rng.random((4, 1))
            row = client.choose(policy, candidates)
            reports.append(client.report(float(rng.random() < candidates[row, 0])))
        assert server.absorb(reports).accepted == 60
    mean, sd = server.publish().predict(contract, np.array([[0.1], [0.9]]))
    assert mean[1] - mean[0] > 0.3
    assert (sd > 0).all()


def test_aggregated_noise_is_exact():
    """Sums of 40 reports on nothing, 400 of them, beside one draw of sqrt(40) times the scale each.

    Both variances within 7 standard deviations (2,000 numbers, .22); the largest gap of the distribution
    functions below .09: false alarm below 1e-6 (Kolmogorov and Smirnov).
    """
    contract = spec()
    size, sigma = contract.protocol.release.mechanism.size, contract.protocol.release.sigma
    nothing = np.zeros((1, size), dtype=np.int64)
    sums = [sum(contract.protocol.release.release(0, nothing) for _ in range(40)) for _ in range(400)]
    added = np.sort(np.ravel(sums) / (sigma * math.sqrt(40)))
    at_once = np.sort(contract.noise.integer_gaussian(math.sqrt(40) * sigma, 400 * size) / sigma) / math.sqrt(
        40
    )
    for drawn in (added, at_once):
        assert np.mean(drawn**2) == pytest.approx(1.0, abs=7 * math.sqrt(2 / drawn.size))
    gap = np.abs(np.searchsorted(added, at_once) / added.size - np.arange(added.size) / added.size).max()
    assert gap < 0.09


@pytest.mark.parametrize("number", [1e300, 1e7, -1.0, float("nan")])
@pytest.mark.parametrize("name", ["prior_variance", "thompson_scale"])
def test_a_number_beyond_every_unit_is_refused_at_construction(name, number):
    with pytest.raises(InvalidParameter, match=name):
        spec(**{name: number})
    with pytest.raises(InvalidParameter, match="prior_variance"):
        spec(prior_variance=0.9e-6)
    assert spec(**{name: 1e6}).digest != spec().digest


def test_spec_survives_its_config():
    again = GPSpec.from_config(spec().to_config(), noise=SimulatedNoise(1))
    assert again.digest == spec().digest
    assert spec(prior_variance=0.3).digest != spec().digest
    secure = spec(noise=SecureNoise())
    again = GPSpec.from_config(secure.to_config())
    assert (again.digest, again.protocol.release.sigma) == (secure.digest, secure.protocol.release.sigma)
    assert secure.digest == spec().digest
    with pytest.raises(InvalidParameter):
        GPSpec.from_config({"kind": "other", "privacy": JointDP(epsilon=1.0).to_config()})
    with pytest.raises(IncompatibleState):
        PublishedWeights.from_json("{}", spec())
    with pytest.raises(InvalidParameter):
        spec(privacy=JointDP(epsilon=1.0, delta=1e-6, rounds_per_user=2))


def test_files_name_the_contract_and_its_format():
    contract = spec()
    config = contract.to_config()
    assert (config["kind"], config["format"]) == ("GPSpec", 1)
    assert GPSpec.from_json(contract.to_json()).to_json() == contract.to_json()
    for change in ({"kind": "Spec"}, {"format": 2}):
        with pytest.raises(InvalidParameter, match="GPSpec"):
            GPSpec.from_config(config | change)
    assert json.loads(Server(contract).publish().to_json(contract))["kind"] == "PublishedWeights"


def test_as_published():
    features = QuadratureFourierFeatures(kernel=SquaredExponential(lengthscale=0.4), dim=1, nodes=6)
    contract = spec(features=features, **DUBEY2021)
    again = GPSpec.from_json(contract.to_json())
    assert again.digest == contract.digest != spec(features=features).digest
    server = Server(contract)
    rng, total = np.random.default_rng(0), 0
    for _ in range(2):
        policy = server.publish()
        reports = []
        for _ in range(20):
            client = Client(contract)
            client.choose(policy, rng.random((4, 1)))
            reports.append(client.report(1.0))
        assert server.absorb(reports).accepted == 20
        total = total + sum(np.frombuffer(report[17:], dtype="<i8") for report in reports)
    policy = server.publish()
    # Algorithm 3 once more, from the sums: shift, weights and width
    m, release = features.n_features, contract.protocol.release
    gram, vector = release.mechanism.from_coordinates(total * 2.0**-20)
    tail = math.sqrt(2.0 * math.log(2.0 * 100 / 0.1))
    found = {
        "gram_sd": release.gram_noise_sd,
        "vector_sd": release.vector_noise_sd,
        "n_features": m,
        "rounds": 100,
        "failure_probability": 0.1,
    }
    spectral = local_noise_spectrum(**found).smallest
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
        math.sqrt(100) * release.vector_noise_sd * (math.sqrt(m) + tail) / math.sqrt(spectral),
    )
    assert policy.radius == pytest.approx(sum(parts))
    for changes in (
        {"constants": {}},
        {"constants": {"horizon": 0.5}},
        {"constants": {"horizont": 100.0}},
    ):
        with pytest.raises(InvalidParameter):
            Server(changed(contract, **changes))
    with pytest.raises(InvalidParameter):
        PublishedWeights(version=0, mean=np.zeros(2), factor=np.eye(2)).scores(
            np.zeros((1, 2)), thompson_scale=1.0, normals=None
        )


def test_the_sharp_shift_of_algorithm_3_grows_with_its_reports():
    """Silent sums of 25 and of 100 reports: the shift alone, sqrt(2 m) and a tail, times sqrt(reports)."""
    features = QuadratureFourierFeatures(kernel=SquaredExponential(lengthscale=0.4), dim=1, nodes=6)
    contract = spec(features=features, **DUBEY2021)
    learner = Dubey2021Weights(contract, horizon=100.0, spectral_bound="sharp")
    size, m = contract.protocol.release.mechanism.size, features.n_features
    tail = math.sqrt(2.0 * math.log(2.0 * 100 / 0.1))
    for reports in (25, 100):
        learner.add(0, reports - learner.reports, np.zeros(size, dtype=np.int64))
        shift = np.linalg.inv(learner.publish(contract, 1, PublicCoins(0)).factor.T)
        bound = math.sqrt(reports) * contract.protocol.release.gram_noise_sd * (math.sqrt(2.0 * m) + tail)
        assert shift @ shift.T == pytest.approx(2.0 * bound * np.eye(m))
    with pytest.raises(InvalidParameter, match="spectral_bound"):
        Dubey2021Weights(contract, horizon=100.0, spectral_bound="none")


def test_of_rows_whose_predictions_differ_by_rounding_the_first_is_recommended():
    """Each place left of a hill's top has its like on the right, as closely as floats can say."""
    hill = np.sign(FEATURES([[0.5]])[0, 0]) * np.eye(5)[0]  # the largest eigenfunction has one top
    contract, weights = spec(), PublishedWeights(version=1, mean=hill, factor=np.eye(5))

    def predicted(point):
        return float(weights.predict(contract, [[point]])[0][0])

    grid = np.linspace(0.0, 1.0, 1001)
    top = grid[np.argmax(weights.predict(contract, grid[:, None])[0])]
    assert 0.2 < top < 0.8
    for left in np.linspace(top - 0.1, top - 0.02, 20):
        right = brentq(lambda point, at=left: predicted(point) - predicted(at), top, top + 0.2)
        pair = np.array(sorted((left, right), key=predicted))[:, None]
        assert abs(np.diff([predicted(point) for point in pair[:, 0]])) < 1e-12
        assert weights.recommend_batch(contract, pair) == (0,)


def test_nothing_raw_is_shown():
    client = Client(spec())
    client.choose(Server(spec()).publish(), np.array([[0.123456]]))
    client.report(0.654321)
    for shown in (repr(client), str(client), client.guarantee.explain()):
        assert "0.123" not in shown
        assert "0.654" not in shown


def test_candidates_that_change_afterwards_change_no_report():
    """The device reports the row that it chose, not what the caller has put in its place since."""
    contract = spec(privacy=JointDP(epsilon=50.0, delta=1e-4), **DUBEY2021)
    published = Server(contract).publish()
    rows = np.array([[0.1]])

    def reported(*, overwrite):
        client = Client(spec(privacy=JointDP(epsilon=50.0, delta=1e-4), **DUBEY2021))
        mine = rows.copy()
        client.choose(published, mine)
        if overwrite:
            mine[:] = 0.9
        return client.report(1.0)[-8 * contract.protocol.release.mechanism.size :]

    assert reported(overwrite=True) == reported(overwrite=False)


def test_predictions_of_published_weights_include_what_the_features_leave_out():
    twenty = Box(low=[0.0] * 20, high=[1.0] * 20)
    with pytest.warns(LittleVariance):
        features = MercerFeatures(
            kernel=SquaredExponential(lengthscale=0.3), domain=twenty, n_features=5, n_landmarks=20
        )
    contract = spec(domain=twenty, features=features, reward_range=(0, 10))
    mean, sd = Server(contract).publish().predict(contract, twenty.sample(50, np.random.default_rng(0)))
    np.testing.assert_allclose(mean, 5.0)
    np.testing.assert_allclose(sd, 10.0 * math.sqrt(contract.tuning.prior_variance), rtol=1e-9)
    assert contract.protocol.weight_variance == contract.tuning.prior_variance * features.scale**2


def test_a_spec_holds_its_features_in_numbers_that_no_processor_computes_anew(monkeypatch):
    contract, points = spec(), np.linspace(0, 1, 7)[:, None]
    text, expected = contract.to_json(), contract.features(points)
    assert "MercerFeatures" not in text

    def other_library(matrix):  # whose eigenvectors are as good, and other ones
        values, vectors = eigh(matrix)
        return values, -vectors[:, np.argsort(values)]

    eigh = np.linalg.eigh
    monkeypatch.setattr(np.linalg, "eigh", other_library)
    device = GPSpec.from_json(text)
    np.testing.assert_array_equal(device.features(points), expected)
    assert device.digest == contract.digest
    assert json.loads(text)["features"]["type"] == "SectionFeatures"
    np.testing.assert_allclose(expected, FEATURES(points), rtol=1e-12)


def test_features_of_another_domain_are_refused():
    with pytest.raises(InvalidParameter, match="features"):
        spec(domain=Box(low=[0.0, 0.0], high=[1.0, 1.0]))


def test_of_candidates_rows_are_left_out_instead_of_a_list_of_arms():
    contract = spec()
    with pytest.raises(InvalidParameter, match="leave out rows"):
        Client(contract).choose(Server(contract).publish(), [[0.2], [0.7]], available=[0])
