"""Attacks on guarantees, through the public API.

- `NAMES`, `build`: every audit by name; `run_audits`, `AuditSettings`: run them -> `AuditRow`.
- `audit_configuration`: attack one configuration of a policy, as somebody runs it.
- `ExactAudit`, `SampledAudit`, `GaussianAudit`: the kinds; an audit of your own is one of these.
- `attack_reward`: guess one person's reward from what a policy predicts -> `Guesses`; the other
  attacks are in `audit.attacks`.

A lower bound refutes a claim when it is above it. Below, it says only that this attack failed.
"""

from dpbandits._lazy import lazy
from dpbandits.audit.attacks import Guesses, attack_reward
from dpbandits.audit.catalogue import NAMES, build
from dpbandits.audit.claims import Audit, AuditRow, ExactAudit, GaussianAudit, SampledAudit, Scoring
from dpbandits.audit.configured import audit_configuration
from dpbandits.audit.running import AuditSettings, run_audits

__all__ = [
    "NAMES",
    "Audit",
    "AuditRow",
    "AuditSettings",
    "ExactAudit",
    "GaussianAudit",
    "Guesses",
    "SampledAudit",
    "Scoring",
    "attack_reward",
    "audit_configuration",
    "build",
    "run_audits",
]

__getattr__, __dir__ = lazy(__name__)
