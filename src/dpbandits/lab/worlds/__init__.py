"""Worlds for evaluating policies. They show data that no policy may see.

An `Environment` returns each round's decision set, the reward of a chosen candidate and, for regret, the
expected rewards of all candidates. Round t depends on (seed, t) alone.

- Tables with one row per round, and classes or columns as arms: `load` (`available` lists the names),
  `TableBandit`, `table_from_toml`, `from_log` and `hard`.
- Known functions with new candidates in every round: `camelback` and `FunctionBandit`.
- Prices, bids and doses as actions: `PRICE_WORLDS`.
- Public cells for `central.ExploreThenCommit`: `DoseFinding`.

>>> world = camelback(seed=7, horizon=100)
>>> world.decision_sets(0, 10).shape
(10, 25, 2)
>>> world.mean_rewards(0, 10).shape
(10, 25)
"""

from dpbandits._lazy import lazy
from dpbandits.lab.worlds.datasets import available, cps_income, load, synthetic_income
from dpbandits.lab.worlds.dose_finding import DoseFinding
from dpbandits.lab.worlds.functions import FunctionBandit, UniformCandidates, camelback
from dpbandits.lab.worlds.hard import HARD, hard
from dpbandits.lab.worlds.matched import from_log
from dpbandits.lab.worlds.prices import PRICE_WORLDS, PriceWorld
from dpbandits.lab.worlds.protocol import Environment
from dpbandits.lab.worlds.tables import BestArm, TableBandit, table_from_toml, table_of

__all__ = [
    "HARD",
    "PRICE_WORLDS",
    "BestArm",
    "DoseFinding",
    "Environment",
    "FunctionBandit",
    "PriceWorld",
    "TableBandit",
    "UniformCandidates",
    "available",
    "camelback",
    "cps_income",
    "from_log",
    "hard",
    "load",
    "synthetic_income",
    "table_from_toml",
    "table_of",
]

__getattr__, __dir__ = lazy(__name__)
