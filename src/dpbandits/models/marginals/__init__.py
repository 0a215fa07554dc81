"""Rewards of people with discrete columns, told by tables of sums over few columns at a time.

- `Effects`: main effects and interactions, the functions that are learned.
- `EffectFeatures`: the same as a feature map of contexts.
- `cuts_of`: levels of ranges that people fill to a small part only.
- `Design`, `best_design`, `all_pairs`: which tables to sum, the most telling ones, and those of all pairs.
- `columns_in_turn`: what a run is expected to tell of main effects; `COLUMN_VARIANCE`: of a weight of theirs.
- `tables_hold`: whether tables have room for most columns.
- `Law`, `Counts`: which tables of counts there are, and the people that noisy counts describe.
- `Evidence`, `Relevance`, `ArmWeights`: from noisy tables to a law of every arm's weights.
- `fitted_with_inclusion`: the same with the probability that each of many columns matters;
  `variances_to_choose_by`: what such columns are worth to `best_design`.
- `Tables`, `fitted_with_misfit`: the same from one release, and how far its tables are off.
"""

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
