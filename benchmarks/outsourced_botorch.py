"""One modeler's run, side by side: our incremental pool against BoTorch conditioned anew at every step.

python -m benchmarks.outsourced_botorch [n]. Needs torch and botorch. The same published rows, kernel (the
expected kernel of the noise law), answers and acquisition on both sides; hyperparameters are known, so that
BoTorch fits nothing and only conditions and predicts, which flatters it. Candidates are scored one point a
batch entry, 2,048 at a time, as `botorch.optim.optimize_acqf_discrete` does.
"""

import sys
import time

import numpy as np
import torch

from dpbandits import Range, RowDP, Schema, SimulatedNoise
from dpbandits.adapters.botorch import noisy_input_model
from dpbandits.models.kernels import SquaredExponential
from dpbandits.outsourced import Curator, Modeler

STEPS = 50


def compared(n: int) -> tuple[float, float, int]:
    """CPU seconds of both, and how many of their choices agree."""
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    points = rng.uniform(-1, 1, (n, 2))
    values = np.exp(-3 * ((points - 0.3) ** 2).sum(axis=1))
    curator = Curator(
        {"x": points[:, 0], "y": points[:, 1], "value": values},
        contexts=Schema(x=Range(-1, 1), y=Range(-1, 1)),
        privacy=RowDP(epsilon=3.0, distance=1.0),
        objective="value",
        noise=SimulatedNoise(0),
    )
    published = curator.publish()
    kernel = SquaredExponential(lengthscale=6.25)

    started = time.process_time()
    modeler = Modeler(published, kernel=kernel, horizon=STEPS)
    for _ in range(STEPS):
        row = modeler.ask()
        modeler.tell(row, curator.answer(row))
    ours = time.process_time() - started

    inputs = torch.tensor(published.inputs)
    answered = [modeler.answered[0]]  # the same first row
    started = time.process_time()
    with torch.no_grad():
        while len(answered) < STEPS:
            model, _ = noisy_input_model(published, answered, kernel=kernel, noise_sd=1e-3)
            parts = [model.posterior(part.unsqueeze(1)) for part in inputs.split(2048)]
            mean = torch.cat([part.mean[:, 0, 0] for part in parts])
            variance = torch.cat([part.variance[:, 0, 0] for part in parts]).clamp(min=0)
            score = mean + torch.sqrt(modeler.exploration * variance)
            score[[row for row, _ in answered]] = -torch.inf
            row = int(score.argmax())
            known = dict(curator.answered)
            answered.append((row, known[row] if row in known else curator.answer(row)))
    theirs = time.process_time() - started
    return ours, theirs, sum(a == b for a, b in zip(answered, modeler.answered, strict=True))


def main(n: int) -> None:
    """Print them."""
    ours, theirs, agree = compared(n)
    print(f"n = {n}: dpbandits {ours:.3f} s, BoTorch {theirs:.2f} s of CPU, ratio {theirs / ours:.0f}")
    print(f"{agree} of {STEPS} choices agree")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
