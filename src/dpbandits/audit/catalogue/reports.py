"""Local reports: every mechanism's law, enumerated over all payloads with its rational probabilities."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations, product

import numpy as np

from dpbandits.audit.catalogue.parts import Entries, listed
from dpbandits.audit.claims import ExactAudit, Law
from dpbandits.privacy.reports import MECHANISMS, ReportMechanism, mechanism

__all__ = ["ENTRIES", "laws", "payloads"]

ENTRIES: Entries = {}

_WINDOW = 2
"""Noise entries enumerated on either side; the ratio of two Laplace laws is the same further out."""


def payloads(report: ReportMechanism) -> list[bytes]:
    """All payloads that a device can send; for Laplace noise, those with entries within the window."""
    if report.report_bytes <= 2:
        codes = np.arange(256**report.report_bytes, dtype=np.uint32)
        table = codes.astype("<u4").view(np.uint8).reshape(-1, 4)[:, : report.report_bytes]
        table = np.ascontiguousarray(table)
        return [row.tobytes() for row in table[report.valid(table)]]
    entries = range(-_WINDOW, _WINDOW + 2)
    return [np.array(row, dtype="<i2").tobytes() for row in product(entries, repeat=report.report_bytes // 2)]


def laws(report: ReportMechanism) -> list[list[Fraction]]:
    """The law of the payload for every input (cell, sign), in order."""
    sent = payloads(report)
    return [
        [report.likelihood(payload, cell, positive=positive) for payload in sent]
        for cell in range(report.n_cells)
        for positive in (True, False)
    ]


def _enumerated(name: str) -> None:
    @listed(
        ENTRIES,
        f"report-{name}",
        ExactAudit,
        sees="the payload of one report",
        neighbours="any two inputs (cell, sign)",
    )
    def pairs(epsilon: float, seed: int) -> Callable[[], Iterator[tuple[Law, Law]]]:
        report = mechanism(name, n_cells=2 if "laplace" in name else 3, epsilon=epsilon)
        return lambda: combinations(laws(report), 2)


for _name in sorted(MECHANISMS):
    _enumerated(_name)
