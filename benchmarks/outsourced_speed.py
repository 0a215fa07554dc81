"""CPU time and memory of outsourced optimisation: publish, then 50 steps of ask and tell, kernel known.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python -m benchmarks.outsourced_speed ROWS COLUMNS EPSILON

Prints JSON. Noise is drawn with secure noise. Times are CPU seconds of this process, the best of five
(one for a million rows); memory is the process's peak, curator included.
"""

import json
import resource
import sys
import time

import numpy as np

from dpbandits import Range, RowDP, Schema
from dpbandits.models.kernels import SquaredExponential
from dpbandits.outsourced import Curator, Modeler

STEPS = 50


def main(rows: int, columns: int, epsilon: float) -> None:
    """Publish once, optimise, print."""
    rng = np.random.default_rng(0)
    names = [f"c{i}" for i in range(columns)]
    table = {name: rng.uniform(-1, 1, rows) for name in names}
    values = np.exp(-sum((column - 0.3) ** 2 for column in table.values()))
    started = time.process_time()
    published = Curator(
        {**table, "value": values},
        contexts=Schema(**{name: Range(-1, 1) for name in names}),
        privacy=RowDP(epsilon=epsilon, distance=1.0),
        objective="value",
    ).publish()
    released = time.process_time() - started
    times = []
    for _ in range(5 if rows < 1_000_000 else 1):
        started = time.process_time()
        modeler = Modeler(published, kernel=SquaredExponential(lengthscale=6.25), horizon=STEPS)
        for _ in range(STEPS):
            row = modeler.ask()
            modeler.tell(row, float(values[row]))
        times.append(time.process_time() - started)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        json.dumps(
            {
                "rows": rows,
                "columns": columns,
                "epsilon": epsilon,
                "posterior": modeler.diagnostics()["posterior"],
                "release_seconds": round(released, 3),
                "optimise_seconds": round(min(times), 3),
                "peak_megabytes": round(peak),
            }
        )
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
