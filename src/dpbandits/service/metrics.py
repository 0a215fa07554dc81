"""`Metrics`: an allow-list of traffic and of released or public numbers, in Prometheus' format.

Privacy: metrics reveal nothing about contexts or rewards. They have

- requests by route, with their durations. Routes that follow a decision (rewards, `:activate`, `:abandon`,
  its status) are not counted: if only clicks are recorded and the default reward is 0, their count is the sum
  of rewards. There is no label for the status: the number of unreadable contexts or refused rewards is a
  count over users. Requests without a route, such as a reward with an extra slash, are not counted either. A
  request that is refused before its route runs counts like its route;
- answers with 500 and 503 by route, for the same routes. Routes that follow a decision are left out here as
  well: while the store is unavailable every reward is answered 503, and their number is a count over users. A
  decision needs the same store and writer, so an alarm on decisions is enough. Defects are in the log;
- durations of a connection, of the writer's queue and of a commit, and the reasons why the service is not
  ready. All are measured on the service's own checks every two seconds (`readiness`), never on callers. A
  count of all commits, less that of decisions, would be the number of rewards. The service takes its turn at
  the writer like all senders, so waits of decisions are only in `dpbandits_request_seconds`;
- releases and released rounds of every policy, and the number of rounds by which a release is late. Requests
  for decisions are counted anyway;
- spent budget and limits of every population, for each sum of its account, and as `part="epsilon at delta"`
  for comparison with the promised epsilon;
- ids that were used again for another request;
- memory of the process in MiB and its CPU time in whole seconds, which the operator of the machine sees
  anyway. A reward takes about a millisecond of CPU time.

Counters of the workers of one service are added. Separate services have different labels `process`, so that a
scraper that reaches one or the other sees no counter decrease.

There are no counts by arm, by reward or by status of decisions. Arms depend on other users' data: an observer
of a counter per arm, round by round, would see every user's arm, which joint differential privacy shows to
that user only.
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
"""Prefixes of routes that follow a decision, and "none" for requests without a route.

Numbers of such requests are counts over users. A client may send rewards to a path without a route by
mistake.
"""

_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class _Released(Collector):
    """Collector of public and released numbers, which reads them when metrics are requested."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> list[Metric]:
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
            lag.add_metric([name], max(late or 0, 0))  # 1 as soon as a release is due
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
        """Create a metric; return a function from the values of its labels to it."""
        made: Any = kind(name, said, ["process", *labels], registry=self._registry, **how)
        return cache(lambda *values: made.labels(self._process, *values))  # there are few routes and values

    def saw(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request. `route` is a path template, so that there are few counters."""
        if route.startswith(_UNCOUNTED):
            return
        self._requests(method, route).inc()
        self._seconds(method, route).observe(seconds)
        if status >= 500:
            self._errors(method, route, status).inc()

    def beat(self, seconds: Mapping[str, float], reasons: Sequence[str]) -> None:
        """Record the durations and the reasons that one round of checks of `readiness` gave."""
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
        """Return the metrics in Prometheus' text format, with the counters of all workers."""
        if COUNTERS not in os.environ:
            return generate_latest(self._registry)
        together = CollectorRegistry()
        MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        together.register(self._released)
        return generate_latest(together)
