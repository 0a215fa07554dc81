"""Small drivers shared by the contract tests."""

import numpy as np

from contracts.cases import decision_set, reward_of
from dpbandits.policy import Decision, RoundPolicy


def ask(policy: RoundPolicy, round_index: int, candidates: np.ndarray | None = None) -> Decision:
    rows = decision_set(round_index) if candidates is None else candidates
    return policy.ask(rows, user=f"user-{round_index}" if policy.user_ids else None)


def step(policy: RoundPolicy, round_index: int) -> Decision:
    decision = ask(policy, round_index)
    metrics = {} if decision.group is None else {"complaint": round_index % 3 == 0, "revenue": 0.5}
    policy.tell(decision.id, reward_of(decision.action, round_index), **metrics)
    return decision


def drive(policy: RoundPolicy, start: int, stop: int) -> list[int]:
    return [step(policy, round_index).index for round_index in range(start, stop)]


def warm(policy: RoundPolicy, rows: np.ndarray) -> None:
    """Learn from public rewards of these candidates, which are their first numbers."""
    if policy.menu is None:
        policy.warm_start(rows, rows[:, 0])
    else:
        labels = [policy.menu.arms.labels[int(code)] for code in rows[:, -1]]
        policy.warm_start(rows[:, :-1], rows[:, 0], arms=labels)
