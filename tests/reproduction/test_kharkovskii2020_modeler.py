"""Algorithm 2 of Kharkovskii2020 as published: what it asks for."""

import numpy as np
import pytest

from dpbandits.errors import HorizonExceeded, InvalidData, InvalidParameter, UnknownDecision
from dpbandits.models.kernels import SquaredExponential
from dpbandits.outsourced.published.kharkovskii2020 import PublishedTransform
from reproduction.kharkovskii2020.modeler import PublishedModeler


def table(seed, n):
    return np.random.default_rng(seed).uniform(-25, 25, (n, 2))


def test_algorithm_2_finds_a_hill_and_never_asks_twice():
    rows = table(3, n=300)
    released = PublishedTransform(epsilon=20.0, delta=1e-5, acknowledge_broken=True).publish(rows)
    value = -((rows - 5.0) ** 2).sum(axis=1) / 400
    for acquisition in ("deviation", "variance"):
        modeler = PublishedModeler(
            released, kernel=SquaredExponential(lengthscale=8.0), noise_sd=0.01, acquisition=acquisition
        )
        asked = []
        for _ in range(30):
            asked.append(modeler.ask())
            modeler.tell(asked[-1], value[asked[-1]])
        assert len(set(asked)) == 30
        assert value.max() - value[asked].max() < 0.1
    with pytest.raises(InvalidParameter):
        PublishedModeler(
            released, kernel=SquaredExponential(lengthscale=8.0), noise_sd=0.01, acquisition="ei"
        )


def test_the_unit_of_the_answers_changes_no_choice_of_algorithm_2():
    rows = table(3, n=60)
    value = -((rows - 5.0) ** 2).sum(axis=1) / 400
    asked = []
    for scale in (1.0, 2.0**-43):
        kernel = scale**2 * SquaredExponential(lengthscale=8.0)
        modeler = PublishedModeler(rows, kernel=kernel, noise_sd=scale * 0.01)
        order = []
        for _ in range(12):
            order.append(modeler.ask())
            modeler.tell(order[-1], scale * value[order[-1]])
        asked.append(order)
    assert asked[0] == asked[1]


def test_algorithm_2_asks_for_no_row_twice_even_before_it_is_told():
    modeler = PublishedModeler(table(3, n=5), kernel=SquaredExponential(lengthscale=8.0), noise_sd=0.01)
    with pytest.raises(UnknownDecision):
        modeler.tell(0, 1.0)
    rows = [modeler.ask() for _ in range(5)]
    assert sorted(rows) == list(range(5))
    with pytest.raises(HorizonExceeded):
        modeler.ask()
    for bad in (np.nan, np.inf):
        with pytest.raises(InvalidData):
            modeler.tell(0, bad)


def test_a_share_of_beta_explores_less():
    """Of two rows left one is near a good answer, the other far away: beta_t says which is asked for."""
    rows = np.array([[0.0, 0.0], [4.0, 0.0], [40.0, 0.0]])
    kernel = SquaredExponential(lengthscale=8.0)
    width = np.sqrt(2.0 * np.log(3 * 2**2 * np.pi**2 / (6 * 0.025)))
    near, far = np.exp(-0.5 * (4.0 / 8.0) ** 2), np.exp(-0.5 * (40.0 / 8.0) ** 2)
    bounds = {
        share: [2.0 * k + np.sqrt(share) * width * np.sqrt(1.0 - k**2) for k in (near, far)]
        for share in (1.0, 0.2)
    }
    assert bounds[1.0][1] > bounds[1.0][0]
    assert bounds[0.2][1] < bounds[0.2][0]
    first = next(
        seed
        for seed in range(50)
        if PublishedModeler(rows, kernel=kernel, noise_sd=1e-4, seed=seed).ask() == 0
    )
    for share, wanted in ((1.0, 2), (0.2, 1)):
        modeler = PublishedModeler(rows, kernel=kernel, noise_sd=1e-4, exploration_share=share, seed=first)
        modeler.tell(modeler.ask(), 2.0)
        assert modeler.ask() == wanted
    with pytest.raises(InvalidParameter):
        PublishedModeler(rows, kernel=kernel, noise_sd=1e-4, exploration_share=0.0)
