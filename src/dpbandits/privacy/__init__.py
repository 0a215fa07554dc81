"""Definitions of privacy, noise, and the certificates that connect them. No files and no models.

A definition states the promise. Noise with a given distribution and scale has a certificate, which proves
the promise. A guarantee describes definition, noise, certificate and assumptions.

- `definitions`: `JointDP`, `LocalDP`, `DistributedDP`, `RowDP`, `NoPrivacy`: the promise and its adjacency.
- `certificates`: `PureDP`, `GaussianDP`, `ZeroConcentratedDP`, `NearGaussianDP`: the proven privacy loss of
  a mechanism, and composition; `calibration`: the noise scale that a promise needs.
- `noise`: `SecureNoise`, `SimulatedNoise`: integer noise and the rule for its certificate; `words`: sources
  of random bits; `samplers`: exact samplers that use them.
- `histogram`: `ReportHistogram`: one bucket a report, and the noise of two aggregators.
- `shuffling`: `shuffled`, a certificate for local reports that somebody shuffles; no guarantee uses it.
- `gram_vector`: `GramVectorMechanism`: exact integer contributions and their sensitivity.
- `prefix_sums`: `BlockRelease`, the matrix mechanism, and `TreeRelease`, the binary tree mechanism (both are
  known as DP-FTRL).
- `selection`: `permute_and_flip` and the exponential mechanism: private choice of one of n candidates.
- `reports`: local mechanisms, one private report per user; `rows`: mechanisms that add noise to each row of
  a table.
- `guarantee`: `Guarantee`, in prose and in JSON; `sentences`: text that several statements share.

Names load on first use, so that clients can import `reports` with NumPy alone.
"""

from typing import TYPE_CHECKING

from dpbandits._lazy import lazy

if TYPE_CHECKING:
    from dpbandits.privacy.calibration import calibrate_gaussian, membership_bound
    from dpbandits.privacy.certificates import (
        Certificate,
        GaussianDP,
        NearGaussianDP,
        PureDP,
        ZeroConcentratedDP,
    )
    from dpbandits.privacy.definitions import (
        Definition,
        DistributedDP,
        DPBanditsWarning,
        JointDP,
        LargeDelta,
        LocalDP,
        NoPrivacy,
        RowDP,
        warn_if_delta_large,
    )
    from dpbandits.privacy.gram_vector import GramVectorMechanism
    from dpbandits.privacy.guarantee import Assumption, Guarantee, MechanismRecord, Observer
    from dpbandits.privacy.noise import NoiseSource, SecureNoise, SimulatedNoise
    from dpbandits.privacy.prefix_sums import BlockRelease, Factor, identity, square_root_toeplitz

__all__ = [
    "Assumption",
    "BlockRelease",
    "Certificate",
    "DPBanditsWarning",
    "Definition",
    "DistributedDP",
    "Factor",
    "GaussianDP",
    "GramVectorMechanism",
    "Guarantee",
    "JointDP",
    "LargeDelta",
    "LocalDP",
    "MechanismRecord",
    "NearGaussianDP",
    "NoPrivacy",
    "NoiseSource",
    "Observer",
    "PureDP",
    "RowDP",
    "SecureNoise",
    "SimulatedNoise",
    "ZeroConcentratedDP",
    "calibrate_gaussian",
    "identity",
    "membership_bound",
    "square_root_toeplitz",
    "warn_if_delta_large",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "dpbandits.privacy.calibration": ("calibrate_gaussian", "membership_bound"),
        "dpbandits.privacy.certificates": (
            "Certificate",
            "GaussianDP",
            "NearGaussianDP",
            "PureDP",
            "ZeroConcentratedDP",
        ),
        "dpbandits.privacy.definitions": (
            "Definition",
            "DPBanditsWarning",
            "DistributedDP",
            "JointDP",
            "LargeDelta",
            "LocalDP",
            "NoPrivacy",
            "RowDP",
            "warn_if_delta_large",
        ),
        "dpbandits.privacy.gram_vector": ("GramVectorMechanism",),
        "dpbandits.privacy.guarantee": ("Assumption", "Guarantee", "MechanismRecord", "Observer"),
        "dpbandits.privacy.noise": ("NoiseSource", "SecureNoise", "SimulatedNoise"),
        "dpbandits.privacy.prefix_sums": ("BlockRelease", "Factor", "identity", "square_root_toeplitz"),
    },
)
