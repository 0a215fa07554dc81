"""The noisy-input kernel in BoTorch, where it is installed."""

import numpy as np
import pytest

from dpbandits.adapters.botorch import noisy_input_model
from dpbandits.errors import InvalidParameter, MissingExtra
from dpbandits.models.kernels import SquaredExponential
from dpbandits.outsourced import PublishedRows
from dpbandits.outsourced.modeler.posterior import RowPosterior
from dpbandits.privacy.rows import L2LaplaceLaw

KERNEL = 2.0 * SquaredExponential(lengthscale=5.0)


def release(n=60):
    rng = np.random.default_rng(0)
    made = PublishedRows.public(rng.uniform(-15, 15, (n, 2)), half_width=15.0)
    object.__setattr__(made, "law", L2LaplaceLaw(dim=2, scale=0.8))
    return made


def test_the_botorch_model_is_the_flat_posterior():
    """Means and shared variances equal ours to 1e-6 wherever torch and botorch are installed."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("botorch")
    held = release()
    answered = [(row, float(np.sin(held.inputs[row, 0] / 4))) for row in range(15)]
    model, nugget = noisy_input_model(held, answered, kernel=KERNEL, noise_sd=0.1, mean=0.2)
    ours = RowPosterior(
        held, kernel=KERNEL, noise_sd=0.1, mean=0.2, kind="flat", capacity=20,
    )  # fmt: skip
    for row, answer in answered:
        ours.add(row, answer)
    posterior = model.posterior(torch.tensor(held.inputs[15:]))
    np.testing.assert_allclose(posterior.mean.detach().numpy()[:, 0] + 0.2, ours.mean[15:], atol=1e-6)
    np.testing.assert_allclose(
        posterior.variance.detach().numpy()[:, 0], ours.signal_variance[15:], atol=1e-6
    )
    assert nugget == pytest.approx(float(ours.nugget[0]))
    with pytest.raises(InvalidParameter):
        noisy_input_model(held, [], kernel=KERNEL, noise_sd=0.1)


def test_without_torch_the_extra_is_named(monkeypatch):
    import importlib

    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(MissingExtra, match="botorch"):
        noisy_input_model(release(), [(0, 1.0)], kernel=KERNEL, noise_sd=0.1)
