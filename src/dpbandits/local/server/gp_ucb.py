r"""Gaussian-process bandits of people who trust nobody: one noisy statistic a user, and nothing else.

A user's device chooses with the published policy, and sends the user's own z phi (and, if the spec asks,
phi phi^T) with Gaussian noise that hides everything the user brought. Beside Dubey2021, Algorithm 3
(`local.published.dubey2021_local`), this one

- calibrates Gram and vector jointly, or leaves the Gram out: the server then simulates it from public
  decision sets, and each report is m numbers;
- takes few Mercer features where the paper takes many Fourier features;
- regresses on the sums per published version with the noise in the model, without a shift.

| bytes of a report | what |
|---|---|
| 1 | format, 0xD2 |
| 4 | digest of the spec |
| 4 | version of the policy answered, little-endian |
| 8 | nonce |
| 8 D | signed integers, in units of 2^-20 |

Privacy: each report is (epsilon, delta)-differentially private in the user's whole data, against the
server too; choices of others are computed from reports alone.
"""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import IncompatibleState, InvalidData, ProtocolError
from dpbandits.local.contract.gp_spec import GPSpec, PublishedWeights
from dpbandits.local.device.outbox import MemoryOutbox, Outbox
from dpbandits.local.server.nonces import NonceSet
from dpbandits.models.decision_sets import PublicSets, uniform_decision_sets
from dpbandits.models.noisy_regression import WeightPosterior, posterior_from_block_statistics
from dpbandits.privacy.prefix_sums import RELEASE_UNIT
from dpbandits.state.ledger import Ledger, MemoryLedger

__all__ = ["GPUCBClient", "GPUCBServer"]

_FORMAT = 0xD2
_NONCE_BYTES = 8
_HEADER_BYTES = 17

REWARD_VARIANCE = 0.25
"""Largest variance of a reward, in squared widths of its range."""

PUBLIC_LAW_SPREAD = 0.03
"""Believed relative deviation of people from the public sets, where Grams are reported."""

PUBLIC_SETS = 400


class GPUCBClient:
    """One user's device: chooses, privatises once, keeps the report until the server has it.

    Args:
        spec: the public contract.
        ledger: the device's own budget, by default one report's.
        outbox: where the report waits; a real device gives a `FileOutbox`.

    Example:
        >>> import dpbandits as dpb
        >>> from dpbandits.models.features import MercerFeatures
        >>> box = dpb.Box(low=[0], high=[1])
        >>> features = MercerFeatures(
        ...     kernel=dpb.kernels.SquaredExponential(lengthscale=0.3), domain=box, n_features=5)
        >>> spec = GPSpec(domain=box, features=features, reward_range=(0, 1),
        ...     privacy=dpb.JointDP(epsilon=1, delta=1e-6))
        >>> client, server = GPUCBClient(spec), GPUCBServer(spec)
        >>> row = client.choose(server.publish(), np.array([[0.1], [0.7]]))
        >>> report = client.privatize(reward=1.0)
        >>> server.absorb([report, report])
        1
    """

    def __init__(self, spec: GPSpec, *, ledger: Ledger | None = None, outbox: Outbox | None = None) -> None:
        self.spec = spec
        self._ledger: Ledger = MemoryLedger() if ledger is None else ledger
        self._outbox: Outbox = MemoryOutbox() if outbox is None else outbox
        self._ledger.open_account("local-reports", epsilon=spec.privacy.epsilon, delta=spec.privacy.delta)
        self._chosen: tuple[int, FloatArray] | None = None
        self._nonce: bytes | None = None
        self._report: bytes | None = None
        self._key: str | None = None

    def __repr__(self) -> str:
        return f"GPUCBClient(epsilon={self.spec.privacy.epsilon:g})"

    def choose(self, policy: PublishedWeights, candidates: FloatArray) -> int:
        """The row of `candidates` (n, d) to take; nothing is sent.

        What `privatize` was to report before is over: a stored report stays in the outbox (`unsent`), and
        another one needs budget.
        """
        rows = self.spec.domain.validate(candidates)
        if rows.ndim != 2 or not len(rows):
            raise InvalidData(f"candidates: expected shape (n, {self.spec.domain.dim}), n at least 1")
        if len(policy.mean) != self.spec.features.n_features:
            raise IncompatibleState("the policy belongs to another spec: ask the server for both again")
        phi = self.spec.features(rows)
        rng = np.random.Generator(np.random.PCG64(int.from_bytes(os.urandom(16), "little")))
        if policy.version == 0:
            index = int(rng.integers(len(rows)))
        else:
            normals = rng.standard_normal(phi.shape[1:])
            scores = policy.scores(phi, thompson_scale=self.spec.thompson_scale, normals=normals)
            index = int(np.argmax(scores))
        self._chosen = (policy.version, rows[index])
        if self._key is not None or self._report is not None:
            self._key = self._nonce = self._report = None
        return index

    def privatize(self, *, reward: float) -> bytes:
        """The private report of the last choice; again, the same bytes at no cost.

        Raises:
            ProtocolError: nothing was chosen.
            BudgetExceeded: the device has reported before; nothing was drawn.
        """
        if self._key is not None:
            stored = self._outbox.get(self._key)
            if stored is not None:
                return stored
            raise ProtocolError("privatize: this device has reported, and the report was sent")
        if self._nonce is None or self._report is None:
            self._nonce, self._report = self._draw(reward)
        report = self._report
        self._outbox.put(self._nonce.hex(), report)  # where it fails, the next call stores these bytes
        self._key = self._nonce.hex()
        self._chosen = self._nonce = self._report = None
        return report

    def _draw(self, reward: float) -> tuple[bytes, bytes]:
        """Where the user's data meets noise: nonce and report, after the ledger was charged."""
        if self._chosen is None:
            raise ProtocolError("privatize: choose a row first")
        version, row = self._chosen
        raw = self.spec.contribution(row[None], np.array([reward]))
        if self._nonce is None:  # a ledger that failed may have written the charge: the id stays
            self._nonce = os.urandom(_NONCE_BYTES)
        self._ledger.charge(
            "local-reports",
            charge_id=self._nonce.hex(),
            epsilon=self.spec.privacy.epsilon,
            delta=self.spec.privacy.delta,
        )
        noisy = self.spec.release.release(0, raw)
        head = bytes([_FORMAT]) + self.spec.digest + version.to_bytes(4, "little") + self._nonce
        return self._nonce, head + noisy.astype("<i8").tobytes()

    def unsent(self) -> list[bytes]:
        """Reports stored and not yet marked as sent: after a crash, send these again."""
        return list(self._outbox.pending().values())

    def sent(self, report: bytes) -> None:
        """Forget a report that the server has confirmed."""
        for key, stored in self._outbox.pending().items():
            if stored == report:
                self._outbox.remove(key)


class GPUCBServer:
    """Adds up reports and publishes policies; no method of it takes raw data.

    Args:
        spec: the public contract.
    """

    def __init__(self, spec: GPSpec) -> None:
        self.spec = spec
        self._sums: list[IntArray] = []
        self._counts: list[int] = []
        self._expected: list[FloatArray] = []
        self._posterior: WeightPosterior | None = None
        self._nonces = NonceSet()
        self._public: PublicSets | None = None

    @property
    def n_reports(self) -> int:
        """Reports added up."""
        return sum(self._counts)

    def absorb(self, reports: Sequence[bytes]) -> int:
        """Add reports; how many were new. Repeated, foreign and malformed ones are left out."""
        sound = [r for r in reports if self._may_come_from_a_device(r)]
        sound = [r for r in sound if int.from_bytes(r[5:9], "little") < len(self._counts)]
        if not sound:
            return 0
        nonces = np.array([int.from_bytes(r[9:17], "little") for r in sound], dtype=np.uint64)
        fresh = np.flatnonzero(self._nonces.add(nonces))
        for i in fresh:
            self._add(int.from_bytes(sound[i][5:9], "little"), 1, _values(sound[i]))
        return len(fresh)

    def _may_come_from_a_device(self, report: object) -> bool:
        """Form, spec and size of the numbers: none is 32 deviations of the noise beyond any contribution."""
        release = self.spec.release
        if not isinstance(report, bytes) or len(report) != _HEADER_BYTES + 8 * release.mechanism.size:
            return False
        if report[:5] != bytes([_FORMAT]) + self.spec.digest:
            return False
        values, farthest = _values(report), release.sensitivity + 32.0 * release.sigma
        return bool(values.max() <= farthest and values.min() >= -farthest)

    def _add(self, version: int, count: int, values: IntArray) -> None:
        """Noisy sums of `count` reports that answered `version`."""
        self._sums[version] += values
        self._counts[version] += count

    def publish(self) -> PublishedWeights:
        """Learn from all reports so far, and publish the next version."""
        if self.n_reports:
            self._posterior = self._fit()
        version = self._open_version()
        self._expected.append(self._expected_gram(version))
        posterior = self._posterior or WeightPosterior.prior(
            self.spec.prior_variance, self.spec.features.supports
        )
        return PublishedWeights(version=version, mean=posterior.mean, factor=posterior.factor)

    def _open_version(self) -> int:
        """Make room for the answers to the next version."""
        self._sums.append(np.zeros(self.spec.release.mechanism.size, dtype=np.int64))
        self._counts.append(0)
        return len(self._counts) - 1

    def _expected_gram(self, version: int) -> FloatArray:
        """(m, m) mean of phi phi^T of people who bring public sets and follow this version."""
        if self._public is None:
            sets = uniform_decision_sets(
                self.spec.domain,
                n_sets=PUBLIC_SETS,
                n_candidates=self.spec.n_candidates,
                seed=self.spec.seed,
            )
            self._public = PublicSets(self.spec.features, sets)
        if self._posterior is None:
            return self._public.mean_gram_uniform()
        rng = np.random.Generator(np.random.Philox(key=[self.spec.seed, version]))
        normals = rng.standard_normal((len(self._public), self.spec.features.n_features))
        weights = self._posterior.sample_weights(normals, scale=self.spec.thompson_scale)
        return self._public.mean_gram_of_best(weights)

    def _fit(self) -> WeightPosterior:
        """Generalised least squares over versions; noise of different reports is independent."""
        used = np.flatnonzero(self._counts)
        counts = np.array(self._counts, dtype=np.float64)[used]
        release, mechanism = self.spec.release, self.spec.release.mechanism
        coordinates = RELEASE_UNIT * np.array([self._sums[k] for k in used], dtype=np.float64)
        expected = counts[:, None, None] * np.array([self._expected[k] for k in used])
        common: dict[str, Any] = {
            "noise_covariance": np.diag(counts),
            "vector_noise_sd": release.vector_noise_sd,
            "prior_variance": self.spec.prior_variance,
            "reward_variance": REWARD_VARIANCE,
            "supports": self.spec.features.supports,
        }
        if not self.spec.report_gram:
            vectors = mechanism.vector_from_coordinates(coordinates)
            return posterior_from_block_statistics(expected, vectors, gram_noise_sd=0.0, **common)
        grams, vectors = mechanism.from_coordinates(coordinates)
        return posterior_from_block_statistics(
            grams,
            vectors,
            gram_noise_sd=release.gram_noise_sd,
            prior_grams=expected,
            prior_gram_sd=PUBLIC_LAW_SPREAD * counts,
            **common,
        )

    def predict(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of the reward at `points` (n, d), from reports only."""
        phi = self.spec.features(self.spec.domain.validate(points, name="points"))
        posterior = self._posterior or WeightPosterior.prior(
            self.spec.prior_variance, self.spec.features.supports
        )
        mean, spread = posterior.predict(phi)
        bounds = self.spec.reward_range
        return bounds.from_centred(mean), bounds.width * spread


def _values(report: bytes) -> IntArray:
    """The numbers of a report."""
    return np.frombuffer(report[_HEADER_BYTES:], dtype="<i8").astype(np.int64)
