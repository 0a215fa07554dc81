"""Reports that nobody's device made: what the server drops, and what it cannot be made to do."""

import math
from dataclasses import replace

import numpy as np
import pytest

from dpbandits.domains import Box
from dpbandits.errors import IncompatibleState, InvalidParameter
from dpbandits.local import Client, DurableServer, GPSpec, ReportCounts, ReportKey, Server, Spec, aggregate
from dpbandits.local.contract.bins import PublishedArms
from dpbandits.local.server.aggregation import write_reports
from dpbandits.models.features import MercerFeatures
from dpbandits.models.kernels import SquaredExponential
from dpbandits.privacy import JointDP, LocalDP, SimulatedNoise
from flat import changed, spec_with

BOX = Box(low=[0], high=[1])
SPEC = spec_with(
    contexts=BOX,
    arms=range(2),
    privacy=LocalDP(epsilon=2.0),
    learner="tree",
    reports_per_version=4,
    window=2,
    max_leaves=1,
    seed=5,
)
KEY = ReportKey(b"k" * 32)


def reports_to(published, n, spec=SPEC, seed=0):
    client, rng, out = Client(spec, budget=1e9), np.random.default_rng(seed), []
    for x in rng.random(n):
        client.choose(published, [x])
        out.append(client.report(float(x > 0.5)))
    return out


def answering(report, version):
    """The same report under another version."""
    return report[:5] + version.to_bytes(4, "little") + report[9:]


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


# -- one report, one count ---------------------------------------------------------------------------


def test_a_rewritten_version_counts_nothing_twice():
    server = Server(SPEC)
    first = reports_to(server.publish(), 4)
    assert server.absorb(first).accepted == 4
    assert server.publish().version == 1
    again = server.absorb([answering(report, 1) for report in first])
    assert (again.accepted, again.repeated) == (0, 4)


def test_in_one_batch_too():
    server = Server(SPEC)
    first = reports_to(server.publish(), 4)
    server.absorb(first)
    report = reports_to(server.publish(), 1, seed=9)[0]
    tally = server.absorb([report, answering(report, 0), report])
    assert (tally.accepted, tally.repeated) == (1, 2)


def test_in_one_batch_of_several_lengths_too():
    """Reports of one batch are read length by length; a nonce counts once in all of it."""
    spec = changed(SPEC, mechanism="oue", max_leaves=8)
    bins = spec.protocol.bins.partition()
    for _ in range(3):
        bins.split(bins.leaves)
    few = Server(spec).publish()
    many = PublishedArms(version=1, splits=tuple(bins.splits), arms=np.zeros(8, dtype=np.int64))
    short, long = reports_to(few, 2, spec), reports_to(many, 2, spec)
    assert len(short[0]) < len(long[0])
    again = [other[:9] + one[9:17] + other[17:] for one, other in zip(short, long, strict=True)]
    for n in (1, 2):  # one report of a length is read by another path
        tally = ReportCounts(spec, [few, many]).absorb([*short[:n], *again[:n]])
        assert (tally.accepted, tally.repeated) == (n, n)


@pytest.mark.parametrize("versions", range(1, 6))
def test_nonces_hold_over_the_whole_window(versions):
    """A report that came while a version was open is known as long as that version is."""
    server = Server(SPEC)
    server.absorb(reports_to(server.publish(), 4, seed=1))
    late = reports_to(server.publish(), 1, seed=2)[0]
    server.absorb([late])
    for seed in range(3, 3 + versions):
        server.absorb(reports_to(server.publish(), 4, seed=seed))
    assert server.publish().version == 1 + versions
    alive = [one.version for one in server.open_versions if one.version <= 1 + SPEC.protocol.window]
    assert all(server.absorb([answering(late, version)]).repeated == 1 for version in alive)
    assert alive or versions > 1 + SPEC.protocol.window


# -- tags ---------------------------------------------------------------------------------------------


def test_with_a_key_only_tagged_reports_count():
    server = Server(SPEC, key=KEY)
    published = server.publish()
    plain = reports_to(published, 3)
    tagged = [KEY.signed(report, SPEC) for report in plain]
    other = ReportKey(b"o" * 32).signed(plain[0], SPEC)
    altered = [
        answering(tagged[1], 0)[:9] + bytes(8) + tagged[1][17:],
        tagged[2][:-1] + bytes([tagged[2][-1] ^ 1]),
        KEY.signed(plain[2], replace(SPEC, seed=6)),
    ]
    tally = server.absorb([*plain, other, *altered])
    assert (tally.accepted, tally.malformed, tally.forged) == (0, 3, 4)
    assert server.absorb([*tagged, tagged[0]]).accepted == 3


def test_a_key_is_never_shown_and_is_long_enough():
    assert repr(KEY) == "ReportKey()"
    for bad in (b"", b"short", "k" * 32, 5, None, bytes(65)):
        with pytest.raises(InvalidParameter):
            ReportKey(bad)
    with pytest.raises(InvalidParameter):
        Server(SPEC, key=b"k" * 32)


def test_a_log_keeps_tagged_reports_and_opens_without_asking_again(tmp_path):
    with DurableServer.open(SPEC, tmp_path, key=KEY) as server:
        plain = reports_to(server.publish(), 3)
        assert server.absorb(plain).malformed == 3
        assert server.absorb([KEY.signed(report, SPEC) for report in plain]).accepted == 3
    with DurableServer.open(SPEC, tmp_path, key=ReportKey(b"n" * 32)) as server:
        assert server.server.totals.accepted == 3
        assert server.absorb([ReportKey(b"n" * 32).signed(plain[0], SPEC)]).repeated == 1


def test_files_are_counted_with_a_key(tmp_path):
    published = Server(SPEC).publish()
    plain = reports_to(published, 5)
    write_reports(tmp_path / "a", [KEY.signed(report, SPEC) for report in plain])
    counts, tally = aggregate([tmp_path / "a"], SPEC, [published], key=KEY)
    assert (tally.accepted, counts.accepted) == (5, 5)
    assert aggregate([tmp_path / "a"], SPEC, [published])[1].accepted == 0


# -- floods -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Server, DurableServer])
def test_a_flood_closes_no_version_before_its_time(tmp_path, kind):
    clock = Clock()
    options = {"least_open": 60.0, "clock": clock}
    server = Server(SPEC, **options) if kind is Server else DurableServer.open(SPEC, tmp_path, **options)
    held = server.publish()
    honest = reports_to(held, 1, seed=99)
    for flood in range(20):
        server.absorb(reports_to(server.publish(), 4, seed=flood))
        clock.now += 1.0
    assert server.publish().version == SPEC.protocol.window  # one more would have closed version 0
    assert server.absorb(honest).accepted == 1
    clock.now = 60.0
    assert server.publish().version == SPEC.protocol.window + 1
    assert server.absorb([answering(reports_to(held, 1, seed=98)[0], 0)]).closed == 1


@pytest.mark.parametrize("jump", [-1e9, float("nan")])
def test_a_clock_that_jumps_back_only_keeps_versions_open(jump):
    clock = Clock()
    server = Server(SPEC, least_open=60.0, clock=clock)
    honest = reports_to(server.publish(), 1, seed=99)
    clock.now = jump
    for flood in range(9):
        server.absorb(reports_to(server.publish(), 4, seed=flood))
    assert server.absorb(honest).accepted == 1


def test_a_folder_opened_again_gives_people_their_time_anew(tmp_path):
    clock = Clock()
    with DurableServer.open(SPEC, tmp_path, least_open=60.0, clock=clock) as server:
        for flood in range(3):
            server.absorb(reports_to(server.publish(), 4, seed=flood))
    clock.now = 59.0
    with DurableServer.open(SPEC, tmp_path, least_open=60.0, clock=clock) as server:
        clock.now = 61.0
        assert server.publish().version == SPEC.protocol.window
        clock.now = 119.0
        assert server.publish().version == SPEC.protocol.window + 1


# -- counts that no reports have ----------------------------------------------------------------------

MECHANISMS = ("signed", "oue", "hadamard", "krr", "laplace", "paper-laplace")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_merged_counts_are_possible_ones(mechanism):
    spec = changed(SPEC, mechanism=mechanism)
    published = Server(spec).publish()
    counts = ReportCounts(spec, [published])
    counts.absorb(reports_to(published, 30, spec))
    arrays = counts.to_arrays()
    assert ReportCounts.from_arrays(spec, [published], arrays).accepted == 30
    for forged in (arrays["0/0/sums"] + 31 * 32_768, arrays["0/0/sums"] - 31 * 32_768):
        with pytest.raises(IncompatibleState, match="30 reports cannot"):
            ReportCounts.from_arrays(spec, [published], arrays | {"0/0/sums": forged})


def test_one_more_than_there_are_reports_is_not_possible():
    spec = changed(SPEC, mechanism="signed")
    published = Server(spec).publish()
    counts = ReportCounts(spec, [published])
    counts.absorb(reports_to(published, 30, spec))
    arrays = counts.to_arrays()
    for nonzero, negative in ((31, 0), (5, 6), (5, -1)):
        sums = arrays["0/0/sums"].copy()
        sums[:, 0] = nonzero, negative
        with pytest.raises(IncompatibleState, match="30 reports cannot"):
            ReportCounts.from_arrays(spec, [published], arrays | {"0/0/sums": sums})


def test_counts_altered_in_memory_are_refused_by_merge():
    published = Server(SPEC).publish()
    counts, server = ReportCounts(SPEC, [published]), Server(SPEC)
    server.publish()
    counts.absorb(reports_to(published, 10))
    counts.versions[0].sums[0] = counts.versions[0].sums[0] + 100
    with pytest.raises(IncompatibleState, match="10 reports cannot"):
        server.merge(counts)
    assert server.totals.accepted == 0


# -- what the statement says ---------------------------------------------------------------------------


def test_the_statement_says_what_a_forged_report_weighs():
    spec = changed(SPEC, mechanism="signed", max_leaves=64)
    one, every = spec.protocol.mechanism_for(64).weights
    said = " ".join(spec.statement().annex().split())
    assert "Without a `ReportKey` nothing proves this" in said
    assert f"as far as {math.ceil(every)} honest people do on average" in said
    assert f"{math.ceil(10 * one) / 10:g} in any one bin and arm, where there are 64 bins" in said
    features = MercerFeatures(kernel=SquaredExponential(lengthscale=0.4), domain=BOX, n_features=4)
    gp = GPSpec(
        domain=BOX,
        features=features,
        reward_range=(0, 1),
        privacy=JointDP(epsilon=4.0, delta=1e-6),
        noise=SimulatedNoise(1),
    )
    assert f"as far as {math.ceil(10 * gp.protocol.weight) / 10:g} of the largest contributions" in " ".join(
        gp.statement().annex().split()
    )


def test_a_forger_takes_the_class_of_epsilon_that_weighs_most():
    spec = changed(SPEC, mechanism="signed", max_leaves=64, epsilons=(0.5, SPEC.privacy.epsilon))
    _, most = spec.protocol.mechanism_for(64, 0.5).weights
    for own in (0.5, SPEC.privacy.epsilon):
        said = " ".join(spec.statement(LocalDP(epsilon=own)).annex().split())
        assert f"as far as {math.ceil(most):,} honest people do on average" in said


# -- wrong types --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda _: Server(5),
        lambda _: Server(Spec),
        lambda _: Server(SPEC, least_open="soon"),
        lambda _: Server(SPEC, least_open=-1.0),
        lambda _: Server(SPEC, clock=5),
        lambda _: Server(SPEC).absorb(5),
        lambda _: Server(SPEC).absorb(reports_to(Server(SPEC).publish(), 1)[0]),
        lambda _: Server(SPEC).absorb("report"),
        lambda _: Server(SPEC).merge(5),
        lambda _: Server(SPEC).attach(5, Server(SPEC)),
        lambda _: Server(SPEC).attach_target("other", 5),
        lambda _: Server.replay(SPEC, 5),
        lambda _: ReportCounts(5),
        lambda _: ReportCounts(SPEC).absorb_records(5),
        lambda folder: DurableServer.open(5, folder),
        lambda _: DurableServer.open(SPEC, 5),
        lambda folder: DurableServer.open(SPEC, folder, least_open=None),
        lambda _: aggregate(5, SPEC, []),
        lambda _: aggregate("file", SPEC, []),
        lambda _: aggregate([], SPEC, [], without=5),
        lambda _: aggregate([], 5, []),
    ],
)
def test_natural_mistakes_are_answered_by_a_message(tmp_path, call):
    with pytest.raises(InvalidParameter, match="expected"):
        call(tmp_path)
