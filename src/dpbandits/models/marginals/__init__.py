"""Reward functions of discrete columns, learned from tables of sums over few columns at a time.

- `Effects`: main effects and interactions of columns, the functions that are learned.
- `EffectFeatures`: feature map of contexts with these effects.
- `cuts_of`: levels of a range for users who fill only a small part of it.
- `Design`: set of reward tables; `best_design`: the most informative set; `all_pairs`: tables of all pairs.
- `columns_in_turn`: forecast of the information about main effects; `COLUMN_VARIANCE`: their prior variance.
- `tables_hold`: check that reward tables can hold most columns.
- `Law`: tables of counts; `Counts`: noisy counts, and the weighted sample of users that fits them.
- `Evidence`, `Relevance`, `ArmWeights`: evidence of noisy tables, prior variances, and the posterior.
- `fitted_with_inclusion`: posterior with a learned probability that each column matters;
  `variances_to_choose_by`: variances of such columns for `best_design`.
- `Tables`, `fitted_with_misfit`: posterior from one release, with a learned error of the model.


Names are imported on first use: devices need `effects` and `tables` without SciPy.
"""

from typing import TYPE_CHECKING

from dpbandits._lazy import lazy

if TYPE_CHECKING:
    from dpbandits.models.marginals.census import CENSUS_BINS, Cuts, cuts_of, ends_of, smoothed
    from dpbandits.models.marginals.designing import all_pairs, best_design, columns_in_turn, left_variances
    from dpbandits.models.marginals.effects import BINS, Effects
    from dpbandits.models.marginals.features import EffectFeatures, tables_hold
    from dpbandits.models.marginals.inclusion import fitted_with_inclusion, variances_to_choose_by
    from dpbandits.models.marginals.law import Counts, Law, WeightedPeople, shrunk_law
    from dpbandits.models.marginals.misfit import Tables, fitted_with_misfit
    from dpbandits.models.marginals.posterior import COLUMN_VARIANCE, ArmWeights, Evidence, Relevance
    from dpbandits.models.marginals.tables import LARGEST_GROUP, MOST_CELLS, Design, coarse

__all__ = [
    "BINS",
    "CENSUS_BINS",
    "COLUMN_VARIANCE",
    "LARGEST_GROUP",
    "MOST_CELLS",
    "ArmWeights",
    "Counts",
    "Cuts",
    "Design",
    "EffectFeatures",
    "Effects",
    "Evidence",
    "Law",
    "Relevance",
    "Tables",
    "WeightedPeople",
    "all_pairs",
    "best_design",
    "coarse",
    "columns_in_turn",
    "cuts_of",
    "ends_of",
    "fitted_with_inclusion",
    "fitted_with_misfit",
    "left_variances",
    "shrunk_law",
    "smoothed",
    "tables_hold",
    "variances_to_choose_by",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "dpbandits.models.marginals.census": (
            "CENSUS_BINS",
            "Cuts",
            "cuts_of",
            "ends_of",
            "smoothed",
        ),
        "dpbandits.models.marginals.designing": (
            "all_pairs",
            "best_design",
            "columns_in_turn",
            "left_variances",
        ),
        "dpbandits.models.marginals.effects": (
            "BINS",
            "Effects",
        ),
        "dpbandits.models.marginals.features": (
            "EffectFeatures",
            "tables_hold",
        ),
        "dpbandits.models.marginals.inclusion": (
            "fitted_with_inclusion",
            "variances_to_choose_by",
        ),
        "dpbandits.models.marginals.law": (
            "Counts",
            "Law",
            "WeightedPeople",
            "shrunk_law",
        ),
        "dpbandits.models.marginals.misfit": (
            "Tables",
            "fitted_with_misfit",
        ),
        "dpbandits.models.marginals.posterior": (
            "COLUMN_VARIANCE",
            "ArmWeights",
            "Evidence",
            "Relevance",
        ),
        "dpbandits.models.marginals.tables": (
            "LARGEST_GROUP",
            "MOST_CELLS",
            "Design",
            "coarse",
        ),
    },
)
