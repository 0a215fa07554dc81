"""Sources of the noise of a guarantee: a secure one, and a repeatable one for studies.

Both draw integers, so that what is released never depends on the last bits of a float (Mironov 2012),
and both are used through the same calls. They differ in the law, hence in the certificate, hence in
the scale that a promise needs:

=================================================  ====================  ==================
source and law                                     certificate           scale at (1, 1e-6)
=================================================  ====================  ==================
`SecureNoise()`: discrete Gaussian,                `NearGaussianDP`      4.225 sensitivity
operating-system randomness
the same, where the draws that one unit can        `ZeroConcentratedDP`  4.531 sensitivity
touch have no bound, or the lattice is coarse
`SimulatedNoise(seed)`: rounded normal,            `GaussianDP`          4.225 sensitivity
repeatable
=================================================  ====================  ==================

**The rule.** An enforced release is calibrated near-Gaussian wherever it says how many draws of noise one
unit can touch (`draws`) and its scale, in lattice units, is so large that this takes less noise than the
zero-concentrated certificate; elsewhere the latter holds by itself.

**Why the touched draws suffice, adaptively.** Fix two neighbours, and releases r_1, r_2, ... that add
discrete Gaussian noise to integer vectors, each of which may depend on all earlier ones. Given the same past,
the two vectors differ (by v_j) only in releases that the unit touches, with at most n draws on every path,
and sum_j |v_j|^2 <= s^2 on every path. Let H be the same process with rounded real Gaussian noise in the
touched releases. Draw for draw the two noises are within d = `rounding_distance(sigma)` of each other. Couple
the processes so that they stay together until a touched draw differs, which has probability at most n d: so
each neighbour's outcome is within n d of its H in total variation. In H, an untouched release has one law
under both neighbours. A touched one is the rounded sum of v_j and a real Gaussian g_j, v_j being fixed by the
past: post-processing of the sum. Give the attacker one more Gaussian, with the mean that brings
sum_j |v_j|^2 up to s^2 exactly. Then E exp(i t sum_j v_j.g_j) = exp(-t^2 sigma^2 s^2/2), by taking
expectations from the last release to the first, whatever the v_j were: the log-likelihood ratio is that of
N(s/sigma, 1) against N(0, 1) (Smith, Thakurta 2022). So H is GaussianDP(s/sigma), and the releases are
`NearGaussianDP`(s/sigma, n d). Counting more draws than n, such as all there are, only asks for more noise.

Simulated noise protects nobody: whoever has the seed can subtract it. A guarantee that rests on it
has the status `simulated`.
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
"""Separates simulated noise from every other use of a seed."""


@runtime_checkable
class NoiseSource(Protocol):
    """A source of integer noise and the certificate its law carries."""

    @property
    def status(self) -> Literal["enforced", "simulated"]:
        """Return whether a guarantee may rest on this source."""

    @property
    def gaussian_law(self) -> str:
        """The law of `integer_gaussian`, in words."""

    def gaussian_scale(
        self, sensitivity: float, epsilon: float, delta: float, *, draws: int | None = None
    ) -> tuple[float, Certificate]:
        """Scale of `integer_gaussian` that keeps (epsilon, delta), and what it then certifies.

        Args:
            sensitivity: largest Euclidean distance between the integer statistics of two neighbours,
                over all releases that share the promise.
            epsilon, delta: see `dpbandits.privacy.calibration`.
            draws: how many draws of noise one privacy unit can touch, over all these releases; None where
                that has no bound, and the certificate is then one that does not depend on it.
        """

    def integer_gaussian(self, sigma: float, size: int) -> IntArray:
        """Fresh noise (size,) of scale `sigma`, in lattice units."""

    def integer_laplace(self, rate: float, size: int) -> IntArray:
        """Fresh discrete Laplace noise (size,), P(k) proportional to exp(-rate |k|), exactly."""

    def to_config(self) -> dict[str, Any]:
        """JSON-ready description of the kind of source, never of drawn or pending noise."""


_SOURCES: Registry[NoiseSource] = Registry("a noise source", label="kind")


@_SOURCES.add("SecureNoise")
class SecureNoise(Valued):
    """Discrete Gaussian noise by an exact sampler (`dpbandits.privacy.samplers`) on the system's randomness.

    P(k) is proportional to exp(-k^2/(2 sigma^2)) on the integers. Added to an integer statistic whose
    neighbours are at Euclidean distance at most s, it is s^2/(2 sigma^2)-zCDP (Canonne, Kamath,
    Steinke 2020, Theorem 14); on a fine lattice it is nearly Gaussian, see the module.

    `prepare` draws ahead of time, off the path of an answer. Prepared noise lives in the memory of this
    process only: it is never saved, shown, copied or shared with a forked child, because noise used twice
    protects nobody.

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
        """The smallest scale that the rule of the module allows, and its certificate."""
        sigma, apart = discrete_scale(epsilon, delta, sensitivity, draws)
        if apart is None:
            return _check_sigma(sigma), ZeroConcentratedDP(zcdp_rho(epsilon, delta))
        return _check_sigma(sigma), NearGaussianDP(sensitivity / sigma, apart)

    def integer_gaussian(self, sigma: float, size: int) -> IntArray:
        """Fresh discrete Gaussian noise (size,), prepared draws first; nothing is handed out twice."""
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
        """Fresh discrete Laplace noise (size,), P(k) proportional to exp(-rate |k|), exactly."""
        return lattice_laplace(rate, _check_size(size), secure_words)

    def prepare(self, sigma: float, size: int) -> None:
        """Draw ahead until `size` draws of scale `sigma` are waiting; may run in another thread."""
        scale, wanted = _check_sigma(sigma), _check_size(size)
        self._own()
        with self._lock:
            waiting = sum(len(block) for block in self._prepared.get(scale, []))
        block = discrete_gaussian(scale, max(0, wanted - waiting), secure_words)
        with self._lock:
            self._prepared.setdefault(scale, []).append(block)

    def _start_empty(self) -> None:
        """No prepared noise, and a lock that nobody holds."""
        self._lock = threading.Lock()
        self._prepared: dict[float, list[IntArray]] = {}
        self._process = os.getpid()

    def _own(self) -> None:
        """For forks that Python does not see, such as a library's own: the child starts empty here.

        Two threads of the child may both do it: each then has a pool of its own, and nothing is shared.
        """
        if self._process != os.getpid():
            self._start_empty()

    def __repr__(self) -> str:
        return "SecureNoise()"

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and transfers to other processes start without prepared noise."""
        return SecureNoise, ()


# By identity: equal sources are not the same source.
_LIVING: "weakref.WeakValueDictionary[int, SecureNoise]" = weakref.WeakValueDictionary()


def _after_fork_in_child() -> None:
    """The parent will use the noise that it prepared, and a thread that is not here may hold its lock."""
    for source in list(_LIVING.values()):
        source._start_empty()


if hasattr(os, "register_at_fork"):  # else processes are never forked
    os.register_at_fork(after_in_child=_after_fork_in_child)


@worded
@_SOURCES.add("SimulatedNoise")
class SimulatedNoise(Valued):
    """Repeatable noise for studies and tests: a rounded normal draw. It protects nobody.

    Draw number i comes from a generator keyed by (seed, i) alone, so a run restored at `position`
    continues bit for bit as if it had not been interrupted.

    Args:
        seed: any non-negative integer; all draws come from it.
        position: how many draws (calls of `integer_gaussian` and `integer_laplace`) came before; every draw
            moves it on, and it belongs into the saved state of whoever draws.

    Raises:
        InvalidParameter: a negative seed or position.

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
        """Return the same source as it was after `position` draws."""
        return SimulatedNoise(self.seed, position=position)

    def gaussian_scale(
        self, sensitivity: float, epsilon: float, delta: float, *, draws: int | None = None
    ) -> tuple[float, Certificate]:
        """sensitivity/mu and its mu, as for real-valued Gaussian noise.

        Rounding noise that is added to an integer is rounding their sum: post-processing.
        """
        mu = gaussian_mu(epsilon, delta)
        distance = _checks.number(sensitivity, name="sensitivity")
        return _check_sigma(steps_up(distance / mu)), GaussianDP(mu)

    def integer_gaussian(self, sigma: float, size: int) -> IntArray:
        """Normal draws (size,) rounded to integers; moves `position` on by one."""
        scale, count = _check_sigma(sigma), _check_size(size)
        key = np.random.SeedSequence([_SIMULATED_STREAM, self.seed, self.position])
        normals = np.random.Generator(np.random.Philox(key)).standard_normal(count)
        self.position += 1
        return np.rint(scale * normals).astype(np.int64)

    def integer_laplace(self, rate: float, size: int) -> IntArray:
        """Draws (size,) by the exact sampler on keyed words; moves `position` on by one."""
        count = _check_size(size)
        words = SimulatedWords(self.seed, stream=_SIMULATED_STREAM + (self.position << 32))
        self.position += 1
        return lattice_laplace(rate, count, words)

    def __repr__(self) -> str:
        return f"SimulatedNoise({self.seed})"


from_config = _SOURCES.read
"""A fresh source of the kind that `to_config()` described; anything else is an `InvalidParameter`."""


def words_of(noise: NoiseSource, *, stream: int) -> Words:
    """Random words of a noise source: the operating system's, or a keyed stream for studies."""
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
