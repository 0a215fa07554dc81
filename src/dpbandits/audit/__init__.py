"""Audits: attacks on guarantees through the public API, with lower bounds on the privacy loss.

- `NAMES` and `build`: all audits of the catalogue by name. `run_audits` with `AuditSettings` runs them and
  returns an `AuditRow` for each.
- `audit_configuration`: attack one configuration of a policy, as it is run in practice.
- `ExactAudit`, `SampledAudit`, `GaussianAudit`: kinds of audits, from which you can build your own.
- `attack_reward`: guess one person's reward from a policy's predictions, many times; returns `Guesses`.
  Other attacks are in `audit.attacks`.

A lower bound above the claim refutes the claim. A lower bound below it only shows that this attack failed.
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
