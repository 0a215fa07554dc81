"""Noise: its law, its freshness, and that simulated noise continues where it stopped.

Statistical tests of secure noise cannot fix a seed; each states its false-alarm rate, below 1e-9.
"""

import copy
import json
import math
import multiprocessing
import os
import pickle
import signal
import threading
from itertools import product

import numpy as np
import pytest

from dpbandits.errors import InvalidParameter
from dpbandits.privacy import noise
from dpbandits.privacy.calibration import rounding_distance
from dpbandits.privacy.certificates import GaussianDP, NearGaussianDP, ZeroConcentratedDP
from dpbandits.privacy.noise import NoiseSource, SecureNoise, SimulatedNoise
from internals.noise import lock, prepared
from noises import opendp_measurement

SOURCES = [SecureNoise(), SimulatedNoise(3)]


def check_law(draws, probabilities):
    """Every count within 7 standard deviations (false alarm below 3e-12 a cell)."""
    n = len(draws)
    for k, p in probabilities.items():
        count = int((draws == k).sum())
        assert abs(count - n * p) <= 7 * math.sqrt(n * p * (1 - p)) + 1


@pytest.mark.parametrize("source", SOURCES)
class TestEverySource:
    def test_is_a_noise_source(self, source):
        assert isinstance(source, NoiseSource)
        assert source.status in ("enforced", "simulated")

    def test_shapes_and_types(self, source):
        for size in (0, 1, 7):
            draws = source.integer_gaussian(10.0, size)
            assert draws.dtype == np.int64
            assert draws.shape == (size,)

    def test_spread(self, source):
        """Mean and variance of 10,000 draws within 7 standard deviations: .07 and 7 sqrt(2/n) = .1."""
        for sigma in (3.0, 1e7, 1e12):
            draws = source.integer_gaussian(sigma, 10_000) / sigma
            assert np.mean(draws**2) == pytest.approx(1.0, abs=0.1)
            assert np.mean(draws) == pytest.approx(0.0, abs=0.07)

    def test_scale_keeps_the_promise(self, source):
        promises = [(1.0, 1e-6, 3e6), (0.1, 1e-12, 1.0), (10.0, 1e-3, 7.5)]
        for (epsilon, delta, sensitivity), draws in product(promises, (5000, None)):
            sigma, certificate = source.gaussian_scale(sensitivity, epsilon, delta, draws=draws)
            assert certificate.delta_at(epsilon) <= delta
            if isinstance(certificate, NearGaussianDP):
                assert sensitivity / sigma <= certificate.mu
                assert 5000 * rounding_distance(sigma) <= certificate.distance
            elif isinstance(certificate, ZeroConcentratedDP):
                assert sensitivity**2 / (2 * sigma**2) <= certificate.rho
            else:
                assert isinstance(certificate, GaussianDP)
                assert sensitivity / sigma <= certificate.mu

    @pytest.mark.parametrize("sigma", [0.0, -1.0, math.nan, math.inf, 2.0**53, "1"])
    def test_refuses_scales_it_cannot_draw(self, source, sigma):
        with pytest.raises(InvalidParameter, match="sigma"):
            source.integer_gaussian(sigma, 3)

    def test_refuses_a_promise_that_does_not_fit_the_lattice(self, source):
        with pytest.raises(InvalidParameter, match="sigma"):
            source.gaussian_scale(1e9, 1e-9, 1e-15)

    def test_survives_its_config_without_state(self, source):
        source.integer_gaussian(5.0, 4)
        config = source.to_config()
        assert noise.from_config(config) == source
        assert set(config) <= {"kind", "seed"}


class TestSecure:
    def test_scale_at_the_usual_promise(self):
        sigma, certificate = SecureNoise().gaussian_scale(1.0, 1.0, 1e-6)
        assert sigma == pytest.approx(4.53, abs=0.005)
        assert isinstance(certificate, ZeroConcentratedDP)

    def test_equal_sources_print_alike(self):
        assert SecureNoise() == SecureNoise()
        assert repr(SecureNoise()) == "SecureNoise()"

    def test_near_gaussian_needs_less_noise_on_a_fine_lattice_only(self):
        source = SecureNoise()
        fine, certificate = source.gaussian_scale(2.0**21, 1.0, 1e-6, draws=60_000)
        assert isinstance(certificate, NearGaussianDP)
        assert fine / 2.0**21 == pytest.approx(4.225, abs=0.01)
        coarse, certificate = source.gaussian_scale(3.0, 1.0, 1e-6, draws=60_000)
        assert isinstance(certificate, ZeroConcentratedDP)
        assert coarse / 3.0 == pytest.approx(4.531, abs=0.001)
        wider, certificate = source.gaussian_scale(2.0**21, 1.0, 1e-6)  # draws unknown
        assert isinstance(certificate, ZeroConcentratedDP)
        assert fine < 0.94 * wider

    def test_law_is_the_discrete_gaussian(self):
        draws = SecureNoise().integer_gaussian(0.8, 50_000)
        weights = {k: math.exp(-(k**2) / (2 * 0.8**2)) for k in range(-30, 31)}
        total = sum(weights.values())
        check_law(draws, {k: weights[k] / total for k in range(-3, 4)})

    def test_library_certifies_the_same_rho(self):
        """OpenDP's own map, which rounds up, agrees with our rho and never exceeds it by more."""
        sensitivity = 2_965_821.5
        sigma, certificate = SecureNoise().gaussian_scale(sensitivity, 1.0, 1e-6)
        measurement = opendp_measurement(sigma)
        assert measurement.map(sensitivity) <= certificate.rho
        assert measurement.map(sensitivity) == pytest.approx(certificate.rho, rel=1e-9)

    def test_prepared_draws_are_used_once(self):
        source = SecureNoise()
        source.prepare(1e12, 10)  # equal values by chance: below 1e-10
        first, second = source.integer_gaussian(1e12, 6), source.integer_gaussian(1e12, 6)
        assert len(np.unique(np.concatenate([first, second]))) == 12

    def test_prepared_draws_serve_their_own_scale_only(self):
        source = SecureNoise()
        source.prepare(1e12, 100)
        assert np.abs(source.integer_gaussian(1.0, 100)).max() < 100

    def test_preparing_twice_draws_once(self):
        source = SecureNoise()
        source.prepare(5.0, 10)
        source.prepare(5.0, 10)
        assert sum(len(block) for block in prepared(source)[5.0]) == 10

    def test_copies_start_empty(self):
        source = SecureNoise()
        source.prepare(1e12, 50)
        for other in (copy.copy(source), copy.deepcopy(source), pickle.loads(pickle.dumps(source))):  # noqa: S301
            assert not prepared(other)

    @pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
    def test_forked_children_draw_their_own(self):
        source = SecureNoise()
        source.prepare(1e12, 8)
        context = multiprocessing.get_context("fork")
        queue = context.SimpleQueue()
        child = context.Process(target=lambda: queue.put(source.integer_gaussian(1e12, 8).tolist()))
        child.start()
        theirs = queue.get()
        child.join()
        assert not set(theirs) & set(source.integer_gaussian(1e12, 8).tolist())

    @pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
    def test_a_child_forked_while_the_pool_is_in_use_neither_waits_nor_repeats(self):
        """At the fork a thread of the parent holds the lock, and is not there in the child to free it."""
        sources = [SecureNoise() for _ in range(3)]  # equal, and yet not one source
        for source in sources:
            source.prepare(1e12, 8)
        for source in sources:
            lock(source).acquire()
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                signal.alarm(60)  # a child that waits for ever is killed, and writes nothing
                draws = [source.integer_gaussian(1e12, 8).tolist() for source in sources]
                os.write(writing, json.dumps(draws).encode())
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            theirs = json.loads(pipe.read() or "[]")
        os.waitpid(child, 0)
        assert len(theirs) == 3, "the child waited for a lock that nobody holds"
        for source, drawn in zip(sources, theirs, strict=True):
            lock(source).release()
            assert not set(drawn) & set(source.integer_gaussian(1e12, 8).tolist())

    @pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
    def test_a_process_that_is_not_the_one_that_prepared_draws_its_own(self, monkeypatch):
        """Forks that Python does not see are recognised by the process id."""
        source = SecureNoise()
        source.prepare(1e12, 8)
        theirs = {value for block in prepared(source)[1e12] for value in block.tolist()}
        monkeypatch.setattr(os, "getpid", lambda: -1)
        lock(source).acquire()
        assert not theirs & set(source.integer_gaussian(1e12, 8).tolist())

    @pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
    def test_children_of_one_parent_draw_from_different_randomness(self):
        """The sampler's own generator is seeded anew in every process (by chance equal: below 1e-20)."""
        SecureNoise().integer_gaussian(1e12, 4)  # whatever the library keeps is there before the forks
        context = multiprocessing.get_context("fork")
        queue = context.SimpleQueue()
        children = [
            context.Process(target=lambda: queue.put(SecureNoise().integer_gaussian(1e12, 4).tolist()))
            for _ in range(3)
        ]
        for child in children:
            child.start()
        drawn = [queue.get() for _ in children]
        for child in children:
            child.join()
        drawn.append(SecureNoise().integer_gaussian(1e12, 4).tolist())
        assert len({value for draws in drawn for value in draws}) == 16

    def test_threads_never_share_draws(self):
        source, collected = SecureNoise(), []
        source.prepare(1e12, 2000)
        threads = [
            threading.Thread(
                target=lambda: collected.extend(
                    draw for _ in range(25) for draw in source.integer_gaussian(1e12, 20).tolist()
                )
            )
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # by chance two of 2,000 draws agree with probability 6e-7; three pairs never
        assert len(set(collected)) >= len(collected) - 2

    def test_shows_nothing(self):
        source = SecureNoise()
        source.prepare(1e12, 5)
        assert repr(source) == "SecureNoise()"


class TestSimulated:
    def test_continues_bit_for_bit(self):
        whole = SimulatedNoise(11)
        draws = [whole.integer_gaussian(1e6, 5) for _ in range(6)]
        assert whole.position == 6
        resumed = SimulatedNoise(11).at(4)
        assert np.array_equal(resumed.integer_gaussian(1e6, 5), draws[4])
        assert np.array_equal(resumed.integer_gaussian(1e6, 5), draws[5])

    def test_seeds_and_positions_differ(self):
        one, other = SimulatedNoise(1), SimulatedNoise(2)
        assert not np.array_equal(one.integer_gaussian(1e9, 5), other.integer_gaussian(1e9, 5))
        assert not np.array_equal(one.integer_gaussian(1e9, 5), one.at(0).integer_gaussian(1e9, 5))

    def test_law_is_the_rounded_normal(self):
        from scipy.special import ndtr

        draws = SimulatedNoise(0).integer_gaussian(0.8, 50_000)
        check_law(draws, {k: ndtr((k + 0.5) / 0.8) - ndtr((k - 0.5) / 0.8) for k in range(-3, 4)})

    def test_says_that_it_is_simulated(self):
        assert SimulatedNoise(0).status == "simulated"
        assert "simulated" in SimulatedNoise(0).gaussian_law

    @pytest.mark.parametrize("seed", [-1, 1.5, "a", None])
    def test_refuses_what_is_no_seed(self, seed):
        with pytest.raises(InvalidParameter, match="seed"):
            SimulatedNoise(seed)


def test_from_config_refuses_others():
    for config in (
        {},
        {"kind": "OtherNoise"},
        {"kind": "SecureNoise", "seed": 1},
        {"kind": "SecureNoise", "certificate": "mine"},
        {"kind": "SimulatedNoise"},
    ):
        with pytest.raises(InvalidParameter):
            noise.from_config(config)
