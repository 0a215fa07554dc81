"""Noise sources: `SecureNoise` for production and `SimulatedNoise`, which is repeatable, for studies.

Both draw integers, so that a release never depends on the last bits of a float (Mironov 2012). Both have the
same methods. They differ in the distribution of the noise, and therefore in the certificate and in the scale
that a promise needs:

| source and law | certificate | scale at (1, 1e-6) |
|---|---|---|
| `SecureNoise()`: discrete Gaussian, operating-system randomness | `NearGaussianDP` | 4.225 sensitivity |
| the same, if `draws` is None or the lattice is coarse | `ZeroConcentratedDP` | 4.531 sensitivity |
| `SimulatedNoise(seed)`: rounded normal, repeatable | `GaussianDP` | 4.225 sensitivity |

**The rule.** A draw is one noise integer, and a user touches a draw if the user's data can change the number
to which it is added. An enforced release is calibrated by the near-Gaussian certificate under two
conditions. It states how many draws one user can touch (`draws`), and the near-Gaussian certificate needs
less noise than the zero-concentrated one, as on a fine lattice. Otherwise the zero-concentrated certificate
is used, which always holds.

**Proof that counting the touched draws suffices, adaptively.** Fix two neighbouring data sets, and releases
r_1, r_2, ... that add discrete Gaussian noise to integer vectors, each of which may depend on all earlier
releases. Given the same past, the two vectors differ (by v_j) only in releases that the replaced user
touches. On every path these releases have at most n draws, and sum_j |v_j|^2 <= s^2.

Let H be the same process with rounded real Gaussian noise in the touched releases. One draw of either noise
is within d = `rounding_distance(sigma)` of the other's in total variation. Couple the processes so that they
stay together until a touched draw differs, which has probability at most n d. For each neighbour, the
outcome is then within n d of the outcome of H in total variation.

In H, an untouched release has the same distribution under both neighbours. A touched one is the rounded sum
of v_j and a real Gaussian g_j, with v_j fixed by the past: post-processing of the sum. Give the attacker one
more Gaussian, with the mean that brings sum_j |v_j|^2 up to s^2 exactly. Then E exp(i t sum_j v_j.g_j) =
exp(-t^2 sigma^2 s^2/2), by taking expectations from the last release to the first, for every choice of the
v_j. The log-likelihood ratio is that of N(s/sigma, 1) against N(0, 1) (Smith, Thakurta 2022). So H is
GaussianDP(s/sigma), and the releases are `NearGaussianDP`(s/sigma, n d). A count above n, such as the count
of all draws, only adds noise.

Simulated noise protects nobody: anyone who has the seed can subtract it. A guarantee that rests on it has
the status `simulated`.
"""

import os
import threading
import weakref
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np

from dpbandits import _checks
from dpbandits._calls import worded
from dpbandits._config import Registry, Valued
from dpbandits._typing import IntArray, Seed
from dpbandits.errors import InvalidParameter
from dpbandits.privacy.calibration import discrete_scale, gaussian_mu, steps_up, zcdp_rho
from dpbandits.privacy.certificates import Certificate, GaussianDP, NearGaussianDP, ZeroConcentratedDP
from dpbandits.privacy.samplers import LARGEST_SIGMA, SMALLEST_SIGMA, discrete_gaussian, lattice_laplace
from dpbandits.privacy.words import SimulatedWords, Words, secure_words

__all__ = ["NoiseSource", "SecureNoise", "SimulatedNoise", "from_config", "words_of"]

_SIMULATED_STREAM = 0x6E6F6973
"""Number that separates the random stream of simulated noise from all other uses of a seed."""


@runtime_checkable
class NoiseSource(Protocol):
    """A source of integer noise, and the certificate that its distribution has."""

    @property
    def status(self) -> Literal["enforced", "simulated"]:
        """Return "enforced" if a guarantee may rest on this source, else "simulated"."""

    @property
    def gaussian_law(self) -> str:
        """Distribution of `integer_gaussian`, in words."""

    def gaussian_scale(
        self, sensitivity: float, epsilon: float, delta: float, *, draws: int | None = None
    ) -> tuple[float, Certificate]:
        """Return the scale of `integer_gaussian` for (epsilon, delta), and its certificate at that scale.

        Args:
            sensitivity: Largest Euclidean distance between the integer statistics of two neighbouring data
                sets, over all releases that share the promise.
            epsilon: Privacy loss of the promise; see `dpbandits.privacy.calibration`.
            delta: Failure probability of the promise.
            draws: Largest number of noise draws that one user's data can affect over all these releases.
                None means that it has no bound; the certificate then does not depend on it.
        """

    def integer_gaussian(self, sigma: float, size: int) -> IntArray:
        """Draw fresh noise (size,) of scale `sigma`, as integers."""

    def integer_laplace(self, rate: float, size: int) -> IntArray:
        """Draw fresh discrete Laplace noise (size,), with P(k) exactly proportional to exp(-rate |k|)."""

    def to_config(self) -> dict[str, Any]:
        """Return the kind of source for JSON; it never contains noise that was drawn or prepared."""


_SOURCES: Registry[NoiseSource] = Registry("a noise source", label="kind")


@_SOURCES.add("SecureNoise")
class SecureNoise(Valued):
    """Discrete Gaussian noise from an exact sampler and the operating system's randomness.

    P(k) is proportional to exp(-k^2/(2 sigma^2)) on the integers. Added to an integer statistic of Euclidean
    sensitivity s, it is s^2/(2 sigma^2)-zCDP (Canonne, Kamath, Steinke 2020, Theorem 14). On a fine lattice
    it is nearly Gaussian; see the module. `dpbandits.privacy.samplers` holds the sampler.

    `prepare` draws noise ahead of time, so that a release takes less time. Prepared noise stays in the
    memory of this process. It is never saved, shown, copied or shared with a forked child, because noise
    that is used twice protects nobody.

    Example:
        >>> SecureNoise().integer_gaussian(sigma=1e6, size=3).shape
        (3,)
    """

    status: ClassVar[Literal["enforced"]] = "enforced"
    gaussian_law: ClassVar[str] = "discrete Gaussian"

    def __init__(self) -> None:
        self._start_empty()
        _LIVING[id(self)] = self

    def gaussian_scale(
        self, sensitivity: float, epsilon: float, delta: float, *, draws: int | None = None
    ) -> tuple[float, Certificate]:
        """Return the smallest scale that the module's rule allows, and its certificate."""
        sigma, apart = discrete_scale(epsilon, delta, sensitivity, draws)
        if apart is None:
            return _check_sigma(sigma), ZeroConcentratedDP(zcdp_rho(epsilon, delta))
        return _check_sigma(sigma), NearGaussianDP(sensitivity / sigma, apart)

    def integer_gaussian(self, sigma: float, size: int) -> IntArray:
        """Draw fresh discrete Gaussian noise (size,), prepared draws first; no draw is returned twice."""
        scale, missing = _check_sigma(sigma), _check_size(size)
        parts: list[IntArray] = []
        self._own()
        with self._lock:
            pool = self._prepared.get(scale, [])
            while pool and missing:
                block = pool.pop()
                if len(block) > missing:
                    pool.append(block[missing:])
                    block = block[:missing]
                parts.append(block)
                missing -= len(block)
        parts.append(discrete_gaussian(scale, missing, secure_words))
        return np.concatenate(parts)

    def integer_laplace(self, rate: float, size: int) -> IntArray:
        """Draw fresh discrete Laplace noise (size,), with P(k) exactly proportional to exp(-rate |k|)."""
        return lattice_laplace(rate, _check_size(size), secure_words)

    def prepare(self, sigma: float, size: int) -> None:
        """Draw noise of scale `sigma` ahead until `size` draws are ready; this may run in another thread."""
        scale, wanted = _check_sigma(sigma), _check_size(size)
        self._own()
        with self._lock:
            waiting = sum(len(block) for block in self._prepared.get(scale, []))
        block = discrete_gaussian(scale, max(0, wanted - waiting), secure_words)
        with self._lock:
            self._prepared.setdefault(scale, []).append(block)

    def _start_empty(self) -> None:
        """Discard prepared noise and create a new lock that nobody holds."""
        self._lock = threading.Lock()
        self._prepared: dict[float, list[IntArray]] = {}
        self._process = os.getpid()

    def _own(self) -> None:
        """Discard prepared noise in a forked child, also if a C library forked and Python did not see it.

        Two threads of the child may do this at the same time. Then each has its own prepared noise.
        """
        if self._process != os.getpid():
            self._start_empty()

    def __repr__(self) -> str:
        return "SecureNoise()"

    def __reduce__(self) -> tuple[Any, ...]:
        """Return a new source without prepared noise for copies and transfers to other processes."""
        return SecureNoise, ()


# Held by identity: equal sources have separate prepared noise.
_LIVING: "weakref.WeakValueDictionary[int, SecureNoise]" = weakref.WeakValueDictionary()


def _after_fork_in_child() -> None:
    """Discard noise and lock of the parent, which will use that noise and may hold the lock."""
    for source in list(_LIVING.values()):
        source._start_empty()


if hasattr(os, "register_at_fork"):  # absent on platforms without fork
    os.register_at_fork(after_in_child=_after_fork_in_child)


@worded
@_SOURCES.add("SimulatedNoise")
class SimulatedNoise(Valued):
    """Repeatable noise for studies and tests: rounded normal draws. It protects nobody.

    Call number i draws from a generator keyed by (seed, i) alone. So a run that is restored at `position`
    continues bit for bit as if it had not been interrupted.

    Args:
        seed: Non-negative integer that determines all draws.
        position: Number of earlier calls of `integer_gaussian` and `integer_laplace`. Every call increases
            it. Save it with the state of the object that draws.

    Raises:
        InvalidParameter: The seed or the position is negative.

    Example:
        >>> noise = SimulatedNoise(7)
        >>> first, second = noise.integer_gaussian(100.0, 2), noise.integer_gaussian(100.0, 2)
        >>> bool(np.all(noise.at(1).integer_gaussian(100.0, 2) == second))
        True
    """

    status: ClassVar[Literal["simulated"]] = "simulated"
    gaussian_law: ClassVar[str] = "rounded normal (simulated)"
    config_omits = frozenset({"position"})  # state, not configuration

    def __init__(self, seed: Seed, *, position: int = 0) -> None:
        self.seed = _checks.integer(seed, name="seed", minimum=0)
        self.position = _checks.integer(position, name="position", minimum=0)

    def at(self, position: int) -> "SimulatedNoise":
        """Return a source with this seed, as it is after `position` calls."""
        return SimulatedNoise(self.seed, position=position)

    def gaussian_scale(
        self, sensitivity: float, epsilon: float, delta: float, *, draws: int | None = None
    ) -> tuple[float, Certificate]:
        """Return sensitivity/mu and the certificate GaussianDP(mu), as for real-valued Gaussian noise.

        Adding rounded noise to an integer equals rounding the noisy sum, which is post-processing.
        """
        mu = gaussian_mu(epsilon, delta)
        distance = _checks.number(sensitivity, name="sensitivity")
        return _check_sigma(steps_up(distance / mu)), GaussianDP(mu)

    def integer_gaussian(self, sigma: float, size: int) -> IntArray:
        """Draw (size,) normals of deviation `sigma`, rounded to integers. Increases `position` by one."""
        scale, count = _check_sigma(sigma), _check_size(size)
        key = np.random.SeedSequence([_SIMULATED_STREAM, self.seed, self.position])
        normals = np.random.Generator(np.random.Philox(key)).standard_normal(count)
        self.position += 1
        return np.rint(scale * normals).astype(np.int64)

    def integer_laplace(self, rate: float, size: int) -> IntArray:
        """Draw (size,) discrete Laplace integers with the exact sampler. Increases `position` by one."""
        count = _check_size(size)
        words = SimulatedWords(self.seed, stream=_SIMULATED_STREAM + (self.position << 32))
        self.position += 1
        return lattice_laplace(rate, count, words)

    def __repr__(self) -> str:
        return f"SimulatedNoise({self.seed})"


from_config = _SOURCES.read
"""Create a source from its `to_config()`. Raises `InvalidParameter` for anything else."""


def words_of(noise: NoiseSource, *, stream: int) -> Words:
    """Return the random words of a noise source: the operating system's, or a keyed stream for studies.

    Raises:
        InvalidParameter: The source is neither `SecureNoise` nor `SimulatedNoise`.
    """
    if noise.status == "enforced":
        return secure_words
    if isinstance(noise, SimulatedNoise):
        return SimulatedWords(noise.seed, stream=stream)
    raise InvalidParameter("random words need SecureNoise() or SimulatedNoise(seed)")


def _check_sigma(sigma: object) -> float:
    scale = _checks.number(sigma, name="sigma")
    if scale > LARGEST_SIGMA:
        raise InvalidParameter(
            f"sigma is {scale:.3g} lattice units, above 2^52: epsilon is too small for this lattice"
        )
    if scale < SMALLEST_SIGMA:
        raise InvalidParameter(f"sigma is {scale:.3g} lattice units, below 2^-20: there would be no noise")
    return scale


def _check_size(size: object) -> int:
    return _checks.integer(size, name="size", minimum=0)
