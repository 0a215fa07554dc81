"""Metrics: an allow-list of traffic and of released or public numbers, in Prometheus' words.

Who reads metrics sees what everybody may see, and nothing of what people brought:

- requests by route, and how long they took; but for what follows a decision (rewards, `:activate`,
  `:abandon`, its status): where only clicks are told, and the default reward is 0, a count of
  these requests is the sum of rewards. Not by status: how many contexts could not be read, or how many
  rewards were refused, is a count over people;
- releases and rounds released of every policy; what every population has spent and has left;
- defects, and ids that were used again for another request.

There are no counts by arm, by reward or by what became of decisions. A policy's arms depend on what it has
learned from people: somebody who watched a counter of each arm, round by round, would see every single
person's arm, which joint differential privacy promises to show to nobody else.
"""

import os

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from dpbandits.service.core import Service
from dpbandits.service.settings import COUNTERS

__all__ = ["ALLOWED", "Metrics"]

ALLOWED = frozenset(
    {
        "dpbandits_requests",
        "dpbandits_request_seconds",
        "dpbandits_defects",
        "dpbandits_other_bodies",
        "dpbandits_releases",
        "dpbandits_rounds_released",
        "dpbandits_budget_spent",
        "dpbandits_budget_limit",
    }
)
"""Everything that is shown; a name that is not here is a failed test."""

_UNCOUNTED = ("/v1/policies/{policy}/decisions/", "/v1/policies/{policy}/rewards:")
"""Beginnings of routes that are asked only where something became of a decision: a count of them is a count
over people."""

_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class _Released(Collector):
    """Numbers that are public or released, read when they are asked for."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> list[Metric]:
        """Return the metrics of every policy and population."""
        releases = GaugeMetricFamily("dpbandits_releases", "Releases so far", labels=["policy"])
        rounds = GaugeMetricFamily("dpbandits_rounds_released", "Rounds in releases", labels=["policy"])
        spent = GaugeMetricFamily("dpbandits_budget_spent", "Spent", labels=["population", "part"])
        limit = GaugeMetricFamily("dpbandits_budget_limit", "Limit", labels=["population", "part"])
        with self._service.store.reading() as reads:
            policies = reads.rows(
                "SELECT p.name, MAX(r.version), MAX(r.rounds) FROM policies p "
                "LEFT JOIN releases r ON r.policy = p.id GROUP BY p.name"
            )
            populations = reads.rows("SELECT name FROM populations")
            (others,) = reads.rows("SELECT COUNT(*) FROM events WHERE what = 'other-body'")[0]
        for name, version, released in policies:
            releases.add_metric([name], version or 0)
            rounds.add_metric([name], released or 0)
        for (name,) in populations:
            for part, used, most in self._service.ledger.balance(name).parts:
                spent.add_metric([name, part], float(used))
                limit.add_metric([name, part], float(most))
        other_bodies = CounterMetricFamily(
            "dpbandits_other_bodies", "Ids used again for another request", others
        )
        return [releases, rounds, spent, limit, other_bodies]


class Metrics:
    """Counters of the service."""

    def __init__(self, service: Service) -> None:
        self._registry = CollectorRegistry()
        self._released = _Released(service)
        self._registry.register(self._released)
        self._requests = Counter(
            "dpbandits_requests", "Requests by route", ["method", "route"], registry=self._registry
        )
        self._seconds = Histogram(
            "dpbandits_request_seconds",
            "Seconds of requests",
            ["method", "route"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._defects = Counter("dpbandits_defects", "Answers with a status of 500", registry=self._registry)

    def saw(self, method: str, route: str, status: int, seconds: float) -> None:
        """One request; routes are templates, so that there are few."""
        if not route.startswith(_UNCOUNTED):
            self._requests.labels(method, route).inc()
            self._seconds.labels(method, route).observe(seconds)
        if status == 500:
            self._defects.inc()

    def text(self) -> bytes:
        """In Prometheus' text format; where several processes serve, the counters of all of them together."""
        if COUNTERS not in os.environ:
            return generate_latest(self._registry)
        together = CollectorRegistry()
        MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        together.register(self._released)
        return generate_latest(together)
