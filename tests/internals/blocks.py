"""What a whole life of a `GPBandit` moved before noise, beside releases that are the same whatever it was."""

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dpbandits.central.marginals import noise
from dpbandits.privacy import SimulatedNoise

__all__ = ["Moved", "loss_between", "recorded"]


@dataclass
class Moved:
    """One use of noise: its law, rate or deviation, and the integers (n,) that it would have hidden."""

    law: str
    scale: float
    before: np.ndarray


def recorded(monkeypatch, policy):
    """A list that every release of `policy` adds its uses of noise to, two or one a block, two a look.

    What is released of a block or look is a draw by its number alone: two lives see the same releases.
    """
    asked, moved, kind = [], [], policy._kind
    if policy._run is not None:
        _record_looks(monkeypatch, policy._run, moved)
    draw = kind.draw

    def no_noise(law):
        def nothing(_, scale, size):
            asked.append((law, scale, size))
            return np.zeros(size, dtype=np.int64)

        return nothing

    def words(rate, size, _):
        return no_noise("laplace")(None, rate, size)

    def fixed(block, rows, design, past):
        asked.clear()
        with monkeypatch.context() as patched:
            patched.setattr(noise, "lattice_laplace", words)
            patched.setattr(SimulatedNoise, "integer_laplace", no_noise("laplace"))
            patched.setattr(SimulatedNoise, "integer_gaussian", no_noise("gaussian"))
            after = draw(block, rows, design, past)
        own = (
            after.released(after.count)[past.count :] if kind.name == "cells" else after.released(after.count)
        )
        own = own.ravel() if kind.name == "cells" else own[len(past.released(past.count)) :]
        start, rng = 0, np.random.default_rng(block)
        for law, scale, size in asked:
            moved.append(Moved(law, scale, own[start : start + size].copy()))
            start += size
        if kind.name == "cells":
            sums = after.sums.copy()
            sums[-1] = rng.integers(-(10**7), 10**7, sums.shape[1])
            return replace(after, sums=sums)
        if after.every[-1] is after.census:
            return replace(after, census=rng.integers(0, 9, after.census.shape))
        last = after.blocks[-1]
        seen = last._replace(
            sums=rng.integers(-(10**4), 10**4, last.sums.shape),
            counts=rng.integers(0, 30, last.counts.shape),
        )
        return replace(after, blocks=(*after.blocks[:-1], seen))

    monkeypatch.setattr(kind, "draw", fixed)
    return moved


class _NoNoise:
    """Adds nothing, and notes how much it was asked to add."""

    def __init__(self):
        self.asked = []

    def integer_laplace(self, rate, size):
        self.asked.append(("laplace", rate))
        return np.zeros(size, dtype=np.int64)

    def integer_gaussian(self, scale, size):
        self.asked.append(("gaussian", scale))
        return np.zeros(size, dtype=np.int64)


def _record_looks(monkeypatch, run, moved):
    """Record the sums of looks; and those in segments, to which every look adds its rounds."""
    release, close, in_segments = run.release, run.rows.close, []

    def fixed(_):
        noise = _NoNoise()
        release(noise)
        *before, last = run._looks
        if run.segments is not None and not before:
            in_segments.extend(Moved(*use, np.zeros(0)) for use in noise.asked[:2])
            moved.extend(in_segments)
        moved.extend(Moved(*use, sums) for use, sums in zip(noise.asked[-2:], last.sums, strict=True))
        drawn = np.random.default_rng(len(before)).integers(-(10**6), 10**6, last.sums.shape)
        run._looks = (*before, last._replace(sums=drawn))

    def closed(stop):
        close(stop)
        for place, one in enumerate(in_segments):
            one.before = run.rows.in_segments[1][place].ravel()

    monkeypatch.setattr(run, "release", fixed)
    monkeypatch.setattr(run.rows, "close", closed)


def loss_between(one, other):
    """Of two lives: the pure loss of their Laplace noise, exactly, and what Gaussian noise had to hide.

    The second is sum |v|^2/sigma^2 over all releases.
    """
    pure, squares = Fraction(0), 0.0
    for mine, theirs in zip(one, other, strict=True):
        if (mine.law, mine.scale, len(mine.before)) != (theirs.law, theirs.scale, len(theirs.before)):
            raise ValueError("what is public of a block moved")
        apart = np.abs(mine.before - theirs.before)
        if mine.law == "laplace":
            pure += Fraction(mine.scale) * int(apart.sum())
        else:
            squares += float((apart.astype(float) ** 2).sum()) / mine.scale**2
    return pure, squares
