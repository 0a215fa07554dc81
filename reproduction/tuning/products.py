"""Constants of products with features, compared with other values on worlds that no page shows.

    python -m reproduction.tuning.products --out products-tuning.json

Worlds have other numbers of products, and other shares of what features explain, than those of the study.
Every variant has the same worlds, people and seeds. A row has the mean chance that people buy: of all people,
of the second half and of the last tenth. The values in use were chosen in such trials, without a
second stage.
"""

import argparse
import json
import os
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from dpbandits.central.marginals import product_release
from dpbandits.lab.worlds.products import ProductWorld
from reproduction.studies.products import COUNT, run

SEEDS = (101, 102)
WORLDS = (
    ProductWorld("tuned", 0.5, personal=0.7, n_products=120, level=0.35),
    ProductWorld("tuned-nothing", 0.0, n_products=150),
)
RELEASE = product_release.ProductRelease
VARIANTS: dict[str, tuple[Any, str, Any]] = {
    "as they are": (product_release, "PEOPLE", product_release.PEOPLE),
    "first block of 2,000 people": (product_release, "PEOPLE", 2_000.0),
    "blocks grow by 1.6": (product_release, "GROWTH", 1.6),
    "12 bins": (product_release, "BINS", 12),
    "40 bins": (product_release, "BINS", 40),
    "freedom 3": (RELEASE, "freedom", 3.0),
    "freedom 12": (RELEASE, "freedom", 12.0),
    "draws times .4": (RELEASE, "thompson_scale", 0.4),
    "draws times .8": (RELEASE, "thompson_scale", 0.8),
    "no effects of single arms": (product_release, "TOLD_ALONE", 1e9),
}


def main(arguments: list[str] | None = None) -> None:
    """Run the variants; every row is written as soon as it is measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args(arguments).out
    rows: list[dict[str, Any]] = []
    for name, (holder, attribute, value) in VARIANTS.items():
        before = getattr(holder, attribute)
        setattr(holder, attribute, value)
        try:
            for world in WORLDS:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    runs = [run(world.crowd(seed, COUNT), "products", seed=seed) for seed in SEEDS]
                means = {part: float(np.mean([one[part] for one in runs])) for part in runs[0]}
                rows.append({"variant": name, "world": world.name, **means})
                out.write_text(json.dumps({"seeds": SEEDS, "rows": rows}, indent=1) + "\n")
        finally:
            setattr(holder, attribute, before)


if __name__ == "__main__":
    main()
