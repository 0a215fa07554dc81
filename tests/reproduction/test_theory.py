"""Calculators of the papers' theorems, on numbers worked out by hand."""

import math

import pytest

from dpbandits.errors import InvalidParameter
from reproduction.dubey2021 import theory as dubey
from reproduction.ma2025 import theory as ma
from reproduction.ma2025.coverage import smallest_constant
from reproduction.pavlovic2025 import theory as pavlovic

E = math.e


class TestDubey2021:
    def test_spectrum_of_the_tree(self):
        # zeta = 2T/e^2: the log is 2; Lambda = 3 sqrt(8) (4 4 + 4) = 60 sqrt(8)
        found = dubey.noise_spectrum(
            noise_sd=3.0, levels=4, n_features=16, rounds=100, failure_probability=200 / E**2
        )
        assert found.smallest == pytest.approx(60 * math.sqrt(8))
        assert found.largest == pytest.approx(180 * math.sqrt(8))
        assert found.vector == pytest.approx(3 * math.sqrt(4 / (60 * math.sqrt(8))) * (4 + 2))

    def test_spectrum_of_local_reports(self):
        # Lambda = 10 (4 4 + 2 2) = 200
        found = dubey.local_noise_spectrum(
            gram_sd=0.5, vector_sd=2.0, n_features=16, rounds=100, failure_probability=200 / E**2
        )
        assert found.smallest == pytest.approx(100.0)
        assert found.largest == pytest.approx(300.0)
        assert found.vector == pytest.approx(2.0 * math.sqrt(1600 / 200))

    def test_all_four_terms_of_theorem_1(self):
        spectrum = dubey.NoiseSpectrum(smallest=4.0, largest=2.0, vector=3.0)
        found = dubey.confidence_width(
            spectrum=spectrum,
            log_determinant=5.0,
            rounds=10,
            reward_sd=0.5,
            failure_probability=2 / E**2,
            norm_bound=2.0,
            approximation_error=0.1,
        )
        assert found.norm == pytest.approx(2.0 * 3.0)  # sqrt(2/.25 + 1) = 3
        assert found.approximation == pytest.approx(10 * 2.0 * 0.1 / (0.5 * 2.0))
        assert found.vector == pytest.approx(6.0)
        assert found.rewards == pytest.approx(3.0)  # sqrt(5 + 2 2)
        assert found.total == pytest.approx(6.0 + 2.0 + 6.0 + 3.0)
        with pytest.raises(InvalidParameter):
            dubey.confidence_width(
                spectrum=spectrum, log_determinant=-1.0, rounds=1, reward_sd=1, failure_probability=0.1
            )

    def test_log_determinant(self):
        found = dubey.log_determinant_bound(n_features=7, rounds=30, smallest=8.0, ridge=2.0)
        assert found == pytest.approx(7 * math.log(4.0))

    def test_quadrature(self):
        # d = 2, 2 nodes, nu = 1/2: 2 2 sqrt(pi/2) (e/1)^2/4
        found = dubey.quadrature_error(dim=2, nodes=2, lengthscale=0.5)
        assert found == pytest.approx(4 * math.sqrt(math.pi / 2) * E**2 / 4)
        assert dubey.quadrature_error(dim=1, nodes=30, lengthscale=0.5) < 1e-20

    def test_features_asked(self):
        assert dubey.features_asked(rounds=1024, dim=2) == pytest.approx(3459.26, abs=0.01)
        assert dubey.features_asked(rounds=1024, dim=2, own_gain=True) == pytest.approx(864.82, abs=0.01)

    def test_regret(self):
        found = dubey.regret_bound(
            rounds=4, width=3.0, gain=9.0, reward_sd=2.0, norm_bound=5.0, approximation_error=0.25
        )
        assert found == pytest.approx(2 * 3 * 6 + 2 * 64 * 3 * 0.5 / 6 + 2 * 4 * 5 * 0.25)

    def test_rates(self):
        spectrum = dubey.NoiseSpectrum(smallest=1.0, largest=9.0, vector=2.0)
        # ln T = 1: (6)^3 + ln(1/zeta) = 225 for zeta = e^-9
        found = dubey.regret_rate(
            rounds=E,
            gain=4.0 / E,
            dim=2,
            spectrum=spectrum,
            reward_sd=0.5,
            failure_probability=E**-9,
            norm_bound=1.0,
        )
        assert found == pytest.approx(2.0 * (6.0 + 4.0 + 15.0))
        rounds = E**4
        common = {
            "rounds": rounds,
            "gain": 4.0,
            "dim": 2,
            "epsilon": 2.0,
            "delta": E**-2,
            "failure_probability": E**-9,
        }
        assert dubey.central_rate(**common) == pytest.approx(2 * E**2 * (4.0 * 3.0 + 8.0))
        assert dubey.local_rate(**common) == pytest.approx(E**3 * 4.0 * 6.0)


class TestPavlovic2025:
    def test_pairs_and_clip(self):
        assert pavlovic.approximating_pairs(rounds=300, gain=11.35) == 300 * 27
        found = pavlovic.reward_clip(bound=1.0, noise=0.5, rounds=100, failure_probability=100 / E**4)
        assert found == pytest.approx(3.0)
        # what a sub-Gaussian tail asks for is less from ln(T/delta) = 2.53 on
        for log, enough in ((2.5, False), (2.6, True)):
            assert (log >= math.sqrt(2 * (log + math.log(2)))) is enough

    def test_lemma_4_4(self):
        # x = sqrt(4 1/(100 1)) = .2 within 1/4
        common = {"rounds": 100, "gain": 4.0, "ridge": 1.0, "failure_probability": 1 / E}
        assert pavlovic.spectral_bound(**common) == (pytest.approx(0.2 * 28 / 17), True)
        deviation = pavlovic.bernstein_deviation(**common)
        assert deviation == pytest.approx(0.2 + 2 * 0.04 / 3)
        assert deviation / (1 - deviation) < 0.2 * 28 / 17
        bound, holds = pavlovic.spectral_bound(rounds=300, gain=11.35, ridge=1.0, failure_probability=0.05)
        assert bound == pytest.approx(0.5545, abs=1e-4)
        assert not holds
        quarter = {"rounds": 64, "gain": 4.0, "ridge": 1.0, "failure_probability": 1 / E}
        at = pavlovic.bernstein_deviation(**quarter)
        assert at / (1 - at) == pytest.approx(pavlovic.spectral_bound(**quarter)[0])

    def test_least_rounds(self):
        found = pavlovic.least_rounds(
            failure_probability=E**-128, decay=3.0, scale=0.5, eigenfunction_bound=2.0
        )
        assert found == pytest.approx(4.0**3)
        with pytest.raises(InvalidParameter):
            pavlovic.least_rounds(failure_probability=0.1, decay=1.0)

    def test_factors_of_lemmas_6_2_and_6_3(self):
        f = math.sqrt(13.0)  # F^2 = 13
        own = {"noise": 0.5, "ridge": 4.0, "eigenfunction_bound": f}
        delta = 4 / E
        log8 = math.log(8.0 / delta)
        expected = (
            (math.sqrt(162.0) + 81 / 4) * log8 + 28 / 17 * 0.5 + 2 * math.sqrt(432.0) + 2 * math.sqrt(121.5)
        )
        found = pavlovic.estimator_factor(failure_probability=delta, bound=1.0, **own)
        assert found == pytest.approx(expected)
        stated = pavlovic.estimator_factor(failure_probability=delta, bound=1.0, as_stated=True, **own)
        assert found - stated == pytest.approx(28 / 17 * (0.5 - 0.25))
        noise = pavlovic.noise_factor(failure_probability=1 / E, **own)
        assert noise == pytest.approx(0.25 * math.sqrt(108.0))

    def test_uniform_error_and_theorem_8_2(self):
        own = {"bound": 3.0, "noise": 0.5, "ridge": 1.0, "eigenfunction_bound": math.sqrt(13.0)}
        common = {"rounds": 100, "gain": 4.0, **own}

        def factor(each):
            tails = {key: value for key, value in own.items() if key != "bound"}
            return pavlovic.noise_factor(failure_probability=each, **tails) + pavlovic.estimator_factor(
                failure_probability=each, **own
            )

        delta = 2 / E**4
        # sqrt(4 81 4) = 36
        expected = (11.0 + 1.5 * 36.0) / 100 + 0.2 * factor(delta / 20)
        found = pavlovic.uniform_error(failure_probability=delta, points=5, **common)
        assert found == pytest.approx(expected)
        delta = 6 / E**4
        common |= {"points": 5, "failure_probability": delta}
        first = 10 * ((11.0 + 1.5 * 36.0) / 100 + 0.2 * factor(delta / 60))
        # 2592 3 100 L D epsilon/4 = e^2 for L D = 4 e^2/(2592 300 2)
        reach = 4 * E**2 / (2592 * 300 * 2)
        drawn = 4.0 / (100 * 2.0) * 648 * 3 * (2 * 2.0 + math.log(3 / delta))
        found = pavlovic.error_bound(epsilon=2.0, dim=2, lipschitz=reach, diameter=1.0, **common)
        assert found == pytest.approx(first + drawn)

    def test_variance_and_rate(self):
        found = pavlovic.largest_variance(rounds=810, gain=13.0, eigenfunction_bound=2.0)
        assert found == pytest.approx(0.4)
        assert pavlovic.error_rate(rounds=100, gain=4.0, epsilon=0.5) == pytest.approx(0.2 + 0.08)


class TestMa2025:
    def test_theorem_2_6(self):
        n = round(E**8)  # the log is 8 up to 1e-5
        common = {"n_users": n, "dim": 1, "margin": 1.0, "n_arms": 2}
        private = ma.upper_rate(epsilon=0.5, **common)
        assert private == pytest.approx(n * (n * 0.25 / 32) ** -0.5, rel=1e-5)
        plain = ma.upper_rate(epsilon=1e6, **common)
        assert plain == pytest.approx(n * (n / 16) ** (-2 / 3), rel=1e-5)

    def test_theorem_2_5(self):
        common = {"n_users": 1000, "dim": 1, "margin": 1.0}
        assert ma.lower_rate(epsilon=math.log(1.5), **common) == pytest.approx(1000 * 250**-0.5)
        assert ma.lower_rate(epsilon=1024.0, **common) == pytest.approx(1000 ** (1 / 3))

    def test_theorems_3_3_and_3_4(self):
        source = ma.SourceSize(n_users=1000, epsilon=0.5, gamma=2.0, kappa=0.5)
        n = 1000
        log = math.log(n)
        common = {"n_users": n, "epsilon": 0.5, "dim": 1, "margin": 0.0, "n_arms": 2, "sources": [source]}
        # (kappa^2 n epsilon^2/(K^2 log))^(4/8), and the target's n epsilon^2/(K^2 log)
        known = n / (16 * log) + math.sqrt(n / (64 * log))
        assert ma.upper_rate(**common) == pytest.approx(n * known**-0.25)
        own = n * math.expm1(0.5) ** 2
        assert ma.lower_rate(**common) == pytest.approx(n * (own + math.sqrt(own / 16)) ** -0.25)
        rich = ma.SourceSize(n_users=10**6, epsilon=1e6, gamma=2.0)
        common |= {"sources": [rich]}
        log = math.log(10**6)
        known = n / (16 * log) + (10**6 / (2 * log)) ** (4 / 5)
        assert ma.upper_rate(**common) == pytest.approx(n * known**-0.25)

    def test_minimax(self):
        source = ma.SourceSize(n_users=400, epsilon=1.0, gamma=1.0, kappa=0.5)
        found = ma.minimax_rate(n_users=900, epsilon=1.0, dim=1, margin=1.0, sources=[source])
        assert found == pytest.approx(900 * (900 + 100 ** (4 / 6)) ** -0.5)
        assert ma.minimax_rate(n_users=900, epsilon=1.0, dim=1, margin=1.0) == pytest.approx(30.0)
        with pytest.raises(InvalidParameter):
            ma.minimax_rate(n_users=900, epsilon=2.0, dim=1, margin=1.0)
        assert ma.slope(dim=2, margin=1.0) == pytest.approx(-1 / 3)

    def test_radius_bias_and_start(self):
        assert ma.radius(count=50.0, users=400.0, epsilon=2.0, constant=4.0) == pytest.approx(0.4)
        assert ma.radius(count=400.0, users=400.0, epsilon=2.0, constant=4.0) == pytest.approx(0.1)
        assert ma.radius(count=-50.0, users=400.0, epsilon=2.0, constant=4.0) == pytest.approx(0.4)
        assert ma.radius(count=0.0, users=4.0, epsilon=2.0, constant=4.0) == math.inf
        assert ma.bias(depth=4, dim=2) == pytest.approx(2 * math.sqrt(2) / 4)
        assert ma.warm_start(40_000) == pytest.approx(112.29, abs=0.01)


def test_the_constant_that_covers_is_that_of_the_noise():
    """Ma2025, Proposition 2.7: sums of Laplace(4/epsilon) against t/epsilon^2, which no c near 1 covers."""
    at = {"n_users": 2000, "depth": 0}
    private = [smallest_constant(**at, epsilon=1.0, seed=seed) for seed in range(10)]
    assert min(private) > 2.0 / math.log(2.0)
    # without noise rewards alone scatter, with variance at most 1/4: Hoeffding at c = 2 leaves 1e-9 a run
    assert max(smallest_constant(**at, epsilon=1e9, seed=seed) for seed in range(10)) < 2.0
