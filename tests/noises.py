"""Noise sources that tests need beside the library's."""

import numpy as np

from dpbandits.privacy.noise import SecureNoise

__all__ = ["UncountedNoise", "opendp_gaussian", "opendp_measurement"]


def opendp_measurement(sigma):
    """OpenDP's discrete Gaussian noise on a vector of integers; sets the library's switch "contrib"."""
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian
    from opendp.metrics import l2_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    space = vector_domain(atom_domain(T="i64")), l2_distance(T="f64")
    return make_gaussian(*space, sigma, MO="ZeroConcentratedDivergence")


def opendp_gaussian(sigma, size):
    """(size,) draws of OpenDP's discrete Gaussian."""
    return np.array(opendp_measurement(sigma)([0] * size), dtype=np.int64)


class UncountedNoise(SecureNoise):
    """Secure noise that is never told how many draws a user can touch, so it is zero-concentrated."""

    def gaussian_scale(self, sensitivity, epsilon, delta, *, draws=None):
        """See `NoiseSource.gaussian_scale`; `draws` is ignored."""
        return super().gaussian_scale(sensitivity, epsilon, delta)
