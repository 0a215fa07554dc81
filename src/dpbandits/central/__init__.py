"""Central trust: one server sees raw data, and its outputs are differentially private.

- `GPBandit`: Gaussian-process bandit under joint differential privacy, the recommended policy.
- `GPTuning`, `ExploreTuning`: options of the two policies that most users leave at their defaults.
- `default_blocks`, `growing_blocks`: public schedules of the releases of a `GPBandit`.
- `uniform_decision_sets`: the decision sets that a `GPBandit` assumes when no better law is known.
- `ExploreThenCommit`: explore uniformly, then answer at pure epsilon, or publish the whole function once.
- `PublishedFunction`: result of `publish()`, for any number of predictions: a `PublishedPosterior` from a
  `GPBandit` or marginal tables, a `PublishedCells` from other policies.
- `LoggedTable`: logged bandit data with contexts and arms, or the data that a TOML file describes.
- `publish_once`: learns from a `LoggedTable` and returns a `PublishedTable`. It charges the privacy budget
  and draws noise only once, also if it is interrupted and run again.
- `learn`: does the same where the data is: in Parquet or text files, or a database, which an engine reads.
- `evaluate`: private values of published policies on another log, once, as `PrivateValues`.
- `ContextLaw`: the distribution of contexts, and its source, for `ExploreThenCommit` and `LoggedTable`.
- `Readout`, `Control`, `Stop`: private comparison of a `GPBandit` with a control group.

`central.published` holds algorithms as printed in papers. Names load on first use, so that importing one
policy loads no other.
"""

from typing import TYPE_CHECKING

from dpbandits._lazy import lazy

if TYPE_CHECKING:
    from dpbandits.central.gp_bandit import GPBandit, GPTuning
    from dpbandits.central.logged.calibration import ExpectedError
    from dpbandits.central.logged.contexts import ContextLaw
    from dpbandits.central.logged.evaluation import PrivateValue, PrivateValues
    from dpbandits.central.logged.learning import learn
    from dpbandits.central.logged.logged_table import LoggedTable
    from dpbandits.central.logged.once import evaluate, publish_once
    from dpbandits.central.logged.policy import Answer, ExploreThenCommit, ExploreTuning
    from dpbandits.central.logged.published_table import PublishedTable
    from dpbandits.central.logged.rows import Shard
    from dpbandits.central.published_function import PublishedCells, PublishedFunction, PublishedPosterior
    from dpbandits.central.readout.declared import Control, Readout, Stop
    from dpbandits.central.schedule import default_blocks, growing_blocks
    from dpbandits.errors import NothingReleased, NothingToLearn
    from dpbandits.models.decision_sets import uniform_decision_sets

__all__ = [
    "Answer",
    "ContextLaw",
    "Control",
    "ExpectedError",
    "ExploreThenCommit",
    "ExploreTuning",
    "GPBandit",
    "GPTuning",
    "LoggedTable",
    "NothingReleased",
    "NothingToLearn",
    "PrivateValue",
    "PrivateValues",
    "PublishedCells",
    "PublishedFunction",
    "PublishedPosterior",
    "PublishedTable",
    "Readout",
    "Shard",
    "Stop",
    "default_blocks",
    "evaluate",
    "growing_blocks",
    "learn",
    "publish_once",
    "uniform_decision_sets",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "dpbandits.central.logged.calibration": ("ExpectedError",),
        "dpbandits.central.logged.contexts": ("ContextLaw",),
        "dpbandits.central.logged.logged_table": ("LoggedTable",),
        "dpbandits.central.logged.published_table": ("PublishedTable",),
        "dpbandits.central.logged.evaluation": ("PrivateValue", "PrivateValues"),
        "dpbandits.central.logged.once": ("evaluate", "publish_once"),
        "dpbandits.central.logged.learning": ("learn",),
        "dpbandits.central.logged.policy": ("Answer", "ExploreThenCommit", "ExploreTuning"),
        "dpbandits.central.logged.rows": ("Shard",),
        "dpbandits.central.gp_bandit": ("GPBandit", "GPTuning"),
        "dpbandits.central.published_function": ("PublishedCells", "PublishedFunction", "PublishedPosterior"),
        "dpbandits.central.readout.declared": ("Control", "Readout", "Stop"),
        "dpbandits.central.schedule": ("default_blocks", "growing_blocks"),
        "dpbandits.errors": ("NothingReleased", "NothingToLearn"),
        "dpbandits.models.decision_sets": ("uniform_decision_sets",),
    },
)
