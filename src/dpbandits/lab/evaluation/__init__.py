"""Evaluation of policies, and of the cost of privacy. The results are not private releases; see `BANNER`.

- `run(policy, environment)`: one run, as a `RunResult` with rewards and pseudo-regret of every round.
- `repeat(make_policy, make_environment, name=, seeds=, jobs=)`: runs on many seeds, as `Repetitions`.
- `summarise(*repetitions, reference="non-private")`: a `Summary` with means, standard errors, uplift over
  random choice, and retained uplift, paired over seeds. Print it, or call `to_rows()`.
- `report_seeds(first, reps)`: seeds from `FIRST_REPORT_SEED` on, whose results are reported. Smaller seeds
  are for choosing constants.
- `policy_value(law, actions=, rewards=, propensities=)`, `value_difference`: off-policy evaluation on logged
  bandit data, as a `PolicyValue` with intervals over whole clusters.
- `Estimate.of(values)`, `share_kept(policy, reference, uniform)`: means, standard errors and retained uplift
  of plain numbers.
"""

from typing import TYPE_CHECKING

from dpbandits._lazy import lazy
from dpbandits.lab.evaluation.policy_value import PolicyValue, policy_value, value_difference
from dpbandits.lab.evaluation.runner import BANNER, Repetitions, RunResult, repeat, run
from dpbandits.lab.evaluation.seeds import FIRST_REPORT_SEED, report_seeds
from dpbandits.lab.evaluation.summary import Estimate, Share, Summary, SummaryRow, share_kept, summarise

if TYPE_CHECKING:  # crowds import a local policy and everything that it needs
    from dpbandits.lab.evaluation.crowds import CrowdRewards, CrowdWorld, SimulationResult, simulate
    from dpbandits.lab.evaluation.transfer_crowds import SimulatedSource, SourcePeople, simulate_transfer

__all__ = [
    "BANNER",
    "FIRST_REPORT_SEED",
    "CrowdRewards",
    "CrowdWorld",
    "Estimate",
    "PolicyValue",
    "Repetitions",
    "RunResult",
    "Share",
    "SimulatedSource",
    "SimulationResult",
    "SourcePeople",
    "Summary",
    "SummaryRow",
    "policy_value",
    "repeat",
    "report_seeds",
    "run",
    "share_kept",
    "simulate",
    "simulate_transfer",
    "summarise",
    "value_difference",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "dpbandits.lab.evaluation.crowds": ["CrowdRewards", "CrowdWorld", "SimulationResult", "simulate"],
        "dpbandits.lab.evaluation.transfer_crowds": ["SimulatedSource", "SourcePeople", "simulate_transfer"],
    },
)
