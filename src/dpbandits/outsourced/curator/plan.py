"""What a release will be, before anything is paid or drawn: its public parameters, and the raw rows in
memory.
"""

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.errors import InvalidParameter
from dpbandits.outsourced.curator.secret_side import objective_column, own_ids
from dpbandits.outsourced.publish import PublishedRows
from dpbandits.outsourced.scaling import PublicScaling
from dpbandits.outsourced.statement import rows_guarantee
from dpbandits.privacy.definitions import RowDP, warn_if_delta_large
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.privacy.noise import NoiseSource
from dpbandits.privacy.rows import AnswerLaplace, RowMechanism, choose_row_mechanism
from dpbandits.privacy.rows.noise_laws import from_config as law_from_config
from dpbandits.state import State
from dpbandits.tables import Schema

__all__ = ["RawRows", "plan_release", "release_of"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RawRows:
    """What is needed to draw, and forgotten when that is done.

    Attributes:
        points: (n, d) rows in public coordinates, in the table's order.
        mechanism: what draws.
        own_ids: the rows' own ids, if a column has them.
        column: (n,) answers, if a column has them.
    """

    points: FloatArray
    mechanism: RowMechanism
    own_ids: list[str] | None
    column: FloatArray | None


def plan_release(
    table: object,
    *,
    schema: Schema,
    privacy: RowDP,
    objective: str | None,
    ids: str | None,
    cap: int | None,
    answers: AnswerLaplace | None,
    mechanism: str,
    projection: FloatArray | None,
    cells_per_dimension: int | None,
    noise: NoiseSource,
    durable: bool,
    witnessed: bool,
    population: str | None,
) -> tuple[dict[str, Any], RawRows]:
    """Read and check a table; the arguments are those of `Curator`.

    Args:
        objective: the column of answers; None where a function or command answers.
        durable: whether there is a secret directory.
        witnessed: whether there is a ledger.
    """
    scaling = PublicScaling(schema)
    points = scaling.to_public(table)
    n = len(points)
    warn_if_delta_large(privacy.delta, n)
    if cap is not None and (isinstance(cap, bool) or not 1 <= cap <= n):
        raise InvalidParameter(f"cap is {cap!r}, expected an integer from 1 to the table's {n} rows")
    chosen = choose_row_mechanism(
        definition=privacy,
        n=n,
        dim=scaling.dim,
        half_width=scaling.half_width,
        noise=noise,
        mechanism=mechanism,
        projection=projection,
        cells_per_dimension=cells_per_dimension,
    )
    guarantee = rows_guarantee(
        definition=privacy,
        mechanism=chosen,
        rows=n,
        status=noise.status,
        answers=answers,
        cap=cap,
        witnessed=witnessed,
        budgeted=population is not None,
        durable=durable,
        evaluated=objective is None,
    )
    raw = RawRows(
        points=points,
        mechanism=chosen,
        own_ids=None if ids is None else own_ids(table, ids, n),
        column=None if objective is None else objective_column(table, objective, n),
    )
    public = {
        "rows": n,
        "half_width": scaling.half_width,
        "transform": scaling.to_config(),
        "mechanism": chosen.to_config(),
        "law": chosen.law.to_config(),
        "guarantee": json.loads(guarantee.to_json()),
        "answers": {"type": "public"} if answers is None else answers.to_config(),
        "noise": noise.to_config(),
        "cap": cap,
        "population": population,
        "witnessed": witnessed,
        "charge": _charge(privacy, answers),
    }
    return public, raw


def release_of(state: State) -> PublishedRows:
    """The release that a drawn state holds."""
    public = state.public
    return PublishedRows(
        release_id=state.lineage,
        inputs=np.asarray(state.arrays["inputs"], dtype=np.float64),
        law=law_from_config(public["law"]),
        half_width=float(public["half_width"]),
        guarantee=Guarantee.from_json(json.dumps(public["guarantee"])),
        mechanism=public["mechanism"],
        transform=public["transform"],
        answers=public["answers"],
        cap=public["cap"],
    )


def _charge(privacy: RowDP, answers: AnswerLaplace | None) -> list[str]:
    """What an account pays, as exact decimals: positions and answers compose basically."""
    epsilon = Decimal(repr(privacy.epsilon))
    if answers is not None:
        epsilon += Decimal(repr(answers.epsilon))
    return [str(epsilon), repr(privacy.delta)]
