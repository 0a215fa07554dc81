"""Optuna's studies over a policy."""

import pickle

import pytest

import dpbandits as dpb
from adapters.people import ARMS, PEOPLE, block, contexts, paid
from dpbandits.adapters.optuna import PolicySampler
from dpbandits.errors import InvalidData, InvalidParameter, ProtocolError

optuna = pytest.importorskip("optuna")


@pytest.fixture(autouse=True)
def quiet():
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    yield
    optuna.logging.set_verbosity(before)


def study_of(sampler, direction="maximize", **options):
    return optuna.create_study(sampler=sampler, direction=direction, **options)


def test_a_study_asks_the_policy_and_tells_it():
    policy = block(user_ids=True)
    sampler = PolicySampler(policy)
    study, people = study_of(sampler), contexts(70)

    def objective(trial):
        person = people[trial.number]
        sampler.meet(trial, dict(zip(PEOPLE.names, person, strict=True)), user=f"u{trial.number}")
        arm = trial.suggest_categorical("offer", ARMS)
        assert trial.suggest_categorical("offer", ARMS) == arm  # the same decision
        return paid(person[None], [arm], seed=trial.number)[0]

    study.optimize(objective, n_trials=70)
    assert policy.diagnostics()["rounds_asked"] == 70
    assert policy.pending == ()
    assert {trial.params["offer"] for trial in study.trials} <= set(ARMS)
    assert all(not trial.user_attrs for trial in study.trials)


def test_a_point_of_a_box_is_asked_for_once_a_trial():
    box, kernel = dpb.Box(low=[0, -1], high=[1, 1]), dpb.kernels.SquaredExponential(lengthscale=0.5)
    policy = block(domain=box, kernel=kernel, contexts=None, arms=None)
    sampler = PolicySampler(policy)
    study = study_of(sampler)

    def objective(trial):
        sampler.meet(trial)
        first, second = (trial.suggest_float(name, -1, 1) for name in ("x0", "x1"))
        assert box.contains([[first, second]]).all()
        return first

    study.optimize(objective, n_trials=30)
    assert policy.diagnostics()["rounds_asked"] == 30
    assert policy.pending == ()
    trial = study.ask()
    sampler.meet(trial, {"age": 4})
    with pytest.raises(InvalidParameter, match="pass no context"):
        trial.suggest_float("x0", 0, 1)
    with pytest.raises(InvalidParameter, match="from x0 to x1"):
        trial.suggest_float("lr", 0, 1)


def test_ask_and_tell_and_fewer_arms_for_a_person():
    sampler = PolicySampler(block())
    study = study_of(sampler)
    for number in range(8):
        trial = study.ask()
        sampler.meet(trial, [40.0, 1.0])
        assert trial.suggest_categorical("offer", ["mail", "none"]) in ("mail", "none")
        study.tell(trial, number / 8)
    assert sampler.policy.pending == ()


def test_two_studies_of_one_policy_keep_their_trials_apart():
    """Their trials have the same numbers: a reward must reach the person of its own study."""
    policy = block()
    sampler = PolicySampler(policy)
    first, second = (study_of(sampler) for _ in range(2))
    asked = [first.ask(), second.ask()]
    assert asked[0].number == asked[1].number
    for trial in asked:
        sampler.meet(trial, [40.0, 1.0])
        trial.suggest_categorical("offer", ARMS)
    before = policy.pending
    first.tell(asked[0], 1.0)
    assert policy.pending == before[1:]


def test_a_trial_that_fails_has_taken_its_round_and_contributes_nothing():
    policy = block()
    sampler = PolicySampler(policy)
    study = study_of(sampler)
    for state in (optuna.trial.TrialState.FAIL, optuna.trial.TrialState.PRUNED):
        trial = study.ask()
        sampler.meet(trial, [40.0, 1.0])
        trial.suggest_categorical("offer", ARMS)
        study.tell(trial, state=state)
    assert policy.pending == ()
    assert policy.diagnostics()["rounds_asked"] == 2


def test_a_study_that_writes_or_prints_raw_rewards_is_refused_before_a_round_is_taken(tmp_path):
    policy = block()
    sampler = PolicySampler(policy)
    on_disk = study_of(sampler, storage=f"sqlite:///{tmp_path}/study.db")
    with pytest.raises(ProtocolError, match="plain text"):
        sampler.meet(on_disk.ask(), [40.0, 1.0])
    study = study_of(sampler)
    for level in (optuna.logging.INFO, optuna.logging.WARNING):  # WARNING prints the value of a failed trial
        optuna.logging.set_verbosity(level)
        with pytest.raises(ProtocolError, match="set_verbosity"):
            sampler.meet(study.ask(), [40.0, 1.0])
    assert policy.diagnostics()["rounds_asked"] == 0


def test_what_is_no_decision_of_one_person_is_refused():
    policy = block()
    sampler = PolicySampler(policy)
    study = study_of(sampler)
    with pytest.raises(ProtocolError, match=r"sampler\.meet"):
        study.ask().suggest_categorical("offer", ARMS)
    trial = study.ask()
    sampler.meet(trial, [40.0, 1.0])
    for suggest in (
        lambda: trial.suggest_float("offer", 0, 1),
        lambda: trial.suggest_categorical("offer", ["mail", "fax"]),
    ):
        with pytest.raises(InvalidParameter, match="arms"):
            suggest()
    trial.suggest_categorical("offer", ARMS)
    with pytest.raises(ProtocolError, match="one decision"):
        trial.suggest_categorical("second", ARMS)
    unreadable = study.ask()
    sampler.meet(unreadable, {"age": "old"})
    with pytest.raises(InvalidData):
        unreadable.suggest_categorical("offer", ARMS)
    assert policy.diagnostics()["rounds_asked"] == 2
    with pytest.raises(InvalidParameter, match="maximize"):
        study_of(sampler, direction="minimize").ask()
    with pytest.raises(ProtocolError, match="pickled"):
        pickle.dumps(sampler)
