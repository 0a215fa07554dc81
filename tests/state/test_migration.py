"""Older layouts are brought up to date step by step, newer ones and wrong steps refused."""

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.errors import CorruptState, IncompatibleState
from dpbandits.lab.baselines import Uniform
from dpbandits.policy import BasePolicy
from dpbandits.state import State, read_state, write_state
from dpbandits.state.migration import migrated

OLD = State(kind="k", version=1, lineage="a", position=4, public={"a": 1})
STEPS = {
    1: lambda state: replace(state, version=2, public={"b": state.public["a"]}),
    2: lambda state: replace(state, version=3, public={"c": state.public["b"]}),
}


def test_steps_are_taken_in_order():
    assert migrated(OLD, kind="k", version=3, steps=STEPS).public == {"c": 1}
    assert migrated(OLD, kind="k", version=1) is OLD


@pytest.mark.parametrize(
    ("kind", "version", "steps"),
    [("other", 1, None), ("k", 0, None), ("k", 2, None), ("k", 3, {1: STEPS[1]})],
)
def test_other_kinds_newer_and_orphaned_layouts_are_incompatible(kind, version, steps):
    with pytest.raises(IncompatibleState):
        migrated(OLD, kind=kind, version=version, steps=steps)


@pytest.mark.parametrize("change", [{"position": 5}, {"lineage": "b"}, {"kind": "l"}, {"version": 3}])
def test_a_step_cannot_move_a_lineage(change):
    with pytest.raises(CorruptState):
        migrated(
            OLD, kind="k", version=2, steps={1: lambda state: replace(state, **({"version": 2} | change))}
        )


@pytest.mark.parametrize(
    "public", [{}, {"config": []}, {"config": {"noise": [], "tuning": 1}}, {"config": None}]
)
@pytest.mark.parametrize("policy", BasePolicy.registry.values())
def test_a_step_that_finds_no_such_layout_is_refused(policy, public):
    """Or it leads on: whoever reads the configuration then refuses it."""
    for version in range(1, policy.state_version):
        state = State(kind=policy.kind, version=version, lineage="a", position=0, public=public)
        with suppress(CorruptState, IncompatibleState):
            migrated(state, kind=policy.kind, version=policy.state_version, steps=policy.state_migrations)
    with pytest.raises(CorruptState):
        migrated(replace(OLD, public=public), kind="k", version=3, steps=STEPS)


def test_a_policy_loads_what_an_older_release_saved(tmp_path, monkeypatch):
    path = tmp_path / "p"
    policy = Uniform(domain=dpb.Box(low=[0], high=[1]), reward_range=(0, 1), horizon=9, user_ids=False)
    policy.tell(policy.ask(np.array([[0.1], [0.9]])).id, 0.5)
    policy.save(path)
    saved = read_state(path)
    config = dict(saved.public["config"])
    config["rounds"] = config.pop("horizon")  # how an older layout might have called it
    path.unlink()
    write_state(path, replace(saved, public={**saved.public, "config": config}))

    def step(state: State) -> State:
        fields = dict(state.public["config"])
        fields["horizon"] = fields.pop("rounds")
        return replace(state, version=3, public={**state.public, "config": fields})

    with monkeypatch.context() as patch:
        patch.setattr(Uniform, "state_version", 3)
        with pytest.raises(IncompatibleState, match="older"):
            Uniform.load(path)
        patch.setattr(Uniform, "state_migrations", {2: step})
        again = Uniform.load(path)
        assert again.horizon == 9
        again.save(path)
        assert read_state(path).version == 3
        assert read_state(path).position == saved.position + 1


def test_every_registered_policy_has_a_step_from_every_older_layout():
    for cls in BasePolicy.registry.values():
        assert set(cls.state_migrations) == set(range(1, cls.state_version)), cls.kind
