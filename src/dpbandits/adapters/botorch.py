"""The noisy-input kernel as a BoTorch model: for acquisition functions that are not ours.

`noisy_input_model` conditions on the answers so far with exactly the Gaussian process of the `flat`
posterior: the expected kernel under the rows' noise law between rows, and the nugget as noise of each
answered row. The model's posterior at a row that was not asked is that of the part it shares with others;
its nugget (`nugget`) comes on top.
"""

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpbandits import _checks
from dpbandits.errors import InvalidParameter, MissingExtra
from dpbandits.models.expected_kernel import expected_kernel
from dpbandits.models.kernels.base import Kernel
from dpbandits.outsourced import PublishedRows

__all__ = ["noisy_input_model"]


def noisy_input_model(
    published: PublishedRows,
    answered: Sequence[tuple[int, float]],
    *,
    kernel: Kernel,
    noise_sd: float,
    mean: float = 0.0,
) -> tuple[Any, float]:
    """A BoTorch model in evaluation mode, and the nugget.

    Args:
        published: whose rows.
        answered: (row, answer) pairs, at least one.
        kernel: squared exponential, or a multiple of it, in public coordinates.
        noise_sd: scatter of answers around f, above 0.
        mean: prior mean.

    Returns:
        (model, nugget): model.posterior(torch.tensor(published.inputs[rows])) is over the shared part.

    Raises:
        MissingExtra: torch or botorch is not installed.
        InvalidParameter: another kernel, or no answers.
    """
    try:
        torch, gpytorch, botorch_models = (
            importlib.import_module(name) for name in ("torch", "gpytorch", "botorch.models")
        )
    except ImportError:
        raise MissingExtra("BoTorch models need torch and botorch: pip install torch botorch") from None
    noise_sd = _checks.number(noise_sd, name="noise_sd")
    if not answered:
        raise InvalidParameter("the model needs at least one answer")
    smooth, nugget = expected_kernel(kernel, *published.law.difference_mixture(), dim=published.dim)
    squares = torch.tensor(np.array([np.broadcast_to(row, published.dim) for row in smooth.squares]))
    variances = torch.tensor(np.array(smooth.variances))

    class MixtureKernel(gpytorch.kernels.Kernel):  # type: ignore[name-defined]
        """sum_m variances[m] exp(-sum_j (x_j - y_j)^2 / (2 squares[m, j])), fixed."""

        has_lengthscale = False

        def forward(self, x1: Any, x2: Any, diag: bool = False, **_: Any) -> Any:  # noqa: FBT001, FBT002
            gaps = (x1 - x2 if diag else x1.unsqueeze(-2) - x2.unsqueeze(-3)) ** 2
            total = torch.zeros(gaps.shape[:-1], dtype=gaps.dtype)
            for variance, square in zip(variances, squares, strict=True):
                total = total + variance * torch.exp(-0.5 * (gaps / square).sum(dim=-1))
            return total

    rows = [row for row, _ in answered]
    values = torch.tensor([[answer - mean] for _, answer in answered], dtype=torch.float64)
    model = botorch_models.SingleTaskGP(
        torch.tensor(published.inputs[rows]),
        values,
        torch.full_like(values, noise_sd**2 + nugget),
        covar_module=MixtureKernel(),
        mean_module=gpytorch.means.ZeroMean(),
        outcome_transform=None,
    )
    model.eval()
    return model, nugget
