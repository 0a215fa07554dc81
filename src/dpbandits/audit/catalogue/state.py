"""Attacks on saved states: restarts between releases, copies that both continue, loads with other parameters.

Each person has an axis, as in `crowds`. The attacker may save, copy and load a state at any time, and
observes releases, but not the content of the file.
"""

import shutil
import tempfile
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.audit.catalogue.crowds import PEOPLE, axes_policy, next_ask, tell_everyone
from dpbandits.audit.catalogue.parts import DELTA, Entries, PreparedNoise, crowded
from dpbandits.audit.claims import GaussianAudit
from dpbandits.budget import Ledger, MemoryLedger
from dpbandits.central import GPBandit
from dpbandits.errors import DPBanditsError
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.noise import SimulatedNoise

__all__ = ["ENTRIES"]

ENTRIES: Entries = {}

_COPIES = 16
_OTHER_TERMS: tuple[dict[str, Any], ...] = (
    {"privacy": JointDP(epsilon=50.0, delta=DELTA)},
    {"noise": SimulatedNoise(0)},
)

_audited = partial(
    crowded,
    ENTRIES,
    kind=GaussianAudit,
    scope="policy",
    delta=DELTA,
    neighbours="one user's decision set turned around, reward 1",
    score=None,
)


def _told(epsilon: float, seed: int, noise: PreparedNoise, world: int, ledger: Ledger | None) -> GPBandit:
    account = None if ledger is None else ledger.account("people")
    policy = axes_policy(epsilon, seed, noise, blocks=[PEOPLE, 2 * PEOPLE], account=account)
    tell_everyone(policy, world)
    return policy


def _next_ask(policy: GPBandit, user: str = "attacker") -> FloatArray:
    return next_ask(policy, user)[:, 0]


@_audited(
    name="gp-bandit-restarts", sees="all released statistics, before and after every restart", share=0.05
)
def _restarts(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
    with tempfile.TemporaryDirectory() as name:
        state, live = Path(name) / "state", Path(name) / "live"
        _told(epsilon, seed, noise, world, None).save(state)
        first = GPBandit.load(state)
        seen = [_next_ask(first)]
        seen.append(_next_ask(GPBandit.load(state)))
        with GPBandit.open(live, new=_told(epsilon, seed, noise, world, None)) as policy:
            second = [_next_ask(policy)]
        with GPBandit.open(live) as policy:
            second.append(_next_ask(policy, "another"))
    # Both runs have the same people: one row for each run and person.
    return np.concatenate([np.column_stack(seen), np.column_stack(second)])


def _from_copies(state: Path, ledger: Ledger | None) -> FloatArray:
    paths = [state.with_name(f"copy-{number}") for number in range(_COPIES)]
    for path in paths:
        shutil.copy(state, path)
    seen = np.zeros((PEOPLE, _COPIES))
    for number, path in enumerate(paths):
        with suppress(DPBanditsError):
            seen[:, number] = _next_ask(GPBandit.load(path, ledger=ledger))
    return seen


def _copied(name: str, *, witnessed: bool) -> None:
    @_audited(
        name=name,
        sees=f"what {_COPIES} copies of one state release"
        + ("" if witnessed else ", which no ledger witnesses"),
        known_broken=not witnessed,
        caught_from=None if witnessed else 61_000,
        share=0.03 if witnessed else 0.01,
    )
    def copies(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
        ledger = MemoryLedger() if witnessed else None
        if ledger is not None:
            ledger.open_account("people", privacy=JointDP(100, 1e-3))
        with tempfile.TemporaryDirectory() as folder:
            state = Path(folder) / "state"
            _told(epsilon, seed, noise, world, ledger).save(state)
            return _from_copies(state, ledger)


_copied("gp-bandit-copies", witnessed=True)
_copied("broken-copies-without-a-witness", witnessed=False)


@_audited(
    name="gp-bandit-load-on-other-terms",
    sees="what is released after a load that asks for less noise",
    share=0.05,
)
def _other_terms(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "state"
        _told(epsilon, seed, noise, world, None).save(state)
        policy = None
        for terms in _OTHER_TERMS:
            with suppress(DPBanditsError, TypeError):
                policy = policy or GPBandit.load(state, **terms)
        return _next_ask(policy or GPBandit.load(state))[:, None]


@_audited(
    name="broken-other-terms",
    sees="what the same people's data release under the largest epsilon, as a load once allowed",
    known_broken=True,
    caught_from=2_500,
    share=0.005,
)
def _taken_terms(epsilon: float, seed: int, noise: PreparedNoise, world: int) -> FloatArray:
    policy = axes_policy(epsilon, seed, noise, blocks=[PEOPLE], **_OTHER_TERMS[0])
    tell_everyone(policy, world)
    return _next_ask(policy)[:, None]
