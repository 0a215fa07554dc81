"""Metrics: an allow-list of traffic and of released or public numbers, in Prometheus' words.

Who reads metrics sees what everybody may see, and nothing of what people brought:

- requests by route, and how long they took; but for what follows a decision (rewards, `:activate`,
  `:abandon`, its status): where only clicks are told, and the default reward is 0, a count of
  these requests is the sum of rewards. Not by status: how many contexts could not be read, or how many
  rewards were refused, is a count over people. Requests that no route answers, as those
  for a reward with a slash too many, are not counted either; what is refused before its route is found counts
  as its route does;
- answers with 500 and 503 by route, for the same routes: they tell of defects, the store and the load. What
  follows a decision has none here either: while the store is away every reward that is told is answered 503,
  and their count would be a count over people again. A decision needs the same store and the same writer, so
  an alarm on decisions misses nothing; a defect in another route is in the log;
- how long a connection, the writer's queue and a commit took, and why the service is not ready. All of it
  is measured on what the service itself does every two seconds (`readiness`), never on what callers do. The
  number of commits, or of calls that wait, less the decisions that are counted here, would be the number of
  rewards told; a duration tells of the load, as the duration of any request does. Each sender has its turn
  at the writer, the service too: how long decisions wait behind others is in `dpbandits_request_seconds`;
- releases and rounds released of every policy, and how many rounds a release is late: rounds are asked for,
  and requests for decisions are counted anyway; what every population has spent, and its limits: of the
  sums that its account adds up, and as `part="epsilon at delta"` beside the promised epsilon;
- ids that were used again for another request;
- the process's memory in MiB and its processor time in whole seconds, which whoever runs the machine sees as
  well. A reward takes about a thousandth of a second of it.

Counters of processes that serve together are added up. Those of others differ in the label `process`, so that
a scraper that reaches now one and now another sees no counter go back.

There are no counts by arm, by reward or by what became of decisions. A policy's arms depend on what it has
learned from people: somebody who watched a counter of each arm, round by round, would see every single
person's arm, which joint differential privacy promises to show to nobody else.
"""

import hashlib
import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from dpbandits.service.core import Service
from dpbandits.service.readiness import WORDS
from dpbandits.service.settings import COUNTERS

__all__ = ["Metrics"]

_Kind = TypeVar("_Kind", Counter, Gauge, Histogram)

_UNCOUNTED = ("/v1/policies/{policy}/decisions/", "/v1/policies/{policy}/rewards:", "none")
"""Beginnings of routes that are asked only where something became of a decision, and what has no route: a
client may send each reward to a path that is none. A count of them is a count over people."""

_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class _Released(Collector):
    """Collector of public and released numbers, which reads them on request."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> list[Metric]:
        """Return the metrics of every policy and population."""
        releases = GaugeMetricFamily(
            "dpbandits_releases", "Number of releases of a policy", labels=["policy"]
        )
        rounds = GaugeMetricFamily(
            "dpbandits_rounds_released", "Number of rounds in releases", labels=["policy"]
        )
        lag = GaugeMetricFamily(
            "dpbandits_release_lag_rounds", "Rounds since a release was due", labels=["policy"]
        )
        spent = GaugeMetricFamily(
            "dpbandits_budget_spent", "Privacy budget spent", labels=["population", "part"]
        )
        limit = GaugeMetricFamily("dpbandits_budget_limit", "Privacy budget", labels=["population", "part"])
        with self._service.store.reading() as reads:
            policies = reads.rows(
                "SELECT p.name, MAX(r.version), MAX(r.rounds), MAX(g.asked - g.due + 1) FROM policies p "
                "LEFT JOIN releases r ON r.policy = p.id LEFT JOIN progress g ON g.policy = p.id "
                "GROUP BY p.name"
            )
            populations = reads.rows("SELECT name FROM populations")
            (others,) = reads.rows("SELECT COUNT(*) FROM events WHERE what = 'other-body'")[0]
        for name, version, released, late in policies:
            releases.add_metric([name], version or 0)
            rounds.add_metric([name], released or 0)
            lag.add_metric([name], max(late or 0, 0))  # 1 as soon as one is due
        for (name,) in populations:
            balance = self._service.ledger.balance(name)
            epsilon = ("epsilon at delta", balance.spent_as_epsilon, balance.terms.epsilon)
            for part, used, most in (epsilon, *balance.parts):
                spent.add_metric([name, part], float(used))
                limit.add_metric([name, part], float(most))
        other_bodies = CounterMetricFamily(
            "dpbandits_other_bodies", "Ids sent again with another body", others
        )
        return [releases, rounds, lag, spent, limit, other_bodies]


class Metrics:
    """Counters of the service."""

    def __init__(self, service: Service) -> None:
        self._registry = CollectorRegistry()
        self._released = _Released(service)
        self._registry.register(self._released)
        together = os.environ.get(COUNTERS) or secrets.token_hex(8)
        self._process = hashlib.sha256(together.encode()).hexdigest()[:8]
        self._cpu = 0
        of_routes = ["method", "route"]
        self._requests = self._made(Counter, "dpbandits_requests", "Number of requests", of_routes)
        self._seconds = self._made(
            Histogram, "dpbandits_request_seconds", "Duration of requests", of_routes, buckets=_SECONDS
        )
        self._errors = self._made(
            Counter, "dpbandits_errors", "Number of answers with 5xx", [*of_routes, "status"]
        )
        self._steps = {
            step: self._made(Histogram, f"dpbandits_{step}_seconds", said, buckets=_SECONDS)
            for step, said in (
                ("connection", "Seconds until the service's own check has read a row"),
                ("queue", "Seconds that the service's own check waits for the writer"),
                ("commit", "Seconds from the check's turn until its commit"),
            )
        }
        how: dict[str, Any] = {"multiprocess_mode": "livemax"}
        self._reasons = self._made(
            Gauge, "dpbandits_not_ready", "1 if this is a reason, else 0", ["reason"], **how
        )
        how = {"multiprocess_mode": "livesum"}
        self._memory = self._made(Gauge, "process_resident_memory_bytes", "Memory, in whole MiB", **how)
        self._files = self._made(Gauge, "process_open_fds", "Open files", **how)
        self._time = self._made(Counter, "process_cpu_seconds", "Processor time, in whole seconds")

    def _made(
        self, kind: Callable[..., _Kind], name: str, said: str, labels: Sequence[str] = (), **how: Any
    ) -> Callable[..., _Kind]:
        """A metric, by the values of its labels."""
        made: Any = kind(name, said, ["process", *labels], registry=self._registry, **how)
        return cache(lambda *values: made.labels(self._process, *values))  # routes are few, and so are values

    def saw(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request. Routes are templates, so there are few."""
        if route.startswith(_UNCOUNTED):
            return
        self._requests(method, route).inc()
        self._seconds(method, route).observe(seconds)
        if status >= 500:
            self._errors(method, route, status).inc()

    def beat(self, seconds: Mapping[str, float], reasons: Sequence[str]) -> None:
        """Record the reasons that `readiness` found, and how long each step took."""
        for step, metric in self._steps.items():
            if step in seconds:
                metric().observe(seconds[step])
        for word in WORDS:
            self._reasons(word).set(word in reasons)
        spent = int(time.process_time())
        self._time().inc(spent - self._cpu)
        self._cpu = spent
        with suppress(OSError, AttributeError):  # a system without /proc has neither
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            self._memory().set(pages * os.sysconf("SC_PAGE_SIZE") >> 20 << 20)
            self._files().set(len(list(Path("/proc/self/fd").iterdir())))

    def text(self) -> bytes:
        """In Prometheus' text format; where several processes serve, the counters of all of them together."""
        if COUNTERS not in os.environ:
            return generate_latest(self._registry)
        together = CollectorRegistry()
        MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        together.register(self._released)
        return generate_latest(together)
