import pytest

from dpbandits.errors import InvalidParameter
from dpbandits.lab.evaluation import FIRST_REPORT_SEED, report_seeds


def test_report_seeds_start_at_a_million():
    assert FIRST_REPORT_SEED == 1_000_000
    assert report_seeds(1_000_000, 3) == (1_000_000, 1_000_001, 1_000_002)
    assert report_seeds(999_997, 3, tuning=True) == (999_997, 999_998, 999_999)


@pytest.mark.parametrize(
    ("first", "reps", "tuning"),
    [
        (999_999, 1, False),
        (0, 5, False),
        (1_000_000, 1, True),
        (999_999, 2, True),
        (-1, 1, True),
        (1_000_000, 0, False),
        (1e6, 1, False),
        (1_000_000, True, False),
    ],
)
def test_seeds_on_the_wrong_side_are_refused(first, reps, tuning):
    with pytest.raises(InvalidParameter):
        report_seeds(first, reps, tuning=tuning)
