"""How many samples catch each false claim of the audits' catalogue: `Audit.caught_from`.

An audit draws a pool of outputs of both worlds. It is then run repeatedly on outputs drawn from the pool with
replacement, keyed by a seed. The result is the smallest number of samples at which the mean bound minus 3.1
standard deviations is above the claim, so that about one run of a thousand misses it. Numbers are 1, 1.1,
1.2, ... times powers of ten. A tenth is added for the error of this, and the number is rounded up to two
digits.

Run: python benchmarks/audit_samples.py [NAME ...]
"""

import sys
from dataclasses import replace

import numpy as np

from dpbandits.audit import NAMES, SampledAudit, build

RUNS = 300
POOL = {"mechanism": 200_000, "policy": 4_000}
CONFIDENCE = 0.999


def resampled(audit: SampledAudit, seed: int) -> SampledAudit:
    """The audit over pools that are drawn once."""
    size = POOL["policy" if audit.share < 1.0 else "mechanism"]
    pools = [audit.draw(world, size) for world in (0, 1)]
    rng = np.random.default_rng(seed)

    def draw(world: int, n: int) -> np.ndarray:
        return pools[world][rng.integers(len(pools[world]), size=n)]

    return replace(audit, draw=draw)


def caught(audit: SampledAudit, samples: int) -> bool:
    """Return True if about 999 of 1,000 runs prove more than the claim."""
    found = [audit.run(samples=samples, confidence=CONFIDENCE).lower_bound for _ in range(RUNS)]
    return float(np.mean(found) - 3.1 * np.std(found)) > audit.epsilon


def fewest(audit: SampledAudit) -> int:
    """The fewest samples at which it is caught, and a tenth more."""
    numbers = [digits * 10**power for power in range(1, 6) for digits in range(10, 100)]
    low, high = 0, len(numbers) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if caught(audit, numbers[middle]) else (middle + 1, high)
    return next(number for number in numbers if 10 * number >= 11 * numbers[low])


def main() -> None:
    for name in sys.argv[1:] or NAMES:
        audit = build(name)
        if audit.known_broken:
            sys.stdout.write(f"{name} {fewest(resampled(audit, seed=1))}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
