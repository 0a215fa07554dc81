"""What the documentation shows is complete, and is what was promised for it."""

import json
from pathlib import Path

from dpbandits.audit import NAMES, AuditRow

ROWS = [
    AuditRow.from_json(fields)
    for fields in json.loads(
        (Path(__file__).parents[2] / "reproduction" / "results" / "audit.json").read_text()
    )
]


def test_every_audit_is_in_the_table_and_none_was_unexpected():
    assert [row.name for row in ROWS] == list(NAMES)
    assert all(row.as_expected for row in ROWS)
    assert all(row.confidence >= 0.999 for row in ROWS)


def test_single_mechanisms_are_bounded_tightly():
    single = [row for row in ROWS if row.scope == "mechanism" and not row.known_broken]
    assert len(single) >= 15
    for row in single:
        assert row.claimed_epsilon == 1.0
        assert row.tightness >= 0.8
        assert row.confidence == 1.0 or row.samples >= 100_000


def test_bounds_that_presume_a_family_say_so():
    conditional = [row for row in ROWS if row.conditional_on]
    assert all(row.unconditional_bound is not None for row in conditional)
    assert any(row.name == "discrete-gaussian" for row in conditional)
