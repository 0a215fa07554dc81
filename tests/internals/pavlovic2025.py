"""The inside of the published USCA, to draw its answer many times and to see the integers it is drawn by."""

from dpbandits.privacy.noise import SimulatedNoise

__all__ = ["exact_scores", "usca_answer"]


def exact_scores(usca, context):
    """Integer scores (A,) at a context cell, and how far one row may spread them."""
    return usca._exact_scores(context)


def usca_answer(usca, seed, context):
    """What it would answer under another seed of its simulated noise; it has answered nothing afterwards."""
    usca._noise, usca._answer = SimulatedNoise(seed), None
    index = usca.answer(context)
    usca._answer = None
    return index
