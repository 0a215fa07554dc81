"""A guarantee follows from what was released: on a device and its server, after any restart."""

import numpy as np
import pytest

from dpbandits.budget import MemoryLedger, SQLiteLedger
from dpbandits.domains import Box
from dpbandits.errors import CorruptState, IncompatibleState
from dpbandits.local import (
    Client,
    DurableServer,
    FileOutbox,
    GPSpec,
    MemoryOutbox,
    ReportCounts,
    Server,
    Spec,
)
from dpbandits.models.features import MercerFeatures
from dpbandits.models.kernels import SquaredExponential
from dpbandits.privacy import JointDP, LocalDP, SecureNoise, SimulatedNoise
from internals.client import remembered
from internals.server import snapshot_every

BOX = Box(low=[0], high=[1])
FEATURES = MercerFeatures(kernel=SquaredExponential(lengthscale=0.3), domain=BOX, n_features=4)
BINS = Spec(contexts=BOX, arms=range(2), privacy=LocalDP(epsilon=8.0), epsilons=(1.0, 8.0))
SECURE, SIMULATED = SecureNoise(), SimulatedNoise(1)


def gp_spec(noise=SECURE):
    return GPSpec(
        domain=BOX,
        features=FEATURES,
        reward_range=(0, 1),
        privacy=JointDP(epsilon=1.0, delta=1e-6),
        noise=noise,
    )


def reported(spec, outbox, *, send=False, account=None, privacy=None, budget=None):
    """A device that has made one report."""
    client = Client(spec, outbox=outbox, account=account, privacy=privacy, budget=budget)
    client.choose(Server(spec).publish(), [[0.2], [0.7]] if isinstance(spec, GPSpec) else [0.2])
    report = client.report(1.0)
    if send:
        client.sent(report)
    return client


# -- devices ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("send", [True, False])
def test_an_outbox_of_simulated_reports_stays_simulated(tmp_path, send):
    """Sent or waiting: a device that opens it with secure noise does not call them enforced."""
    first = reported(gp_spec(SIMULATED), FileOutbox(tmp_path), send=send)
    assert first.guarantee.status == "simulated"
    for _ in range(2):
        again = Client(gp_spec(), outbox=FileOutbox(tmp_path))
        assert again.guarantee.status == "simulated"
        assert "NOT A PROTECTION" in again.guarantee.explain()
        reported(gp_spec(), FileOutbox(tmp_path))
    assert reported(gp_spec(), MemoryOutbox()).guarantee.status == "enforced"


def test_the_order_does_not_matter(tmp_path):
    reported(gp_spec(), FileOutbox(tmp_path))
    assert Client(gp_spec(), outbox=FileOutbox(tmp_path)).guarantee.status == "enforced"
    reported(gp_spec(SIMULATED), FileOutbox(tmp_path))
    assert Client(gp_spec(), outbox=FileOutbox(tmp_path)).guarantee.status == "simulated"


def test_an_account_remembers_simulated_reports_when_the_outbox_is_gone(tmp_path):
    """The account paid for them, and says so; a client over it does as well."""
    path = tmp_path / "book.db"
    reported(gp_spec(SIMULATED), None, account=SQLiteLedger(path).account("local-reports"), budget=2.0)
    assert SQLiteLedger(path).balance("local-reports").simulated
    again = Client(gp_spec(), account=SQLiteLedger(path).account("local-reports"), budget=2.0)
    assert again.guarantee.status == "simulated"
    reported(gp_spec(), None, account=SQLiteLedger(tmp_path / "other.db").account("local-reports"))
    assert not SQLiteLedger(tmp_path / "other.db").balance("local-reports").simulated


def test_a_report_of_a_larger_epsilon_counts_for_good(tmp_path):
    """A user's own class is smaller now: what waits in the outbox was made at the larger one."""
    reported(BINS, FileOutbox(tmp_path), privacy=LocalDP(epsilon=8.0))
    again = Client(BINS, outbox=FileOutbox(tmp_path), privacy=LocalDP(epsilon=1.0))
    assert again.guarantee.epsilon == 8.0
    assert Client(BINS, privacy=LocalDP(epsilon=1.0)).guarantee.epsilon == 1.0


@pytest.mark.parametrize("spec", [BINS, gp_spec(), gp_spec(SIMULATED)], ids=["bins", "secure", "simulated"])
def test_the_log_says_on_which_terms_reports_were_made(tmp_path, spec):
    """Law, scale, sensitivity, certificate, source and what paid; once, however many reports there are."""
    for _ in range(2):
        client = reported(spec, FileOutbox(tmp_path))
    (entry,) = FileOutbox(tmp_path).log()
    record = client.guarantee.mechanisms[0]
    assert (entry["scale"], entry["sensitivity"], entry["unit"]) == (
        record.scale, record.sensitivity, record.unit,
    )  # fmt: skip
    assert entry["law"]
    assert entry["status"] == client.guarantee.status
    assert entry["source"] == ("SimulatedNoise" if entry["status"] == "simulated" else "SecureNoise")
    assert entry["charge"] == "local-reports"
    proven = client.guarantee.certificate.to_config()
    assert entry["certificate"] == proven or entry["certificate"] == record.certificate.to_config()


def test_terms_are_on_disk_before_anything_is_drawn():
    """A disk that refuses them: nothing is drawn, and the next try is charged once."""

    class Full(MemoryOutbox):
        full = True

        def remember(self, purpose, terms):
            if self.full:
                raise OSError("disk full")
            super().remember(purpose, terms)

    outbox, ledger = Full(), MemoryLedger()
    client = Client(BINS, outbox=outbox, account=ledger.account("local-reports"))
    client.choose(Server(BINS).publish(), [0.4])
    for _ in range(2):
        with pytest.raises(OSError, match="disk full"):
            client.report(1.0)
        assert remembered(client).report == b""
    outbox.full = False
    assert outbox.pending() == {}
    client.report(1.0)
    assert float(ledger.balance("local-reports").spent_epsilon) == 8.0
    assert outbox.log().count("report") == 1


@pytest.mark.parametrize(
    "change",
    [
        {"scale": 0.01},
        {"certificate": {"kind": "GaussianDP", "mu": 9.0}},
        {"certificate": None},
        {"law": "none"},
        {"privacy": JointDP(epsilon=3.0, delta=1e-6).to_config()},
        {"privacy": None},
    ],
    ids=str,
)
def test_weaker_terms_than_the_specs_are_refused(change):
    """As an earlier build with less noise would have left them."""
    outbox = MemoryOutbox()
    client = reported(gp_spec(), outbox)
    (entry,) = outbox.log()
    terms = {name: value for name, value in entry.items() if name not in ("purpose", "first", "count")}
    outbox.remember("report", terms | change)
    with pytest.raises(CorruptState):
        _ = client.guarantee


def test_a_damaged_log_is_refused_and_so_is_a_missing_one(tmp_path):
    for spec, folder in ((BINS, tmp_path / "bins"), (gp_spec(), tmp_path / "gp")):
        client = reported(spec, FileOutbox(folder))
        path = folder / "releases"
        whole = path.read_bytes()
        for data in (whole[:-1], b"", whole[:40] + bytes([whole[40] ^ 1]) + whole[41:]):
            path.write_bytes(data)
            with pytest.raises(CorruptState, match="log of releases"):
                _ = client.guarantee
        path.unlink()
        with pytest.raises(CorruptState, match="log of releases"):
            _ = Client(spec, outbox=FileOutbox(folder)).guarantee


# -- servers ------------------------------------------------------------------------------------------


def served(spec, folder, people):
    """A folder's server after so many people's reports; returns its guarantee."""
    with DurableServer.open(spec, folder) as server:
        for seed in range(people):
            client = Client(spec)
            client.choose(server.publish(), np.random.default_rng(seed).random((3, 1)))
            server.absorb([client.report(0.5)])
        return server.guarantee


@pytest.mark.parametrize("every", [1000, 2], ids=["log", "snapshot"])
def test_a_folder_of_simulated_reports_stays_simulated(tmp_path, monkeypatch, every):
    """Read from its log or from a snapshot; opened on the same terms again, the log does not grow."""
    snapshot_every(monkeypatch, every)
    assert served(gp_spec(SIMULATED), tmp_path, 3).status == "simulated"
    for people in (0, 3, 0):
        assert served(gp_spec(), tmp_path, people).status == "simulated"
    assert (tmp_path / "server.state").exists() == (every == 2)
    size = (tmp_path / "reports.log").stat().st_size
    for noise in (SECURE, SIMULATED):
        assert served(gp_spec(noise), tmp_path, 0).status == "simulated"
    assert (tmp_path / "reports.log").stat().st_size == size


def test_a_folder_of_secure_reports_is_enforced_until_simulated_ones_come(tmp_path):
    assert [served(gp_spec(noise), tmp_path, 1).status for noise in (SECURE, SECURE, SIMULATED, SECURE)] == [
        "enforced", "enforced", "simulated", "simulated",
    ]  # fmt: skip


def test_counts_of_other_noise_are_not_merged():
    here, there = Server(gp_spec()), Server(gp_spec(SIMULATED))
    client = Client(gp_spec(SIMULATED))
    client.choose(there.publish(), [[0.2], [0.7]])
    here.publish()
    counts = ReportCounts(gp_spec(SIMULATED), there.open_versions)
    counts.absorb([client.report(1.0)])
    with pytest.raises(IncompatibleState, match="other noise"):
        here.merge(counts)
    assert here.guarantee.status == "enforced"
