"""What is promised, and how noise keeps it. Arithmetic and noise: no files, and no models.

A promise is a definition; noise of a law and a scale earns a certificate; the certificate proves the
promise; a guarantee says all of it in words.

- `definitions`: `JointDP`, `LocalDP`, `RowDP`, `NoPrivacy`: the promise, its unit and its neighbours.
- `certificates`: `PureDP`, `GaussianDP`, `ZeroConcentratedDP`, `NearGaussianDP`: what a mechanism provably
  gives away, and how that adds up; `calibration`: the noise that a promise needs.
- `noise`: `SecureNoise`, `SimulatedNoise`: integer noise, and the rule for its certificate; `words`: where
  random bits come from; `samplers`: exact laws made of them.
- `gram_vector`: `GramVectorMechanism`: exact integer contributions and their sensitivity.
- `prefix_sums`: `BlockRelease` and `TreeRelease`: noisy sums over blocks or rounds, the place where raw
  data meets noise; the factors, the tree, what each costs and the rule that chooses.
- `selection`: `permute_and_flip`, the private choice of one of n.
- `reports`: local mechanisms, one private report a user; `rows`: mechanisms for tables, row by row.
- `guarantee`: `Guarantee`: the whole of it, in prose and in JSON; `sentences`: what statements share.

Names load on first use: devices import `reports` with NumPy alone.
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
