"""Attacks on guarantees, through the public API.

- `NAMES`, `build`: every audit by name; `run_audits`, `AuditSettings`: run them -> `AuditRow`.
- `ExactAudit`, `SampledAudit`, `GaussianAudit`: the kinds; an audit of your own is one of these.
- `attack_reward`: guess one person's reward from what a policy predicts -> `MembershipAttack`.

A lower bound refutes a claim when it is above it. Below, it says only that this attack failed.
"""

from dpbandits.audit.attacks.membership import MembershipAttack, attack_reward
from dpbandits.audit.catalogue import NAMES, build
from dpbandits.audit.claims import Audit, AuditRow, ExactAudit, GaussianAudit, SampledAudit
from dpbandits.audit.running import AuditSettings, run_audits

__all__ = [
    "NAMES",
    "Audit",
    "AuditRow",
    "AuditSettings",
    "ExactAudit",
    "GaussianAudit",
    "MembershipAttack",
    "SampledAudit",
    "attack_reward",
    "build",
    "run_audits",
]
