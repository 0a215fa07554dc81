"""Certificates against arithmetic with 50 digits, against dp_accounting, and against each other."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpbandits.errors import InvalidParameter
from dpbandits.privacy import certificates
from dpbandits.privacy.calibration import (
    calibrate_gaussian,
    discrete_gaussian_sigma,
    gaussian_mu,
    gaussian_sigma,
    membership_bound,
    near_gaussian_sigma,
    rounding_distance,
    zcdp_rho,
)
from dpbandits.privacy.certificates import (
    GaussianDP,
    NearGaussianDP,
    PureBeside,
    PureDP,
    ZeroConcentratedDP,
    rounded_up,
)

EPSILONS = [1e-6, 1e-3, 0.05, 0.5, 1.0, 3.0, 10.0, 50.0]
DELTAS = [1e-15, 1e-12, 1e-9, 1e-6, 1e-3, 0.1, 0.9]
GRID = list(itertools.product(EPSILONS, DELTAS))


def exact_gaussian_delta(mpmath, epsilon, mu):
    epsilon, mu = mpmath.mpf(epsilon), mpmath.mpf(mu)
    return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


def exact_concentrated_delta(mpmath, epsilon, rho):
    """The formula of Canonne, Kamath, Steinke 2020 as printed, minimised by golden section."""
    epsilon, rho = mpmath.mpf(epsilon), mpmath.mpf(rho)

    def delta(log_a):
        a = mpmath.exp(log_a)
        alpha = 1 + a
        return mpmath.exp(a * (alpha * rho - epsilon)) / a * (1 - 1 / alpha) ** alpha

    low, high = mpmath.mpf(-60), mpmath.mpf(40)
    golden = (mpmath.sqrt(5) - 1) / 2
    for _ in range(80):  # 1e-15 in log a, where delta is flat
        left, right = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, right) if delta(left) < delta(right) else (left, high)
    return delta((low + high) / 2)


@pytest.fixture(scope="module")
def mpmath():
    module = pytest.importorskip("mpmath")
    with module.workdps(50):
        yield module


class TestGaussian:
    @pytest.mark.parametrize(
        ("epsilon", "delta", "mu"),
        [(1.0, 1e-5, 0.2681), (1.0, 0.1, 0.9209), (1.0, 1e-6, 0.2367), (10.0, 1e-5, 2.0004)],
    )
    def test_known_values(self, epsilon, delta, mu):
        assert gaussian_mu(epsilon, delta) == pytest.approx(mu, abs=5e-5)

    def test_delta_agrees_with_fifty_digits(self, mpmath):
        for epsilon in [0.0, *EPSILONS]:
            for mu in [1e-9, 1e-4, 0.1, 0.499, 0.501, 1.0, 4.0, 12.0, 20.0]:
                exact = exact_gaussian_delta(mpmath, epsilon, mu)
                if exact > 1e-18:
                    assert GaussianDP(mu).delta_at(epsilon) == pytest.approx(float(exact), rel=1e-11)

    def test_calibration_is_safe_and_tight(self, mpmath):
        for epsilon, delta in GRID:
            mu = gaussian_mu(epsilon, delta)
            exact = exact_gaussian_delta(mpmath, epsilon, mu)
            assert exact <= delta
            assert exact >= delta * (1 - 1e-9)

    def test_sigma_reevaluates_to_at_most_delta(self):
        for (epsilon, delta), sensitivity in itertools.product(GRID, [1e-3, 1.0, 2.9e6]):
            sigma = gaussian_sigma(epsilon, delta, sensitivity)
            assert GaussianDP(sensitivity / sigma).delta_at(epsilon) <= delta

    def test_agrees_with_dp_accounting(self):
        mechanism = pytest.importorskip("dp_accounting.pld.privacy_loss_mechanism")
        common = pytest.importorskip("dp_accounting.pld.common")
        for epsilon, delta in [(0.1, 1e-6), (1.0, 1e-6), (1.0, 0.1), (10.0, 1e-5)]:
            promise = common.DifferentialPrivacyParameters(epsilon, delta)
            sigma = mechanism.GaussianPrivacyLoss.from_privacy_guarantee(promise).standard_deviation
            assert gaussian_sigma(epsilon, delta, 1.0) == pytest.approx(sigma, rel=1e-4)

    @given(st.floats(0.01, 6.0), st.floats(1e-12, 0.4))
    def test_epsilon_at_inverts_from_above(self, mu, delta):
        certificate = GaussianDP(mu)
        epsilon = certificate.epsilon_at(delta)
        assert certificate.delta_at(epsilon) <= delta
        assert epsilon == 0.0 or certificate.delta_at(epsilon * (1 - 1e-6)) > delta * (1 - 1e-9)

    def test_delta_never_underflows_to_zero(self):
        assert GaussianDP(1e-3).delta_at(10.0) > 0.0
        assert GaussianDP(1e-300).delta_at(50.0) > 0.0
        assert GaussianDP(1e-12).delta_at(3.799e-11) > 0.0

    def test_delta_is_the_advantage_of_the_best_test(self):
        """delta(eps) = max over thresholds of P(reject | N(mu,1)) - e^eps P(reject | N(0,1))."""
        from scipy.special import ndtr

        thresholds = np.linspace(-10, 20, 300_001)
        for mu, epsilon in [(0.5, 0.3), (2.0, 1.0), (1.0, 0.0)]:
            advantage = ndtr(mu - thresholds) - math.exp(epsilon) * ndtr(-thresholds)
            assert GaussianDP(mu).delta_at(epsilon) == pytest.approx(advantage.max(), rel=1e-6)


class TestZeroConcentrated:
    def test_known_value(self):
        assert discrete_gaussian_sigma(1.0, 1e-6, 1.0) == pytest.approx(4.53, abs=0.005)

    def test_delta_agrees_with_the_printed_formula(self, mpmath):
        for epsilon, rho in itertools.product([0.0, 0.1, 1.0, 5.0], [1e-4, 0.02436, 0.5, 4.0]):
            exact = float(exact_concentrated_delta(mpmath, epsilon, rho))
            if 1e-18 < exact < 0.999:
                assert ZeroConcentratedDP(rho).delta_at(epsilon) == pytest.approx(exact, rel=1e-9)

    def test_calibration_is_safe_and_tight(self, mpmath):
        for epsilon, delta in itertools.product([0.05, 1.0, 10.0, 50.0], [1e-15, 1e-6, 0.1]):
            exact = exact_concentrated_delta(mpmath, epsilon, zcdp_rho(epsilon, delta))
            assert exact <= delta
            assert exact >= delta * (1 - 1e-8)

    def test_agrees_with_dp_accounting(self):
        accountant = pytest.importorskip("dp_accounting.rdp.rdp_privacy_accountant")
        orders = 1.0 + np.logspace(-2, 4, 3000)
        for rho, delta in [(0.02436, 1e-6), (0.5, 1e-5), (3.0, 1e-9)]:
            epsilon, _ = accountant.compute_epsilon(orders, orders * rho, delta)
            assert ZeroConcentratedDP(rho).epsilon_at(delta) == pytest.approx(epsilon, rel=1e-3)

    def test_covers_the_gaussian_it_describes(self):
        """N(mu, 1) is mu^2/2-zCDP, so the concentrated delta can never be the smaller one."""
        for mu, epsilon in itertools.product([0.05, 0.5, 2.0, 5.0], [0.0, 0.1, 1.0, 8.0]):
            gaussian = GaussianDP(mu)
            assert gaussian.to_zcdp().delta_at(epsilon) >= gaussian.delta_at(epsilon) * (1 - 1e-12)

    def test_covers_discrete_noise_by_enumeration(self):
        """delta of the discrete Gaussian itself, summed over the integers, for small scales too."""
        k = np.arange(-400, 401)
        for sigma, shift, epsilon in itertools.product([0.5, 1.0, 5.0, 30.0], [1, 3], [0.1, 1.0]):
            p = np.exp(-(k**2) / (2 * sigma**2))
            q = np.exp(-((k - shift) ** 2) / (2 * sigma**2))
            delta = np.maximum(q / q.sum() - math.exp(epsilon) * p / p.sum(), 0.0).sum()
            assert ZeroConcentratedDP(shift**2 / (2 * sigma**2)).delta_at(epsilon) >= delta * (1 - 1e-9)

    @given(st.floats(1e-5, 10.0), st.floats(1e-12, 0.4))
    def test_epsilon_at_inverts_from_above(self, rho, delta):
        certificate = ZeroConcentratedDP(rho)
        epsilon = certificate.epsilon_at(delta)
        assert certificate.delta_at(epsilon) <= delta
        assert epsilon == 0.0 or certificate.delta_at(epsilon * (1 - 1e-6)) > delta * (1 - 1e-9)


class TestNearGaussian:
    def test_distance_covers_enumeration(self):
        """Total variation of the two laws, summed over the integers."""
        from scipy.special import ndtr

        for sigma in [0.3, 0.5, 1.0, 2.0, 5.0, 30.0, 300.0]:
            k = np.arange(-int(15 * sigma) - 15, int(15 * sigma) + 16)
            discrete = np.exp(-(k**2) / (2 * sigma**2))
            rounded = ndtr((k + 0.5) / sigma) - ndtr((k - 0.5) / sigma)
            exact = 0.5 * np.abs(discrete / discrete.sum() - rounded).sum()
            assert exact <= rounding_distance(sigma)
            if sigma >= 5.0:
                assert rounding_distance(sigma) <= 2.0 * exact  # and is no wild guess

    def test_delta_covers_the_discrete_gaussian_by_enumeration(self):
        for sigma, shift, epsilon in itertools.product([3.0, 10.0, 60.0], [1, 5, 40], [0.0, 0.1, 1.0, 3.0]):
            k = np.arange(-2000, 2001)
            p = np.exp(-(k**2) / (2 * sigma**2))
            q = np.exp(-((k - shift) ** 2) / (2 * sigma**2))
            exact = np.maximum(q / q.sum() - math.exp(epsilon) * p / p.sum(), 0.0).sum()
            certificate = NearGaussianDP(shift / sigma, rounding_distance(sigma))
            assert certificate.delta_at(epsilon) >= exact * (1 - 1e-9)
            accuracy = 0.5 * (1 + 0.5 * np.abs(p / p.sum() - q / q.sum()).sum())
            assert certificate.membership_bound() >= accuracy - 1e-12

    def test_both_neighbours_pay_for_the_distance(self):
        """P <= Q + t <= e^eps Q' + delta + t <= e^eps (P' + t) + delta + t."""
        near, far = NearGaussianDP(0.2, 1e-9), GaussianDP(0.2)
        extra = near.delta_at(1.0) - far.delta_at(1.0)
        assert extra == pytest.approx((1 + math.e) * 1e-9, rel=1e-6)

    def test_is_never_worse_than_concentrated(self):
        for mu, distance, epsilon in itertools.product([0.2, 2.0], [0.0, 1e-9, 0.5], [0.1, 5.0, 60.0]):
            certificate = NearGaussianDP(mu, distance)
            assert certificate.delta_at(epsilon) <= certificate.to_zcdp().delta_at(epsilon)

    def test_calibration_is_safe_and_saves_noise(self):
        for epsilon, delta, draws in [(1.0, 1e-6, 60_000), (0.1, 1e-5, 10), (10.0, 1e-5, 1000)]:
            sensitivity = 2.0**21
            sigma = near_gaussian_sigma(epsilon, delta, sensitivity, draws)
            certificate = NearGaussianDP(sensitivity / sigma, draws * rounding_distance(sigma))
            assert certificate.delta_at(epsilon) <= delta
            assert sigma < 0.96 * discrete_gaussian_sigma(epsilon, delta, sensitivity)
            assert sigma >= gaussian_sigma(epsilon, delta, sensitivity)

    def test_composition(self):
        one = NearGaussianDP(3.0, 1e-9)
        assert one.compose(NearGaussianDP(4.0, 2e-9)).mu == 5.0
        assert one.compose(NearGaussianDP(4.0, 2e-9)).distance == pytest.approx(3e-9)
        assert one.compose(GaussianDP(4.0)) == NearGaussianDP(5.0, 1e-9)
        assert GaussianDP(4.0).beside(one) == NearGaussianDP(5.0, 1e-9)
        assert one.compose(ZeroConcentratedDP(0.5)) == ZeroConcentratedDP(5.0)

    @given(st.floats(0.01, 4.0), st.floats(0.0, 1e-6), st.floats(1e-12, 0.4))
    def test_epsilon_at_is_proven(self, mu, distance, delta):
        certificate = NearGaussianDP(mu, distance)
        assert certificate.delta_at(certificate.epsilon_at(delta)) <= delta


class TestPure:
    @given(st.floats(0.01, 20.0), st.floats(0.0, 25.0))
    def test_delta_is_that_of_randomised_response(self, epsilon, smaller):
        own, other = 1 / (1 + math.exp(-epsilon)), 1 / (1 + math.exp(epsilon))
        exact = max(0.0, own - math.exp(smaller) * other)
        assert PureDP(epsilon).delta_at(smaller) == pytest.approx(exact, abs=1e-12)

    @given(st.floats(0.01, 20.0), st.floats(0.0, 0.9))
    def test_epsilon_at_inverts(self, epsilon, delta):
        certificate = PureDP(epsilon)
        assert certificate.delta_at(certificate.epsilon_at(delta)) <= delta + 1e-12

    def test_nothing_overflows(self):
        assert PureDP(2000.0).delta_at(1.0) == pytest.approx(1.0)
        assert PureDP(2000.0).membership_bound() == 1.0


class TestComposition:
    def test_kinds_stay_closed(self):
        assert PureDP(1.0).compose(PureDP(0.5)) == PureDP(1.5)
        assert GaussianDP(3.0).compose(GaussianDP(4.0)) == GaussianDP(5.0)
        assert ZeroConcentratedDP(0.1).compose(ZeroConcentratedDP(0.2)).rho == pytest.approx(0.3)
        assert GaussianDP(1.0).compose() == GaussianDP(1.0)

    def test_mixed_kinds_meet_in_zcdp(self):
        mixed = PureDP(1.0).compose(GaussianDP(1.0), ZeroConcentratedDP(0.25))
        assert mixed == ZeroConcentratedDP(0.5 + 0.5 + 0.25)

    def test_pure_losses_add_up_apart_where_that_is_closer(self):
        """Basic composition of (epsilon, delta) pairs is never far from the closer of the two ways."""
        noise = GaussianDP(0.2367)  # of (1, 1e-6)
        apart = PureBeside(0.5, noise).closest_beside(PureDP(1.0), delta=1e-6)
        assert apart == PureBeside(1.5, noise)
        both = PureBeside(0.5, noise).closest_beside(PureBeside(0.25, noise), delta=2e-6)
        assert both == PureBeside(0.75, noise.compose(noise))
        assert PureDP(1.0).closest_beside(PureDP(0.5), delta=0.0) == PureDP(1.5)
        assert noise.closest_beside(noise, delta=1e-6) == noise.beside(noise)
        small = PureDP(0.01).closest_beside(ZeroConcentratedDP(0.1), delta=1e-6)
        assert small == ZeroConcentratedDP(0.1 + 0.5 * 0.01**2)

    def test_the_order_of_parts_does_not_matter(self):
        """Pure losses that meet a concentrated one count in squares, wherever in the row they stand."""
        parts = [PureDP(0.3), PureDP(1.7), GaussianDP(0.25), NearGaussianDP(0.5, 1e-12), GaussianDP(1.3)]
        rho = 0.5 * (0.3**2 + 1.7**2 + 0.25**2 + 0.5**2 + 1.3**2)
        for order in itertools.permutations(parts):
            together = order[0].compose(*order[1:])
            assert isinstance(together, ZeroConcentratedDP)
            assert together.rho == pytest.approx(rho, rel=1e-14)
        beside = PureBeside(0.4, GaussianDP(0.3))
        assert beside.beside(PureDP(1.0)).to_zcdp().rho == pytest.approx(0.5 * (0.4**2 + 0.3**2 + 1.0))

    def test_pure_as_zcdp_covers_randomised_response(self):
        for epsilon, order in itertools.product([0.1, 1.0, 5.0], [1.001, 2.0, 10.0, 100.0]):
            p, q = 1 / (1 + math.exp(-epsilon)), 1 / (1 + math.exp(epsilon))
            divergence = np.logaddexp(
                order * math.log(p) + (1 - order) * math.log(q),
                order * math.log(q) + (1 - order) * math.log(p),
            ) / (order - 1)
            assert divergence <= order * PureDP(epsilon).to_zcdp().rho * (1 + 1e-9)

    def test_less_than_a_pure_loss_is_not_proven(self):
        """Below the pure part alone no delta under 1 is proven, however little the other gives away."""
        both = PureBeside(0.5, GaussianDP(0.01))
        assert [both.delta_at(epsilon) for epsilon in (0.0, 0.25, 0.499)] == [1.0, 1.0, 1.0]
        assert both.delta_at(0.5) < 0.01


class TestMembership:
    @given(st.floats(0.0, 20.0), st.floats(0.0, 1.0))
    def test_bound_is_reached_by_leaky_randomised_response(self, epsilon, delta):
        """With probability delta the mechanism tells all, else it is randomised response."""
        accuracy = delta + (1 - delta) / (1 + math.exp(-epsilon))
        assert membership_bound(epsilon, delta) == pytest.approx(accuracy, rel=1e-12)

    @pytest.mark.parametrize("mu", [0.01, 0.2367, 1.0, 3.0])
    def test_gaussian_beats_all_its_pairs_and_is_reached(self, mu):
        certificate = GaussianDP(mu)
        # the total variation is delta at epsilon 0
        assert certificate.membership_bound() == pytest.approx(0.5 * (1 + certificate.delta_at(0.0)))

    @pytest.mark.parametrize("rho", [1e-4, 0.02436, 0.3, 1.0, 5.0, 40.0])
    def test_concentrated_covers_the_gaussian(self, rho):
        bound = ZeroConcentratedDP(rho).membership_bound()
        assert GaussianDP(math.sqrt(2 * rho)).membership_bound() <= bound <= 1.0
        assert bound <= 0.5 * (1 + math.sqrt(rho / 2)) + 1e-12  # at least as good as Pinsker

    @pytest.mark.parametrize("epsilon", [0.05, 1.0, 4.0])
    def test_concentrated_covers_randomised_response(self, epsilon):
        p, q = 1 / (1 + math.exp(-epsilon)), 1 / (1 + math.exp(epsilon))
        orders = 1 + np.logspace(-6, 4, 2000)
        sums = np.logaddexp(
            orders * np.log(p) + (1 - orders) * np.log(q), orders * np.log(q) + (1 - orders) * np.log(p)
        )
        kullback_leibler = epsilon * math.tanh(epsilon / 2)  # order 1, the largest here
        rho = max(kullback_leibler, float((sums / (orders - 1) / orders).max()))
        assert ZeroConcentratedDP(rho).membership_bound() >= p * (1 - 1e-9)


class TestCalibrate:
    def test_releases_share_one_promise(self):
        once, four = calibrate_gaussian(1.0, 1e-6, 3.0), calibrate_gaussian(1.0, 1e-6, 3.0, releases=4)
        assert four["sigma"] == pytest.approx(2 * once["sigma"])
        assert four["sigma_discrete"] == pytest.approx(2 * once["sigma_discrete"])
        parts = [GaussianDP(3.0 / four["sigma"])] * 4
        assert parts[0].compose(*parts[1:]).delta_at(1.0) <= 1e-6 * (1 + 1e-9)

    @pytest.mark.parametrize("calibrate", [gaussian_mu, zcdp_rho])
    @pytest.mark.parametrize(
        ("epsilon", "delta"),
        [(0.0, 1e-6), (-1.0, 1e-6), (51.0, 1e-6), (math.nan, 1e-6), (1.0, 0.0), (1.0, 1e-16), (1.0, 1.0)],
    )
    def test_refuses_what_it_cannot_calibrate(self, calibrate, epsilon, delta):
        with pytest.raises(InvalidParameter):
            calibrate(epsilon, delta)

    def test_refuses_text(self):
        with pytest.raises(InvalidParameter, match="epsilon is a str"):
            gaussian_mu("1", 1e-6)


@pytest.mark.parametrize(
    "certificate", [PureDP(1.0), GaussianDP(0.25), ZeroConcentratedDP(0.02), NearGaussianDP(0.25, 1e-9)]
)
def test_certificates_survive_their_config(certificate):
    assert certificates.from_config(certificate.to_config()) == certificate
    assert "0." in certificate.describe() or "1" in certificate.describe()


def test_from_config_refuses_others():
    with pytest.raises(InvalidParameter):
        certificates.from_config({"kind": "TrustMe"})
    with pytest.raises(InvalidParameter):
        certificates.from_config({"kind": "PureDP", "rho": 1.0})


@given(st.floats(1e-12, 1e12), st.integers(1, 8))
def test_rounded_up_is_never_below(value, digits):
    shown = float(rounded_up(value, digits))
    assert value <= shown <= value * (1 + 10.0 ** (1 - digits) + 1e-12)
