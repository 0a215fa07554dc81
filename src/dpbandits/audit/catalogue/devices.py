"""Audits of what a client reveals besides its reports: refusals, silence, and races for one choice.

The attacker is the server. It offers specs and versions, and observes refused calls and received bytes. Each
correct client is audited together with a broken one, which makes an error of earlier clients. The audit must
refute the broken client's claim.
"""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from inspect import unwrap
from itertools import pairwise
from typing import Any

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.audit.catalogue.parts import Entries, PreparedNoise, crowded, listed, lives
from dpbandits.audit.claims import CERTAIN, Draw, SampledAudit
from dpbandits.audit.scores import fit_categories
from dpbandits.budget import MemoryLedger
from dpbandits.domains import Box
from dpbandits.errors import DPBanditsError
from dpbandits.local import Client, MemoryOutbox, PublishedArms, Spec, SpecTuning
from dpbandits.local.contract.reports import HEADER_BYTES
from dpbandits.privacy.definitions import LocalDP

__all__ = ["ENTRIES"]

ENTRIES: Entries = {}

_NOTHING = -1.0
"""Number that stands for a missing report in the server's view."""

_policy = partial(listed, ENTRIES, kind=SampledAudit, scope="policy", fit=fit_categories)


def _looking(
    honest: str, broken: str, *, caught_from: int, shares: tuple[float, float], sees: str, neighbours: str
) -> Callable[[Callable[..., Draw]], Callable[..., Draw]]:
    """Return a decorator that registers two audits, of a correct client and of a broken one."""

    def put(build: Callable[..., Draw]) -> Callable[..., Draw]:
        facts: dict[str, Any] = {"sees": sees, "neighbours": neighbours}
        _policy(name=honest, share=shares[0], **facts)(partial(build, looks=False))
        twin = _policy(name=broken, share=shares[1], known_broken=True, caught_from=caught_from, **facts)
        twin(partial(build, looks=True))
        return build

    return put


def _spec(epsilon: float, seed: int, *, low: float = 0.0, high: float = 1.0, **more: Any) -> Spec:
    return Spec(
        contexts=Box([low], [high]),
        arms=range(2),
        privacy=LocalDP(epsilon=epsilon),
        learner="tree",
        seed=seed,
        tuning=SpecTuning(mechanism="signed"),
        **more,
    )


def _one_bin() -> PublishedArms:
    """Return a new object of the first version, which is the same for any spec in this module."""
    return PublishedArms(version=0, splits=(), arms=np.array([0]))


def _payload(report: bytes | None) -> float:
    return _NOTHING if report is None else float(int.from_bytes(report[HEADER_BYTES:], "little"))


# -- refusals -----------------------------------------------------------------------------------------

_SLICES = 4
_EDGES = np.linspace(0.0, 1.0, _SLICES + 1)
_PLACES = (0.1, 0.9)
"""Contexts of the user in worlds 0 and 1: in the first slice of the domain, and in the last."""


def _offered(specs: list[Spec], world: int, *, looks: bool) -> list[float]:
    """Return the server's view of one client: a report or a refusal for each spec that it offers."""
    ledger, outbox, context = MemoryLedger(), MemoryOutbox(), _PLACES[world]
    seen = []
    for spec in specs:
        report = None
        try:
            client = Client(spec, account=ledger.account("local-reports"), outbox=outbox)
            if looks:
                spec.protocol.domain.validate(np.array([[context]]))
            client.choose(_one_bin(), [context])
            report = client.report(float(world))
        except DPBanditsError as error:
            seen.append(_NOTHING - 1.0 - len(type(error).__name__))
        else:
            seen.append(_payload(report))
    return seen


@_looking(
    "local-refusals",
    "broken-device-that-looks-first",
    caught_from=CERTAIN,
    shares=(0.02, 0.005),
    sees=f"refusals and reports of a device that is offered {_SLICES} slices of the domain in turn",
    neighbours="a user in the first slice, or in the last with another reward",
)
def _slices(epsilon: float, seed: int, *, looks: bool) -> Draw:
    specs = [_spec(epsilon, seed, low=float(low), high=float(high)) for low, high in pairwise(_EDGES)]
    return lives(lambda world: _offered(specs, world, looks=looks))


@_looking(
    "local-missing-reward",
    "broken-silent-device",
    caught_from=CERTAIN,
    shares=(0.03, 0.01),
    sees="a device's report, or its silence",
    neighbours="a reward came, or never did",
)
def _unrewarded(epsilon: float, seed: int, *, looks: bool) -> Draw:
    spec = _spec(epsilon, seed)

    def run(world: int) -> float:
        client = Client(spec)
        client.choose(_one_bin(), [0.25])
        if looks and world:  # the counterpart is silent
            return _NOTHING
        return _payload(client.report(None if world else 1.0))

    return lives(run)


# -- an epsilon of one's own --------------------------------------------------------------------------


@_looking(
    "local-own-epsilon",
    "broken-epsilon-by-reward",
    caught_from=4_300,
    shares=(0.03, 0.01),
    sees="a device's report, with the class of epsilon that it names",
    neighbours="reward lowest or highest, in the same bin",
)
def _own_epsilon(epsilon: float, seed: int, *, looks: bool) -> Draw:
    privacies = [LocalDP(epsilon=epsilon), LocalDP(epsilon=2.0 * epsilon)]
    spec = _spec(2.0 * epsilon, seed, epsilons=(epsilon, 2.0 * epsilon))

    def run(world: int) -> list[float]:
        client = Client(spec, privacy=privacies[world if looks else 0])
        client.choose(_one_bin(), [0.25])
        report = client.report(float(world))
        return list(map(float, report[HEADER_BYTES:]))

    return lives(run)


# -- races --------------------------------------------------------------------------------------------

_RACERS = 4
_AT_ONCE = 200
"""Number of clients whose races share threads and processes."""


class _MeetingLedger(MemoryLedger):
    """Ledger whose `charge` waits for all racing threads, for at most `patience` seconds.

    So the threads do race.
    """

    def __init__(self, patience: float = 0.005) -> None:
        # Threads that exclude each other never meet, so each such run takes `patience` seconds.
        super().__init__()
        self._met, self._patience = threading.Barrier(_RACERS), patience

    def charge(self, *arguments: Any, **options: Any) -> Any:
        charged = super().charge(*arguments, **options)
        with suppress(threading.BrokenBarrierError):
            self._met.wait(self._patience)
        return charged


class _WithoutTurns(Client[PublishedArms]):
    """BROKEN: a client without a lock on its calls and without a check for a forked process."""

    report = unwrap(Client.report)


def _reports(devices: list[Client[PublishedArms]], reward: float) -> FloatArray:
    seen = np.full(len(devices), _NOTHING)
    for place, device in enumerate(devices):
        with suppress(DPBanditsError):
            seen[place] = _payload(device.report(reward))
    return seen


def _from_threads(devices: list[Client[PublishedArms]], reward: float) -> FloatArray:
    seen = np.empty((len(devices), _RACERS))
    start = threading.Barrier(_RACERS)

    def ask(column: int) -> None:
        for row, device in enumerate(devices):
            start.wait()
            seen[row, column] = _reports([device], reward)[0]

    threads = [threading.Thread(target=ask, args=(column,)) for column in range(_RACERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return seen


def _from_forks(devices: list[Client[PublishedArms]], reward: float) -> FloatArray:
    columns = []
    for _ in range(_RACERS - 1):
        there, here = os.pipe()
        child = os.fork()
        if child == 0:  # pragma: no cover - in another process
            try:
                os.write(here, _reports(devices, reward).tobytes())
            finally:
                os._exit(0)
        os.close(here)
        with os.fdopen(there, "rb") as pipe:
            columns.append(np.frombuffer(pipe.read()))
        os.waitpid(child, 0)
    return np.column_stack([*columns, _reports(devices, reward)])


def _race(
    name: str,
    of: str,
    device: type[Client[PublishedArms]],
    ledger: Callable[[], MemoryLedger],
    ask: Callable[[list[Client[PublishedArms]], float], FloatArray],
) -> None:
    @crowded(
        ENTRIES,
        name,
        SampledAudit,
        scope="policy",
        sees=f"all reports of one choice, for which {_RACERS} {of} ask at once",
        neighbours="reward lowest or highest, in the same bin",
        known_broken=device is _WithoutTurns,
        caught_from=44_000 if device is _WithoutTurns else None,
        fit=fit_categories,
        share=0.01,
    )
    def race(epsilon: float, seed: int, _noise: PreparedNoise, world: int) -> FloatArray:
        spec = _spec(epsilon, seed)
        accounts = [ledger().account("local-reports") for _ in range(_AT_ONCE)]
        racing = [device(spec, account=own, budget=_RACERS * epsilon) for own in accounts]
        for one in racing:
            one.choose(_one_bin(), [0.25])
        return np.sort(ask(racing, float(world)), axis=1)


_race("local-threads", "threads", Client, _MeetingLedger, _from_threads)
_race("broken-threads-without-turns", "threads", _WithoutTurns, partial(_MeetingLedger, 0.05), _from_threads)
if hasattr(os, "fork"):
    _race("local-forks", "processes", Client, MemoryLedger, _from_forks)
_race("broken-forks-without-turns", "processes", _WithoutTurns, MemoryLedger, _from_forks)
