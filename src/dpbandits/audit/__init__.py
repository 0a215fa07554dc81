"""Attacks on guarantees, through the public API.

- `attack_reward`: guess one person's reward from what a policy predicts -> `MembershipAttack`.
"""

from dpbandits.audit.membership import MembershipAttack, attack_reward

__all__ = ["MembershipAttack", "attack_reward"]
