"""The inside of feature maps, for tests of what another processor would compute."""

import numpy as np

from dpbandits.models.features import mercer

__all__ = ["on_another_processor"]


def on_another_processor(monkeypatch):
    """From now on eigenvectors have other signs, as good as the ones before."""
    eigenpairs = mercer._leading_eigenpairs

    def turned(*arguments):
        values, vectors = eigenpairs(*arguments)
        return values, vectors * np.where(np.arange(len(values)) % 2, 1.0, -1.0)

    monkeypatch.setattr(mercer, "_leading_eigenpairs", turned)
