"""The experiments of Ma2025: Figures 6, 7(a, b), 8, 9(a, b, c) and Table 2.

What each item varies is **our reading**, from the issue's notes and the authors' public scripts (GitHub,
`Karlmyh/LDP-Contextual-MAB`, commit `a9c31ee`), since the figures' captions were not at hand:

- `figure6`: regret along the users of one crowd (n = 10,000, epsilon 1): without a source, with 500 and with
  5,000 source users at epsilon 8.
- `figure7a`: regret against n for several epsilon, without sources, on both synthetic worlds.
- `figure7b`: the same with two sources of 5,000 users at epsilon 8.
- `figure8`: against the size of two sources, for their epsilon and gamma (n = 40,000, epsilon 1).
- `figure9a`: against gamma (n = 40,000, epsilon 2, two sources of 20,000). Gamma is that of the density as
  the paper states it; the authors' sampler draws dim gamma where it says gamma (`worlds.transfer`).
- `figure9b`: against kappa, in the same setting at gamma 0.2.
- `figure9c`: against the order of two sources, epsilon 2 then 8 or 8 then 2 (n = 10,000).
- `table2`: real tables (`worlds.classification`), report halves: average regret at n/4 and n
  over that of ABSE on the same people, for four pairs (epsilon, epsilon of the source): 1 and 4, each with
  2 and 8. The paper's four pairs were not at hand. At most 10,000 people and 5,000 of the source come, drawn
  anew with every seed. Constants were chosen on the other halves (`benchmarks/tune_ma2025_methods.py`); the
  figures use every method's defaults.
- `local`, `references`, `public-code`, `speed`: the tables of the page on local results (module `local`).
- `transfer`: what sources are worth to this library's tree (module `transfer`).

Regret is the average over the target's users. Noise is simulated.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from typing import Any, ClassVar

from dpbandits._typing import Seed
from dpbandits.lab.papers.ma2025 import local, transfer
from dpbandits.lab.papers.ma2025.methods import MARKS, Source, constants_of, curve
from dpbandits.lab.papers.ma2025.pictures import picture
from dpbandits.lab.papers.ma2025.table import PAIRS, compare
from dpbandits.lab.study import Cell, Item, Record, Row, Study, rounded
from dpbandits.lab.worlds.classification import CLASSIFICATION_TABLES

__all__ = ["AUTHORS_LOG", "FIRST_SEED", "STUDY", "CrowdCell", "verdict"]

FIRST_SEED = 5_000_000
"""First report seed of this study."""

EPSILONS = (1.0, 2.0, 4.0, 8.0)
SIZES = (10_000, 20_000, 40_000, 80_000)
WORLDS = ("ma", "ma-symmetric")
GAMMAS = (0.0, 0.5, 1.0, 2.0, 4.0)
KAPPAS = (0.05, 0.2, 0.4, 0.6, 0.8, 1.0)

TABLE_USERS, TABLE_SOURCE = 10_000, 5_000
"""At most so many people of a table, and of its source, come in one run."""


@dataclass(frozen=True, kw_only=True)
class CrowdCell(Cell):
    """One method on one world or table.

    Attributes:
        method: one of `methods.METHODS`.
        world: of a synthetic world or of a table.
        epsilon: of the target's reports; None without privacy.
        n_users: of a table at most so many, None for everybody.
        sources: in their order.
    """

    method: str
    world: str
    epsilon: float | None = None
    n_users: int | None = None
    sources: tuple[Source, ...] = ()

    fields: ClassVar = {"column": "method", "rounds": "n_users"}
    measures: ClassVar = {"curve": ("curve", "curve_errors")}

    @property
    def label(self) -> Row:
        """The fields."""
        return asdict(self) | {"sources": [asdict(source) for source in self.sources]}

    @property
    def row_name(self) -> str:
        """The method, and whether it has sources."""
        return self.method + (" with sources" if self.sources else "")

    @property
    def name(self) -> str:
        """What records call it."""
        promise = "" if self.epsilon is None else f", epsilon {self.epsilon:g}"
        people = "" if self.n_users is None else f", n = {self.n_users}"
        return f"{self.world}: {self.row_name}{promise}{people}"

    def simulate(self, seed: Seed) -> Record:
        """Average regret of the users so far, at `MARKS` points."""
        own: dict[str, Any] = {"epsilon": self.epsilon, "n_users": self.n_users, "sources": self.sources}
        return {"curve": rounded(curve(self.method, self.world, seed=seed, **own), 7)}

    @property
    def settings(self) -> dict[str, Any]:
        """What a result depends on beside the name and the seed."""
        constants = constants_of(self.method, self.world, self.sources)
        return {"constants": constants, "sources": self.label["sources"]}

    def rows(self, records: Sequence[Record]) -> list[Row]:
        """Regret at n and at n/4, and the whole curve."""
        (row,) = super().rows(records)
        curve, errors = row["curve"], row["curve_errors"]
        quarter = MARKS // 4 - 1
        row |= {"regret": curve[-1], "standard_error": errors[-1]}
        row |= {"regret_at_quarter": curve[quarter], "standard_error_at_quarter": errors[quarter]}
        row["verdict"] = verdict(self, curve[-1], errors[-1])
        return [row | {"curve": rounded(curve, 5), "curve_errors": rounded(errors, 5)}]


AUTHORS_LOG: dict[tuple[str, float, int], tuple[float, float]] = {
    ("ma", 1.0, 10_000): (0.3879, 0.0039),
    ("ma", 1.0, 20_000): (0.3618, 0.0071),
    ("ma", 1.0, 40_000): (0.3086, 0.0067),
    ("ma", 1.0, 80_000): (0.2173, 0.0083),
}
"""(world, epsilon, n) -> average regret without sources and its standard error over 30 runs, from the log
that the authors publish beside their code (logs/sample_size_target/LDPMAB.csv, commit a9c31ee, total regret
over n). Their code adds noise only in the bin that a user falls in: these runs are not locally private."""


def verdict(cell: CrowdCell, regret: float, standard_error: float) -> str:
    """Whether a published number and ours agree, or why they cannot be compared."""
    if cell.method in ("tree", "smooth", "ma2025-tuned"):
        return "not in the paper"
    if cell.method != "ma2025":
        return "cannot be compared: table not at hand, other columns and pairs"
    known = AUTHORS_LOG.get((cell.world, cell.epsilon or 0.0, cell.n_users or 0))
    if known is None or cell.sources:
        return "cannot be compared: figure not at hand"
    mean, error = known
    near = abs(regret - mean) <= 3.0 * math.hypot(error, standard_error)
    found = "agrees with" if near else "not reproduced with honest noise:"
    return f"{found} the authors' log, {mean:.3f} ({error:.3f})"


def _cells(
    *,
    worlds: Sequence[str] = ("ma",),
    methods: Sequence[str] = ("tree", "ma2025"),
    epsilons: Sequence[float | None] = (1.0,),
    sizes: Sequence[int],
    sources: Sequence[tuple[Source, ...]] = ((),),
) -> list[CrowdCell]:
    """Every method in every world at every epsilon, with so many users and such sources."""
    return [
        CrowdCell(method=method, world=world, epsilon=epsilon, n_users=n, sources=those)
        for world, method, epsilon, n, those in product(worlds, methods, epsilons, sizes, sources)
    ]


def _shifted(shifts: Sequence[tuple[float, float]]) -> list[CrowdCell]:
    """Two sources of 20,000 users with the same gamma and kappa."""
    sources = [
        2 * (Source(n_users=20_000, epsilon=epsilon, gamma=gamma, kappa=kappa),)
        for epsilon in (2.0, 8.0)
        for gamma, kappa in shifts
    ]
    return _cells(worlds=WORLDS, epsilons=(2.0,), sizes=(40_000,), sources=sources)


def _table2() -> list[CrowdCell]:
    found: list[CrowdCell] = []
    alone = tuple(dict.fromkeys(epsilon for epsilon, _ in PAIRS))
    for table in CLASSIFICATION_TABLES:
        own: dict[str, Any] = {"worlds": (table,), "sizes": (TABLE_USERS,)}
        found += _cells(**own, methods=("abse",), epsilons=(None,))
        found += _cells(**own, methods=("smooth",), epsilons=alone)
        for method in ("tree", "ma2025", "ma2025-tuned", "linear", "neural"):
            found += _cells(**own, methods=(method,), epsilons=alone)
            for epsilon, theirs in PAIRS:
                source = (Source(n_users=TABLE_SOURCE, epsilon=theirs),)
                found += _cells(**own, methods=(method,), epsilons=(epsilon,), sources=(source,))
    return found


_FIGURE6 = _cells(sizes=(10_000,), sources=[(), *((Source(n_users=n, epsilon=8.0),) for n in (500, 5000))])

_figure7 = partial(_cells, worlds=WORLDS, epsilons=EPSILONS, sizes=SIZES)

_GROWING = [
    2 * (Source(n_users=n, epsilon=epsilon, gamma=gamma),)
    for gamma in (0.0, 2.0)
    for epsilon in (2.0, 4.0, 8.0)
    for n in (10_000, 20_000, 50_000, 100_000)
]

_ORDERED = [
    tuple(Source(n_users=n, epsilon=own) for own in order)
    for n in (10_000, 20_000, 50_000)
    for order in ((2.0, 8.0), (8.0, 2.0))
]


def _sources_text(row: Row) -> str:
    """Size, epsilon, gamma and kappa of every source."""
    return "; ".join(
        f"{source['n_users'] or 'all'} at {source['epsilon']:g} ({source['gamma']:g}, {source['kappa']:g})"
        for source in row["sources"]
    )


def _item(name: str, about: str, cells: Sequence[CrowdCell], **own: Any) -> Item:
    return Item(
        about=about,
        cells=cells,
        key=("world", "method", "epsilon", "n_users", "sources"),
        shown=(
            "world | method | epsilon:g | n_users:, | sources | regret_at_quarter:.4f"
            " | regret:.4f | standard_error:.4f | verdict"
        ),
        texts={"sources": _sources_text},
        picture=partial(picture, item=name),
        **own,
    )


_FIGURES = {
    "figure6": ("regret along the users of one crowd", _FIGURE6),
    "figure7a": ("regret against n, without sources", _figure7(sources=[()])),
    "figure7b": ("the same with two sources", _figure7(sources=[2 * (Source(n_users=5000, epsilon=8.0),)])),
    "figure8": ("regret against the size of two sources", _cells(sizes=(40_000,), sources=[(), *_GROWING])),
    "figure9a": ("regret against gamma", _shifted([(gamma, 1.0) for gamma in GAMMAS])),
    "figure9b": ("regret against kappa", _shifted([(0.2, kappa) for kappa in KAPPAS])),
    "figure9c": (
        "regret against the order of two sources",
        _cells(epsilons=EPSILONS, sizes=(10_000,), sources=_ORDERED),
    ),
}

STUDY = Study(
    name="ma2025",
    title="Ma2025",
    measured="regret per user",
    first_seed=FIRST_SEED,
    items={
        **{name: _item(name, about, cells) for name, (about, cells) in _FIGURES.items()},
        "table2": _item("table2", "real people, and the paper's table", _table2(), compare=compare),
        **local.ITEMS,
        **transfer.ITEMS,
    },
)
