"""Planning without data: `plan` predicts the cost of privacy from public facts.

- `Facts`: beliefs about columns, arms, reward range, base rate, and the size and smoothness of the effect.
- `plan(users=, ...)` returns a `PrivacyPlan`. For each trust model it predicts the retained uplift by epsilon
  and by number of users, with intervals. It names the policy to use, and the smallest epsilon and number of
  users that reach a target.
- `plan_readout(users=, rate=, ...)` returns a `ReadoutPlan`: how wide the interval of a comparison with a
  control group will be, and how large a holdout a width takes. `plan_local_readout` is for a
  `local.ReadoutSpec`.
"""

from dpbandits._lazy import lazy
from dpbandits.lab.planning.facts import Facts
from dpbandits.lab.planning.plan import PrivacyPlan, TrustAnswer
from dpbandits.lab.planning.planner import plan  # after the module of that name, which it replaces
from dpbandits.lab.planning.readouts import LocalReadoutPlan, ReadoutPlan, plan_local_readout, plan_readout

__all__ = [
    "Facts",
    "LocalReadoutPlan",
    "PrivacyPlan",
    "ReadoutPlan",
    "TrustAnswer",
    "plan",
    "plan_local_readout",
    "plan_readout",
]

__getattr__, __dir__ = lazy(__name__)
