"""What is promised, and how noise keeps it. Arithmetic and noise: no files, and no models.

A promise is a definition; noise of a law and a scale earns a certificate; the certificate proves the
promise; a guarantee says all of it in words.

- `definitions`: `JointDP`, `LocalDP`, `RowDP`, `NoPrivacy`: the promise, its unit and its neighbours.
- `accounting`: `PureDP`, `GaussianDP`, `ZeroConcentratedDP` certificates, conversions, calibration.
- `noise`: `SecureNoise`, `SimulatedNoise`: integer noise.
- `mechanisms`: `GramVectorMechanism`: exact integer contributions and their sensitivity.
- `guarantee`: `Guarantee`: the whole of it, in prose and in JSON.
- `prefix_sums`: `BlockRelease`: noisy sums over blocks, the place where raw data meets noise.
"""

from dpbandits.privacy.accounting import (
    Certificate,
    GaussianDP,
    PureDP,
    ZeroConcentratedDP,
    calibrate_gaussian,
    membership_bound,
)
from dpbandits.privacy.definitions import (
    Definition,
    DPBanditsWarning,
    JointDP,
    LargeDelta,
    LocalDP,
    NoPrivacy,
    RowDP,
    warn_if_delta_large,
)
from dpbandits.privacy.guarantee import Assumption, Guarantee, MechanismRecord, Observer
from dpbandits.privacy.mechanisms import GramVectorMechanism
from dpbandits.privacy.noise import NoiseSource, SecureNoise, SimulatedNoise
from dpbandits.privacy.prefix_sums import BlockRelease, Factor, identity, square_root_toeplitz

__all__ = [
    "Assumption",
    "BlockRelease",
    "Certificate",
    "DPBanditsWarning",
    "Definition",
    "Factor",
    "GaussianDP",
    "GramVectorMechanism",
    "Guarantee",
    "JointDP",
    "LargeDelta",
    "LocalDP",
    "MechanismRecord",
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
