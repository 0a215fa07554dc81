"""Local mechanisms: likelihood ratios enumerated, laws of devices and crowds against them, moments exact."""

import itertools
import math
from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.privacy.reports import MECHANISMS, FloatingLaplace, mechanism
from dpbandits.privacy.reports.clamp import TAIL, laplace_clamp
from dpbandits.privacy.reports.mechanism import log_upper
from dpbandits.privacy.samplers import uniform_below
from dpbandits.privacy.words import secure_words

FINITE = ("signed", "oue", "hadamard", "krr")
EPSILONS = (0.1, 1.0, 4.0, 16.0)
# Every statistical test below rejects a correct mechanism with probability under this.
FALSE_ALARM = 1e-7


def inputs(n_cells):
    return [(cell, positive) for cell in range(n_cells) for positive in (True, False)]


def payloads(one):
    """Every payload that a device could send."""
    codes = np.arange(256**one.report_bytes, dtype="<u8")
    rows = np.ascontiguousarray(codes).view(np.uint8).reshape(-1, 8)[:, : one.report_bytes]
    return [row.tobytes() for row in rows[one.valid(rows)]]


def seeded_words(seed):
    rng = np.random.default_rng(seed)
    return lambda n: rng.integers(0, 1 << 64, size=n, dtype=np.uint64)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("n_cells", [1, 2, 3])
@pytest.mark.parametrize("name", FINITE)
def test_the_claimed_epsilon_is_the_enumerated_maximum(name, n_cells, epsilon):
    one = mechanism(name, n_cells=n_cells, epsilon=epsilon)
    laws = [
        [one.likelihood(payload, cell, positive=positive) for payload in payloads(one)]
        for cell, positive in inputs(n_cells)
    ]
    assert all(sum(law) == 1 for law in laws)
    worst = max(max(p / q for p, q in zip(a, b, strict=True)) for a in laws for b in laws if a is not b)
    assert one.exact_epsilon == log_upper(worst)
    assert epsilon * (1 - 1e-8) < one.exact_epsilon <= epsilon


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", ["laplace", "paper-laplace"])
def test_laplace_attains_its_claim_and_never_passes_it(name, epsilon):
    one = mechanism(name, n_cells=2, epsilon=epsilon)
    grid = [np.array(v, dtype="<i2").tobytes() for v in itertools.product(range(-1, 3), repeat=4)]
    laws = [[one.likelihood(p, cell, positive=positive) for p in grid] for cell, positive in inputs(2)]
    worst = max(max(p / q for p, q in zip(a, b, strict=True)) for a in laws for b in laws)
    assert worst == one.alpha ** (-one.sensitivity)
    assert one.exact_epsilon == log_upper(worst) <= epsilon


@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_large_domains_keep_the_bound_on_reports_a_device_draws(name):
    one = mechanism(name, n_cells=60, epsilon=1.5)
    words = seeded_words(5)
    for cell, other in [(0, 59), (7, 7), (30, 31)]:
        report = one.encode(cell, positive=True, words=words)
        ratio = one.likelihood(report, cell, positive=True) / one.likelihood(report, other, positive=False)
        assert abs(math.log(ratio)) <= one.exact_epsilon
    assert mechanism(name, n_cells=4096, epsilon=1.5).exact_epsilon <= 1.5


@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_device_draws_follow_the_likelihood(name):
    one = (
        mechanism(name, n_cells=1, epsilon=1.0)
        if "laplace" in name
        else mechanism(name, n_cells=2, epsilon=1.0)
    )
    cell, positive, n = one.n_cells - 1, False, 20_000
    words = seeded_words(11)
    seen = Counter(one.encode(cell, positive=positive, words=words) for _ in range(n))
    expected = {report: n * float(one.likelihood(report, cell, positive=positive)) for report in seen}
    kept = [report for report in seen if expected[report] >= 10]
    observed = [seen[report] for report in kept] + [n - sum(seen[report] for report in kept)]
    wanted = [expected[report] for report in kept] + [n - sum(expected[report] for report in kept)]
    assert len(kept) > 3
    keep = slice(None) if wanted[-1] > 5 else slice(-1)
    statistic = sum((o - w) ** 2 / w for o, w in zip(observed[keep], wanted[keep], strict=True))
    assert statistic < stats.chi2.isf(FALSE_ALARM, len(kept))


@pytest.mark.parametrize("name", ["laplace", "paper-laplace"])
def test_laplace_noise_of_every_cell_has_its_law(name):
    """Also of cells that are not the user's: noise in the own bin alone would name the bin."""
    one, cell, n = mechanism(name, n_cells=3, epsilon=2.0), 1, 6_000
    words = seeded_words(12)
    reports = b"".join(one.encode(cell, positive=True, words=words) for _ in range(n))
    noise = np.frombuffer(reports, "<i2").astype(np.int64).reshape(n, 6)
    noise[:, 2 * cell : 2 * cell + 2] -= one.entries[True]
    alpha, largest = float(one.alpha), 12
    law = (1 - alpha) / (1 + alpha) * alpha ** np.abs(np.arange(-largest, largest + 1))
    wanted = n * np.append(law, 1.0 - law.sum())
    for entry in noise.T:
        kept = entry[np.abs(entry) <= largest]
        observed = np.append(np.bincount(kept + largest, minlength=2 * largest + 1), n - len(kept))
        statistic = ((observed - wanted) ** 2 / wanted)[wanted > 5].sum()
        assert statistic < stats.chi2.isf(FALSE_ALARM / 6, int((wanted > 5).sum()))


@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_crowds_are_equal_in_law_to_sums_of_single_reports(name):
    """Both against each other: three users, aggregates compared as whole vectors by chi-square."""
    one = mechanism(name, n_cells=1 if "laplace" in name else 2, epsilon=2.0)
    users = [(0, True), (one.n_cells - 1, True), (one.n_cells - 1, False)]
    positive, negative = np.zeros(one.n_cells, int), np.zeros(one.n_cells, int)
    for cell, sign in users:
        (positive if sign else negative)[cell] += 1
    n, words, rng = 6_000, seeded_words(3), np.random.default_rng(4)
    single, crowd = Counter(), Counter()
    for _ in range(n):
        reports = b"".join(one.encode(cell, positive=sign, words=words) for cell, sign in users)
        records = np.frombuffer(reports, np.uint8).reshape(3, -1)
        assert one.valid(records).all()
        single[one.aggregate(records).tobytes()] += 1
        crowd[one.simulate(positive, negative, rng).tobytes()] += 1
    common = [key for key in single | crowd if single[key] + crowd[key] >= 20]
    table = np.array(
        [[c[key] for key in common] + [n - sum(c[key] for key in common)] for c in (single, crowd)]
    )
    table = table[:, table.sum(axis=0) > 10]
    assert stats.chi2_contingency(table).pvalue > FALSE_ALARM


@pytest.mark.parametrize("name", [*sorted(MECHANISMS), "floating-laplace"])
def test_estimates_are_unbiased_and_variances_right(name):
    make = FloatingLaplace if name == "floating-laplace" else MECHANISMS[name]
    one = make(n_cells=5, epsilon=1.0)
    share, mean, n, runs = np.array([0.5, 0.25, 0.15, 0.1, 0.0]), 0.5, 100, 6000
    rng = np.random.default_rng(8)
    signed, count = np.empty((runs, 5)), np.empty((runs, 5))
    for run in range(runs):
        people = rng.multinomial(n, share)
        positive = rng.binomial(people, mean)
        signed[run], count[run] = one.simulated_estimate(positive, people - positive, rng)
    moments = one.moments
    variance = n * (share * moments.signed_own + (1 - share) * moments.signed_other)
    spread = n * (share * moments.count_own + (1 - share) * moments.count_other + share * (1 - share))
    z = stats.norm.isf(FALSE_ALARM / 20)
    assert (np.abs(signed.mean(axis=0)) < z * np.sqrt(variance / runs)).all()
    assert (np.abs(count.mean(axis=0) - n * share) < z * np.sqrt(spread / runs)).all()
    # A variance of runs nearly normal sums has relative deviation sqrt(2/runs) = 1.8%.
    assert np.abs(signed.var(axis=0) / variance - 1).max() < z * math.sqrt(2.5 / runs)
    assert np.abs(count.var(axis=0) / spread - 1).max() < z * math.sqrt(2.5 / runs)


@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_a_reward_away_from_one_half_is_estimated_without_bias(name):
    one = mechanism(name, n_cells=3, epsilon=2.0)
    rng = np.random.default_rng(2)
    positive, negative = np.array([80, 10, 0]), np.array([20, 40, 0])
    signed = np.array([one.estimate(one.simulate(positive, negative, rng), 150)[0] for _ in range(4000)])
    deviation = np.sqrt(150 * max(one.moments.signed_own, one.moments.signed_other) / 4000)
    assert (np.abs(signed.mean(axis=0) - (positive - negative)) < 5.8 * deviation).all()


@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_the_device_uses_the_operating_system_only(name, monkeypatch):
    """With the operating system's bytes replaced, every report is a function of them."""
    streams = []

    def scripted(n):
        return streams[-1].bytes(n)

    monkeypatch.setattr("os.urandom", scripted)
    one = mechanism(name, n_cells=8, epsilon=1.0)
    state = np.random.get_state()[1].copy()  # noqa: NPY002 (to see that nothing touches it)
    reports = []
    for seed in (1, 1, 2, 3, 4):
        streams.append(np.random.default_rng(seed))
        reports.append(one.encode(2, positive=True))
    assert reports[0] == reports[1]
    assert len(set(reports)) > 1
    assert (np.random.get_state()[1] == state).all()  # noqa: NPY002


@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_payloads_no_device_sends_are_invalid(name):
    one = mechanism(name, n_cells=3, epsilon=1.0)
    bad = {
        "signed": b"\x00\x80",  # a sign without a value
        "oue": b"\x01",  # padding
        "hadamard": b"\x08",
        "krr": b"\x06",
        "laplace": b"\x00\x80" * 6,  # -32768
        "paper-laplace": b"\x00\x80" * 6,
    }[name]
    assert len(bad) == one.report_bytes
    assert not one.valid(np.frombuffer(bad, np.uint8)[None]).any()
    good = one.encode(1, positive=True)
    assert len(good) == one.report_bytes
    assert one.valid(np.frombuffer(good, np.uint8)[None]).all()


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf, 16.001, True, "1"])
@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_epsilons_that_cannot_be_kept_are_refused(name, epsilon):
    with pytest.raises((InvalidParameter, TypeError, ValueError), match=r"epsilon|float"):
        mechanism(name, n_cells=3, epsilon=epsilon)


def test_other_bad_arguments_are_refused_without_saying_them():
    with pytest.raises(InvalidParameter):
        mechanism("telepathy", n_cells=3, epsilon=1.0)
    with pytest.raises(InvalidParameter):
        mechanism("signed", n_cells=0, epsilon=1.0)
    with pytest.raises(InvalidData) as raised:
        mechanism("signed", n_cells=3, epsilon=1.0).encode(31337, positive=True)
    assert "31337" not in str(raised.value)


@pytest.mark.parametrize("epsilon", [1e-6, 1e-4, 0.01, 0.5, 0.7, 1.0, 4.0, 16.0])
def test_logarithms_are_never_rounded_down(epsilon):
    """Against 60 decimal digits; near 1 the quotient of a ratio, rounded, is short of what is asked for."""
    with localcontext(prec=60):
        for step in range(200):
            ratio = Fraction(math.exp(epsilon * (1 - 1e-3 * step))) + Fraction(step, 10**20)
            true = (Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln()
            assert true <= Decimal(log_upper(ratio)) <= true * (1 + Decimal(2) ** -48)


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 1.0, 16.0])
@pytest.mark.parametrize("n_cells", [1, 2, 4097, 1 << 20])
@pytest.mark.parametrize("name", FINITE)
def test_no_number_of_cells_and_no_epsilon_passes_the_claim(name, n_cells, epsilon):
    one = mechanism(name, n_cells=n_cells, epsilon=epsilon)
    assert epsilon * (1 - 1e-7) <= one.exact_epsilon <= epsilon
    if epsilon > 1e-3:
        moments = one.moments
        assert all(np.isfinite([moments.signed_own, moments.signed_other, moments.count_other]))
        assert moments.signed_other > 0 or n_cells == 1


@pytest.mark.parametrize(("name", "sensitivity"), [("laplace", 2), ("paper-laplace", 4)])
def test_laplace_noise_that_sixteen_bits_would_clip_is_refused(name, sensitivity):
    least = sensitivity * math.log(4 / TAIL) / 32_767
    with pytest.raises(InvalidParameter, match="16 bits"):
        mechanism(name, n_cells=2, epsilon=0.99 * least)
    one = mechanism(name, n_cells=2, epsilon=1.01 * least)
    assert one.clamp.entry <= 32_767


@pytest.mark.parametrize("n_cells", [1, 2, 3])
@pytest.mark.parametrize("name", FINITE)
def test_the_weight_of_a_forged_report_is_the_enumerated_maximum(name, n_cells):
    one = mechanism(name, n_cells=n_cells, epsilon=1.0)
    moved = np.array(
        [
            np.abs(one.estimate(one.aggregate(np.frombuffer(payload, np.uint8)[None]), 1)[0])
            for payload in payloads(one)
        ]
    )
    assert np.allclose((moved.max(), moved.sum(axis=1).max()), one.weights, rtol=1e-12)


@pytest.mark.parametrize("name", ["laplace", "paper-laplace"])
def test_no_laplace_report_weighs_more_than_it_says(name):
    """A report weighed a million people, when entries were bounded by their 16 bits alone."""
    one = mechanism(name, n_cells=16, epsilon=1.0)
    clamp = one.clamp
    honest = [one.encode(3, positive=True) for _ in range(50)]
    assert one.valid(np.frombuffer(b"".join(honest), np.uint8).reshape(50, -1)).all()
    in_one, over_all = one.weights
    assert in_one <= over_all < 700
    column = int(np.argmax(np.abs(one.readout[0])))
    forged = np.zeros((4, 32), dtype="<i2")
    forged[0, column] = clamp.entry  # the most one entry may hold
    forged[1, column] = clamp.entry + 1
    forged[2, column::2] = clamp.norm // 16  # the most of the report's norm
    forged[3] = clamp.entry  # every entry within its bound, and all together no honest report
    rows = forged.view(np.uint8)
    assert one.valid(rows).tolist() == [True, False, True, False]
    moved = [np.abs(one.estimate(one.aggregate(rows[[i]]), 1)[0]) for i in (0, 2)]
    assert max(one.max() for one in moved) <= in_one
    assert 0.9 * over_all < max(one.sum() for one in moved) <= over_all


@pytest.mark.parametrize("name", ["laplace", "paper-laplace"])
def test_the_law_of_clipped_entries_is_whole_and_keeps_the_claim(name):
    """Every payload of one cell: probabilities add up to 1, ratios stay within the claim at the bounds too.

    What the server's norm test drops of honest reports is under `TAIL`.
    """
    one = mechanism(name, n_cells=1, epsilon=16.0)
    side = range(-one.clamp.entry - 1, one.clamp.entry + 2)
    grid = np.array(list(itertools.product(side, repeat=2)), dtype="<i2")
    valid = one.valid(np.ascontiguousarray(grid).view(np.uint8))
    laws = [
        [one.likelihood(row.tobytes(), 0, positive=positive) for row in grid] for positive in (True, False)
    ]
    for law in laws:
        assert sum(law) == 1
        assert 0 < sum(p for p, good in zip(law, valid, strict=True) if not good) < Fraction(TAIL)
    ratios = [max(p / q, q / p) for p, q in zip(*laws, strict=True) if p]
    assert log_upper(max(ratios)) <= one.exact_epsilon


@pytest.mark.parametrize("size", [2, 32, 2048])
@pytest.mark.parametrize("alpha", [0.05, 0.6, 0.95])
def test_honest_laplace_noise_is_within_the_bounds_but_for_one_in_a_billion(alpha, size):
    """Against the exact law of the L1 norm: the noise's, convolved with itself."""
    clamp = laplace_clamp(alpha, size=size, entry=0, norm=0)
    assert size * 2 * alpha ** (clamp.entry + 1) / (1 + alpha) <= TAIL
    assert size * 2 * alpha ** (clamp.entry - 2) / (1 + alpha) > TAIL
    length = 1 << 16
    law = (1 - alpha) / (1 + alpha) * alpha ** np.arange(length) * np.where(np.arange(length), 2.0, 1.0)
    norms = np.fft.irfft(np.fft.rfft(law) ** size, length)
    beyond = norms[int(clamp.norm) + 1 :].sum()
    assert -1e-12 < beyond <= TAIL
    assert norms[int(0.7 * clamp.norm) :].sum() > TAIL


def test_a_device_clips_after_its_noise_and_never_draws_again():
    one = mechanism("laplace", n_cells=2, epsilon=1.0)
    calls = 0

    def heads(n):
        """Coins of one geometric variable fall heads thirty times eight over; all others are tails."""
        nonlocal calls
        calls += 1
        coins = np.full(n, 2**64 - 1, dtype=np.uint64)
        coins[: 8 if calls <= 30 else 0] = 0
        return coins

    entries = np.frombuffer(one.encode(1, positive=True, words=heads), "<i2")
    assert calls == 31
    assert entries.tolist() == [one.clamp.entry, 0, 1, 0]


@pytest.mark.parametrize("name", FINITE)
def test_every_input_and_every_report_draw_the_same_number_of_words(name):
    """Truth took one word in `krr` and a lie two: the time told them apart."""
    one = mechanism(name, n_cells=8, epsilon=4.0)
    rng, drawn = np.random.default_rng(3), set()
    for cell, positive in inputs(8) * 20:
        words = []

        def counted(n, words=words):
            words.append(n)
            return rng.integers(0, 1 << 64, size=n, dtype=np.uint64)

        one.encode(cell, positive=positive, words=counted)
        drawn.add(tuple(words))
    assert len(drawn) == 1


def test_helpers_are_exact():
    assert log_upper(Fraction(3, 2)) >= math.log(1.5)
    counts = np.bincount([int(uniform_below(5, 1, seeded_words(k))[0]) for k in range(3000)], minlength=5)
    assert stats.chisquare(counts).pvalue > FALSE_ALARM
    assert secure_words(3).dtype == np.uint64


def test_a_simulated_crowd_of_signed_reports_repeats_what_it_was():
    """Seeds of published studies: the draws come in the order in which six binomials did one by one."""
    one = mechanism("signed", n_cells=40, epsilon=1.5)
    positive, negative = np.random.default_rng(1).integers(0, 30, size=(2, 40))
    a, b, theta = map(float, one.rates)
    rng, others = np.random.default_rng(2), (positive + negative).sum() - positive - negative
    told = [rng.binomial(n, p) for n, p in ((positive, a + b), (negative, a + b), (others, 2 * theta))]
    odds = (b / (a + b), b / (a + b), 0.5)
    lies, truths, other = (rng.binomial(n, p) for n, p in zip(told, odds, strict=True))
    expected = [sum(told), lies + told[1] - truths + other]
    np.testing.assert_array_equal(one.simulate(positive, negative, np.random.default_rng(2)), expected)


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, math.log(3), 7.25, 16.0])
def test_thresholds_are_those_of_the_real_numbers_whatever_the_machine_makes_of_exp(epsilon):
    """Here in rationals: a series of exp, and Heron's steps for the root of theta."""
    known = Fraction(epsilon * (1.0 - 1e-9))
    grown = sum(itertools.accumulate(range(1, 160), lambda term, n: term * known / n, initial=Fraction(1)))
    for cells in (1, 3, 64):
        square = (2 + (grown + 1) / cells) / (2 * (grown - 1) ** 2)
        root = Fraction(math.sqrt(square))
        for _ in range(4):
            root = ((root + square / root) / 2).limit_denominator(1 << 400)
        theta = min(Fraction(2, 5), root)
        whole = 1 + (grown - 1) * theta
        signed = mechanism("signed", n_cells=cells, epsilon=epsilon)
        wanted = (grown * theta / whole, theta / whole, theta)
        assert [rate * 2**64 for rate in signed.rates] == [math.floor(rate * 2**64) for rate in wanted]
        krr = mechanism("krr", n_cells=cells, epsilon=epsilon)
        assert krr.rates[0] * 2**64 == math.floor(grown / (grown + 2 * cells - 1) * 2**64)
        oue = mechanism("oue", n_cells=cells, epsilon=epsilon)
        assert oue.rates[1] * 2**64 == math.floor(2**64 / (grown + 1)) + 1
        hadamard = mechanism("hadamard", n_cells=cells, epsilon=epsilon)
        assert hadamard.side * 2**64 == math.floor(grown / (grown + 1) * 2**64)
