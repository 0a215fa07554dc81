"""The noisy-input kernel as a BoTorch model, for use with BoTorch's acquisition functions.

`noisy_input_model` builds the Gaussian process of the `flat` posterior and conditions it on the answers so
far. The covariance between rows is the expected kernel under the noise law of the rows. The nugget is added
to the noise of each answered row. At a row without an answer, the model's posterior covers the part of the
function that rows share. Add `nugget` to its variance for the part that belongs to that row alone.
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
    """Return a BoTorch model in evaluation mode, and the nugget.

    Args:
        published: Release whose rows were answered.
        answered: (row, answer) pairs, at least one.
        kernel: Squared exponential, or a multiple of one, in public coordinates.
        noise_sd: Standard deviation of an answer around f, above 0.
        mean: Prior mean of f.

    Returns:
        (model, nugget): model.posterior(torch.tensor(published.inputs[rows])) covers the part that rows
        share.

    Raises:
        MissingExtra: torch or botorch is not installed.
        InvalidParameter: the kernel is of another kind, or there are no answers.
    """
    try:
        torch, gpytorch, botorch_models = (
            importlib.import_module(name) for name in ("torch", "gpytorch", "botorch.models")
        )
    except ImportError:
        raise MissingExtra("BoTorch models need torch and botorch: pip install torch botorch") from None
    noise_sd = _checks.number(noise_sd, name="noise_sd")
    if not answered:
        raise InvalidParameter("answered: expected at least one (row, answer) pair")
    smooth, nugget = expected_kernel(kernel, *published.law.difference_mixture(), dim=published.dim)
    squares = torch.tensor(np.array([np.broadcast_to(row, published.dim) for row in smooth.squares]))
    variances = torch.tensor(np.array(smooth.variances))

    class MixtureKernel(gpytorch.kernels.Kernel):  # type: ignore[name-defined]
        """The fixed kernel sum_m variances[m] exp(-sum_j (x_j - y_j)^2 / (2 squares[m, j]))."""

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
