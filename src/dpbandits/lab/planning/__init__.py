"""Planning without data: `plan` predicts the cost of privacy from public facts.

- `Facts`: beliefs about columns, arms, reward range, base rate, and the size and smoothness of the effect.
- `plan(users=, ...)` returns a `PrivacyPlan`. For each trust model it predicts the retained uplift by epsilon
  and by number of users, with intervals. It names the policy to use, and the smallest epsilon and number of
  users that reach a target.
"""

from dpbandits._lazy import lazy
from dpbandits.lab.planning.facts import Facts
from dpbandits.lab.planning.plan import PrivacyPlan, TrustAnswer
from dpbandits.lab.planning.planner import plan  # after the module of that name, which it replaces

__all__ = ["Facts", "PrivacyPlan", "TrustAnswer", "plan"]

__getattr__, __dir__ = lazy(__name__)
