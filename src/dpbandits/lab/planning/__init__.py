"""Planning before anybody is asked: `plan` predicts the cost of privacy from public facts.

- `Facts`: columns, arms, reward range, base rate, size of the effect and how smooth it is: what is believed.
- `plan(users=, ...)` -> `PrivacyPlan`: per trust model the expected share of the non-private uplift along
  epsilon and people with intervals, the smallest epsilon and number of people that reach a target, which
  policy to take, and the picture of that.
"""

from dpbandits._lazy import lazy
from dpbandits.lab.planning.facts import Facts
from dpbandits.lab.planning.plan import PrivacyPlan, TrustAnswer
from dpbandits.lab.planning.planner import plan  # after the module of that name, which it replaces

__all__ = ["Facts", "PrivacyPlan", "TrustAnswer", "plan"]

__getattr__, __dir__ = lazy(__name__)
