"""States and configurations as release 0.1.0.dev0 wrote them before parameters moved into `tuning`.

The files in `old_states` were written by that code. They hold releases and no log of them, and at that time
a state could be loaded with another promise or another noise: they are refused. A state that had released
nothing is read.
"""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from dpbandits.central import ExploreThenCommit, GPBandit, PhasedExploreThenCommit
from dpbandits.errors import IncompatibleState
from dpbandits.state import read_state, write_state

OLD = Path(__file__).with_name("old_states")
OLD_STATES = [
    (GPBandit, "gp_bandit"),
    (ExploreThenCommit, "explore_then_commit"),
    (PhasedExploreThenCommit, "phased"),
]


@pytest.fixture
def kept(tmp_path):
    """Name -> a copy that may go on."""
    return lambda name: shutil.copy(OLD / f"{name}.state", tmp_path / name)


@pytest.mark.parametrize(("policy_class", "name"), OLD_STATES)
def test_releases_that_no_log_knows_are_refused(policy_class, name, kept):
    path = kept(name)
    before = path.read_bytes()
    with pytest.raises(
        IncompatibleState, match=r"an early build of dpbandits 0\.1\.0\.dev0 wrote this state"
    ):
        policy_class.load(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(("policy_class", "name"), OLD_STATES)
def test_a_state_that_released_nothing_is_read_and_written_in_the_present_layout(
    policy_class, name, tmp_path
):
    old = read_state(OLD / f"{name}.state")
    assert "tuning" not in old.public["config"]
    assert "promise" not in old.public
    path = tmp_path / name
    begun = policy_class.from_config(old.public["config"])
    begun.save(path)
    saved = read_state(path)
    write_state(path, replace(saved, version=old.version, public=old.public))
    policy = policy_class.load(path)
    assert policy.to_config() == begun.to_config()
    policy.save(path)
    new = read_state(path)
    assert (new.version, new.position) == (old.version + 2, saved.position + 1)
    assert new.public["config"] == policy.to_config()
    assert new.public["promise"] == {
        "account": None,
        "witnessed": False,
        "adopted": False,
        "live": False,
        "releases": [],
    }


def test_parameters_of_old_configurations_are_where_they_belong():
    bandit, learner, phased = (
        kind.from_config(read_state(OLD / f"{n}.state").public["config"]) for kind, n in OLD_STATES
    )
    assert (bandit.tuning.thompson_scale, bandit.blocks, bandit.features.n_features) == (0.5, (5, 12), 2)
    assert (learner.publish_epsilon, learner.answer_epsilon, learner.remaining_answers) == (4.0, 0.5, 4)
    assert (learner.tuning.publish_ridge, learner.tuning.reference, learner.user_ids) == (30.0, 0.4, True)
    assert (phased.phases, phased.exploration) == ((6, 14), (1.0, 0.3))
