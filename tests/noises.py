"""Noise sources that tests need beside the library's."""

from dpbandits.privacy.noise import SecureNoise

__all__ = ["UncountedNoise"]


class UncountedNoise(SecureNoise):
    """Secure noise that is never told how many draws a user can touch, so it is zero-concentrated."""

    def gaussian_scale(self, sensitivity, epsilon, delta, *, draws=None):
        """See `NoiseSource.gaussian_scale`; `draws` is ignored."""
        return super().gaussian_scale(sensitivity, epsilon, delta)
