"""States and configurations as release 0.1.0.dev0 wrote them before parameters moved into `tuning`.

The files in `old_states` were written by that code, and what it did next is what is expected here.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest

from dpbandits.central import ExploreThenCommit, GPBandit, PhasedExploreThenCommit
from dpbandits.state import read_state

OLD = Path(__file__).with_name("old_states")
GP_DECIDED = [0, 1, 2, 3, 0, 3, 1, 1, 1, 0, 2, 0, 2, 1, 1]
PHASES_DECIDED = [1, 1, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]
PUBLISHED = [[0.429969, 0.43414, 0.437486], [0.408653, 0.422365, 0.439305], [0.388513, 0.405106, 0.426409]]


@pytest.fixture
def kept(tmp_path):
    """Name -> a copy that may go on."""
    return lambda name: shutil.copy(OLD / f"{name}.state", tmp_path / name)


def test_a_bandit_decides_and_releases_on(kept):
    policy = GPBandit.load(kept("gp_bandit"))
    assert (policy.tuning.thompson_scale, policy.blocks, policy.features.n_features) == (0.5, (5, 12), 2)
    decided = [policy.ask(np.linspace(0, 1, 4)[:, None], user=100 + t).index for t in range(15)]
    assert decided == GP_DECIDED
    assert len(policy.released) == 2


def test_a_learner_publishes_what_it_would_have(kept):
    policy = ExploreThenCommit.load(kept("explore_then_commit"))
    assert (policy.publish_epsilon, policy.answer_epsilon, policy.remaining_answers) == (4.0, 0.5, 3)
    assert (policy.tuning.publish_ridge, policy.tuning.reference, policy.user_ids) == (30.0, 0.4, True)
    np.testing.assert_allclose(policy.publish().mean, PUBLISHED, atol=1e-6)


def test_phases_go_on(kept):
    policy = PhasedExploreThenCommit.load(kept("phased"))
    assert (policy.phases, policy.exploration) == ((6, 14), (1.0, 0.3))
    assert [policy.ask([t / 15], user=100 + t).index for t in range(15)] == PHASES_DECIDED
    assert policy.released == 2


@pytest.mark.parametrize(
    ("policy_class", "name"),
    [
        (GPBandit, "gp_bandit"),
        (ExploreThenCommit, "explore_then_commit"),
        (PhasedExploreThenCommit, "phased"),
    ],
)
def test_a_configuration_is_read_and_the_next_save_is_of_the_present_layout(policy_class, name, kept):
    path = kept(name)
    old = read_state(path)
    assert "tuning" not in old.public["config"]
    policy = policy_class.load(path)
    assert policy_class.from_config(old.public["config"]).to_config() == policy.to_config()
    policy.save(path)
    new = read_state(path)
    assert (new.version, new.position) == (old.version + 1, old.position + 1)
    assert new.public["config"] == policy.to_config()
