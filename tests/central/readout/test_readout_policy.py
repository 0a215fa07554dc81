"""A policy with a readout: groups, the control's arms, what learning sees, and what a restart keeps."""

import json
import math
from datetime import timedelta

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.central import GPBandit, GPTuning
from dpbandits.central.readout.groups import CONTROL, NEITHER, PERMUTED, POLICY, Groups
from dpbandits.errors import HorizonExceeded, InvalidCall, InvalidData, InvalidParameter, ProtocolError
from dpbandits.policy import PublicCoins
from dpbandits.policy.bookkeeping import NOBODY, UserCounts
from dpbandits.privacy import JointDP, SimulatedNoise

PEOPLE = dpb.Schema(age=dpb.Range(18, 90), region=dpb.Categories(["north", "south"]))
ARMS = ["mail", "call", "nothing"]
CONTEXT = {"age": 44, "region": "south"}
WITHOUT_IDS = JointDP(epsilon=1, delta=1e-6, user_ids=False)


def policy(*, readout=None, release="marginals", horizon=200, privacy=None, **changes):
    given = {
        "control": dpb.Control(arm="nothing", share=0.3),
        "metrics": {"complaint": bool, "revenue": dpb.RewardRange(0, 500)},
        "looks": 2,
    } | (readout or {})
    tuning = changes.pop("tuning", None) or GPTuning(release=release, blocks=[60, 120])
    return GPBandit(
        contexts=PEOPLE,
        arms=ARMS,
        reward_range=(0, 1),
        horizon=horizon,
        privacy=privacy or JointDP(epsilon=1, delta=1e-6),
        tuning=tuning,
        readout=dpb.Readout(**given),
        **({"noise": SimulatedNoise(5)} | changes),
    )


def drive(one, rounds, *, reward=lambda index, decision: 1.0, context=lambda index: CONTEXT, first=0):
    found = []
    for index in range(first, first + rounds):
        decision = one.ask(context(index), user=f"u-{index}" if one.user_ids else None)
        one.tell(decision.id, reward(index, decision), complaint=index % 7 == 0, revenue=float(index % 500))
        found.append(decision)
    return found


# -- groups ---------------------------------------------------------------------------------------


def test_a_user_stays_in_one_group_whatever_the_round_and_the_company():
    groups = Groups(PublicCoins(3), 0.2, by_user=True)
    digests = UserCounts(bytes(16)).digests(range(4000))
    codes = groups.of(digests, 0, 4000)
    shuffled = np.random.default_rng(0).permutation(4000)
    again = groups.of([digests[place] for place in shuffled], 900, 4000)
    np.testing.assert_array_equal(again, codes[shuffled])
    share = (codes == CONTROL).mean()
    assert abs(share - 0.2) < 6.0 * (0.16 / 4000) ** 0.5
    assert groups.of([NOBODY], 0, 1).tolist() == [NEITHER]
    other = Groups(PublicCoins(4), 0.2, by_user=True).of(digests, 0, 4000)
    salted = groups.of(UserCounts(bytes([1]) * 16).digests(range(4000)), 0, 4000)
    for one in (other, salted):  # another seed or salt: independent groups
        assert abs((one[codes == CONTROL] == CONTROL).mean() - 0.2) < 0.1


@pytest.mark.parametrize("share", [0.01, 0.1, 0.25, 0.5])
def test_rounds_without_ids_are_divided_by_permuted_blocks(share):
    groups = Groups(PublicCoins(3), share, by_user=False)
    codes = groups.of([], 0, 50 * PERMUTED)
    assert (codes == CONTROL).sum() == round(50 * PERMUTED * share)
    one_by_one = np.concatenate([groups.of([], index, 1) for index in range(3 * PERMUTED)])
    np.testing.assert_array_equal(one_by_one, codes[: 3 * PERMUTED])
    np.testing.assert_array_equal(groups.of([], 7, 31), codes[7:38])


def test_decisions_carry_the_group_and_the_control_gets_its_arm():
    found = drive(policy(), 150)
    control = [decision for decision in found if decision.group == "control"]
    assert {decision.group for decision in found} == {"policy", "control"}
    assert 20 < len(control) < 75
    assert {(decision.arm, decision.propensity) for decision in control} == {("nothing", 1.0)}
    assert len({decision.arm for decision in found if decision.group == "policy"}) > 1


def test_a_batch_has_the_groups_and_arms_of_single_asks():
    """Users who return in a batch stay in their group. Rounds without ids get the same groups in a batch."""
    one = policy(privacy=JointDP(epsilon=1, delta=1e-6, rounds_per_user=2))
    single = [one.ask(CONTEXT, user=f"u-{index}") for index in range(50)]
    batch = one.ask_batch([CONTEXT] * 51, users=[*(f"u-{index}" for index in range(50)), "u-0"])
    assert [decision.group for decision in single] == list(batch.groups[:50])
    assert batch.groups[50] is None  # a third round of one user
    one, other = policy(privacy=WITHOUT_IDS), policy(privacy=WITHOUT_IDS)
    single, batch = [one.ask(CONTEXT) for _ in range(50)], other.ask_batch([CONTEXT] * 50)
    assert [decision.group for decision in single] == list(batch.groups)
    assert [decision.arm for decision in single] == list(batch.arms)
    assert [batch[place].group for place in range(50)] == list(batch.groups)


def test_the_control_draws_among_available_arms_if_its_own_is_not():
    one = policy(readout={"control": dpb.Control(arm="nothing", share=0.5)})
    found = [one.ask(CONTEXT, user=index, available=["mail", "call"]) for index in range(60)]
    control = [decision for decision in found if decision.group == "control"]
    assert {decision.arm for decision in control} == {"mail", "call"}
    assert {decision.propensity for decision in control} == {0.5}


def test_a_uniform_control_and_one_of_a_published_function():
    one = policy(readout={"control": dpb.Control(arm="uniform", share=0.5)})
    control = [decision for decision in drive(one, 100) if decision.group == "control"]
    assert {decision.arm for decision in control} == set(ARMS)
    assert {decision.propensity for decision in control} == {1 / 3}
    published = one.publish()
    other = policy(readout={"control": dpb.Control(arm=published, share=0.5)})
    served = [decision for decision in drive(other, 50) if decision.group == "control"]
    assert {decision.arm for decision in served} == {published.recommend(CONTEXT)}
    said = "among those from whom the control's published function was learned"
    assert [said in " ".join(own.guarantee.annex().split()) for own in (one, other)] == [False, True]
    assert GPBandit.from_config(other.to_config()).to_config() == other.to_config()


# -- learning ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("release", ["marginals", "features"])
def test_nothing_of_the_control_group_enters_learning(release):
    """Contexts, rewards and metrics of control rounds are replaced: every release of learning stays."""
    held = Groups(PublicCoins(4), 0.3, by_user=False).of([], 0, 130) == CONTROL

    def run(*, replaced):
        one = policy(release=release, seed=4, privacy=WITHOUT_IDS)
        drive(
            one,
            130,
            reward=lambda index, _: 0.0 if replaced and held[index] else 1.0,
            context=lambda index: {"age": 20, "region": "north"} if replaced and held[index] else CONTEXT,
        )
        return one

    one, other = run(replaced=False), run(replaced=True)
    assert one.blocks_released == other.blocks_released == 2
    np.testing.assert_array_equal(one.released, other.released)


@pytest.mark.parametrize("release", ["marginals", "features"])
def test_replacing_a_user_of_one_group_moves_the_sums_of_that_group_alone(release):
    def sums(changed):
        one = policy(release=release, seed=4, horizon=120, privacy=WITHOUT_IDS)
        drive(one, 120, reward=lambda index, _: 0.0 if index == changed else 1.0)
        return np.array([[look.policy.sums, look.control.sums] for look in one.released_looks()])

    before, codes = sums(None), Groups(PublicCoins(4), 0.3, by_user=False).of([], 0, 120)
    for code in (POLICY, CONTROL):
        index = 60 + int(np.flatnonzero(codes[60:] == code)[3])
        moved = before - sums(index)
        assert moved[1, code].tolist() == pytest.approx([1.0, 0.0, 0.0])
        moved[1, code] = 0
        assert not moved.any()


# -- telling -----------------------------------------------------------------------------------------


def test_metrics_that_are_missing_or_unreadable_count_as_the_default():
    """Yes/no metrics and a range, told in both ways: the noise, which is the same, cancels."""

    def sums(*told, both=()):
        one = policy(privacy=WITHOUT_IDS, horizon=40, tuning=GPTuning(release="marginals", blocks=[30]))
        ids = [one.ask(CONTEXT).id for _ in range(20)]
        for place, (reward, metrics) in enumerate(told):
            one.tell(ids[place], reward, **metrics)
        if both:
            one.tell_batch(ids[:2], both[0], metrics=both[1])
        look = one.released_looks()[0]
        return np.append(look.policy.sums + look.control.sums, look.policy.answered + look.control.answered)

    nothing = sums()
    told = [
        ((1.0, 0.0, 0.0, 1), sums((1.0, {}))),
        ((0.5, 1.0, 0.5, 1), sums((0.5, {"complaint": True, "revenue": "250"}))),
        ((1.0, 0.0, 0.0, 1), sums((1.0, {"complaint": "x", "revenue": float("nan")}))),
        ((0.0, 0.0, 0.0, 1), sums((0.0, {"complaint": 0.5, "revenue": 501}))),
        ((0.0, 0.0, 0.0, 0), sums((None, {"complaint": True, "revenue": 3}))),
        ((1.0, 1.0, 0.0, 1), sums(both=([1.0, None], {"complaint": [1, 1], "revenue": [-1, 3]}))),
        ((1.0, 0.0, 0.0, 1), sums((1.0, {"complaint": [1], "revenue": [[250]]}))),
        ((1.0, 1.0, 0.0, 1), sums(both=([1.0, [1.0]], {"complaint": [1, 1], "revenue": [[1, 2], [3, 4]]}))),
    ]
    for expected, found in told:
        np.testing.assert_allclose(found - nothing, expected, atol=1e-4)


def test_rewards_that_are_told_one_by_one_count_as_those_of_a_batch_do(tmp_path):
    """Also after a restart, which reads the log of rounds. Rewards of rounds in a released look are late."""
    values = [
        True,
        1,
        0.0,
        1.0,
        np.float64(1),
        np.int64(1),
        "1",
        2,
        -1,
        None,
        math.nan,
        math.inf,
        10**400,
        [1],
        {},
    ]
    rewards = [1, 0.5, True, np.float64(0.25), np.int64(0), 0.0]
    told = [
        (rewards[place % 6], {"complaint": one, "revenue": other})
        for place, (one, other) in enumerate((one, other) for one in values for other in values)
    ]
    told[7], told[50] = (0.5, {}), (1.0, {"revenue": 3.5})
    looks = []
    for way in ("one by one", "batch", "log"):
        new = policy(privacy=WITHOUT_IDS, horizon=len(told) + 40, noise=SimulatedNoise(5))
        one = GPBandit.open(tmp_path / "policy", new=new) if way == "log" else new
        ids = [one.ask(CONTEXT).id for _ in told]
        assert len(one.released_looks()) == 1  # rewards of its rounds are late for it
        if way == "batch":
            columns = {name: [metrics.get(name) for _, metrics in told] for name in ("complaint", "revenue")}
            one.tell_batch(ids, [reward for reward, _ in told], metrics=columns)
        for number, (decision, (reward, metrics)) in enumerate(zip(ids, told, strict=True)):
            if way == "batch":
                break
            if way == "log" and number == len(told) - 30:
                one.close()
                one = GPBandit.open(tmp_path / "policy", new=new)
            one.tell(decision, reward, **metrics)
        while one.rounds_asked < len(told) + 40:
            one.ask(CONTEXT)
        looks.append(
            [(look.policy.sums.tolist(), look.control.sums.tolist()) for look in one.released_looks()]
        )
    assert len(looks[0]) == 2
    assert looks[0] == looks[1] == looks[2]


def test_wrong_names_are_refused_and_nothing_is_told():
    one = policy()
    decision = one.ask(CONTEXT, user=1)
    with pytest.raises(InvalidData, match="unknown name; the readout has complaint, revenue"):
        one.tell(decision.id, 1.0, complaints=True)
    with pytest.raises(InvalidData, match=r"complaint has shape \(2,\), expected \(1,\)"):
        one.tell_batch([decision.id], [1.0], metrics={"complaint": [1, 2]})
    with pytest.raises(InvalidData, match="expected a dict of values by the names"):
        one.tell_batch([decision.id], [1.0], metrics=[True])
    with pytest.raises(InvalidData, match="the reward is not a number in reward_range"):
        one.tell(decision.id, 7.0, complaint=True)
    assert one.pending == (decision.id,)
    plain = GPBandit(contexts=PEOPLE, arms=ARMS, reward_range=(0, 1), horizon=100, privacy=JointDP(epsilon=1))
    decision = plain.ask(CONTEXT, user=1)
    with pytest.raises(InvalidCall, match="no readout="):
        plain.tell(decision.id, 1.0, complaint=True)


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ({"class": bool}, "'class' cannot be the name of a metric"),
        ({"decision_id": bool}, "other than at, decision_id, self and the keywords"),
        ({"complaint ": bool}, "'complaint ' cannot be"),
        ({"revenue": float}, "revenue is a type, expected bool or a public range"),
        ({"revenue": (0, 1, 2)}, "revenue is a tuple, expected bool or a public range"),
    ],
)
def test_metrics_that_cannot_be_told_are_named_at_construction(metrics, message):
    with pytest.raises(InvalidParameter, match=message):
        policy(readout={"metrics": metrics})


# -- durability ------------------------------------------------------------------------------------


def test_a_folder_keeps_groups_metrics_and_looks(tmp_path):
    def users_in(one):
        return [one.ask(CONTEXT, user=f"u-{index}").group for index in range(90)]

    twice = JointDP(epsilon=1, delta=1e-6, rounds_per_user=2)
    with GPBandit.open(tmp_path / "users", new=policy(privacy=twice)) as one:
        groups = users_in(one)
    with GPBandit.open(tmp_path / "users") as other:
        assert users_in(other) == groups  # the same users return after a restart

    with GPBandit.open(tmp_path / "live", new=policy(privacy=WITHOUT_IDS)) as one:
        drive(one, 90)
    with GPBandit.open(tmp_path / "live") as other:
        drive(other, 85, first=90)
    with GPBandit.open(tmp_path / "live") as other:
        drive(other, 25, first=175)
        found = other.released_looks()
    whole = policy(privacy=WITHOUT_IDS)
    drive(whole, 200)
    for look, own in zip(found, whole.released_looks(), strict=True):
        for name in ("policy", "control"):
            mine, theirs = getattr(look, name), getattr(own, name)
            np.testing.assert_array_equal(mine.sums, theirs.sums)
            assert (mine.answered, mine.rounds) == (theirs.answered, theirs.rounds)


def test_a_look_is_drawn_once_and_durable_before_it_is_shown(tmp_path, monkeypatch):
    one = policy(privacy=WITHOUT_IDS)
    one.save(tmp_path / "state")
    drive(one, 100)
    with monkeypatch.context() as broken:

        def full(*_, **__):
            raise OSError("full")

        broken.setattr("dpbandits.state.holder.Holder.commit", full)
        with pytest.raises(OSError, match="full"):
            one.released_looks()
    (shown,) = one.released_looks()
    loaded = GPBandit.load(tmp_path / "state")
    (kept,) = loaded.released_looks()
    np.testing.assert_array_equal(kept.policy.sums, shown.policy.sums)
    np.testing.assert_array_equal(one.released_looks()[0].control.sums, kept.control.sums)
    undisturbed = policy(privacy=WITHOUT_IDS)
    drive(undisturbed, 100)
    np.testing.assert_array_equal(undisturbed.released_looks()[0].policy.sums, shown.policy.sums)


def test_a_look_waits_for_late_rewards_and_every_round_is_in_one_look():
    tuning = GPTuning(release="marginals", blocks=[60, 120], reporting_delay=20)
    one = policy(privacy=WITHOUT_IDS, tuning=tuning)
    ids = [one.ask(CONTEXT).id for _ in range(109)]
    assert one.released_looks() == ()
    one.tell_batch(ids[85:95], np.ones(10))
    one.ask(CONTEXT)
    (look,) = one.released_looks()
    assert look.policy.rounds + look.control.rounds == 90  # half of the 180 rounds that have their delay
    assert one.tell(ids[84], 1.0).value == "counted"  # for learning: its look was released
    drive(one, 90, first=110)
    looks = one.released_looks()
    assert [look.policy.rounds + look.control.rounds for look in looks] == [90, 90]
    assert looks[0].control.sums.tolist() == look.control.sums.tolist()


# -- reading and stopping ------------------------------------------------------------------------------


def test_the_answer_is_that_of_the_released_looks():
    one = policy(privacy=JointDP(epsilon=20, user_ids=False), horizon=2000, readout={"looks": 4})
    with pytest.raises(ProtocolError, match="the first is due after 500 rounds"):
        one.readout()
    drive(one, 1000, reward=lambda _, decision: float(decision.arm != "nothing"))
    found = one.readout()
    looks = one.released_looks()
    assert (found.readings.looks, len(looks)) == (2, 2)
    control = sum(look.control.sums[0] for look in looks) / sum(look.control.rounds for look in looks) + 0.5
    assert found.reward.control == pytest.approx(control)
    assert found.reward.interval[0] > 0.3
    assert "The policy earns more than the control" in found.sentence
    assert [one.looks for one in found.by_look()] == [1, 2]
    assert found.by_look()[-1].to_json() == found.readings.to_json()
    assert "use the interval for all looks" in found.sentence
    assert found["revenue"].name == "revenue"
    assert json.loads(json.dumps(found.to_json()))["learning"]["epsilon"] == pytest.approx(19.0)
    assert one.diagnostics()["readout"]["looks_released"] == 2
    assert repr(found) == "ReadoutResult(looks=2, planned_looks=4)"
    with pytest.raises(ProtocolError, match="built without readout="):
        GPBandit(
            contexts=PEOPLE, arms=ARMS, reward_range=(0, 1), horizon=100, privacy=JointDP(epsilon=1)
        ).readout()


def test_the_answer_names_too_little_data_and_what_clipping_hides():
    readout = {"metrics": {"revenue": dpb.RewardRange(0, 500, clip=True)}, "looks": 4}
    one = policy(privacy=WITHOUT_IDS, readout=readout)
    one.tell_batch([one.ask(CONTEXT).id for _ in range(50)], np.zeros(50))
    found = one.readout()
    assert "too little data for an answer" in found.sentence
    assert "revenue outside 0 to 500 count as the nearer bound" in found.sentence
    assert "reward outside" not in found.sentence
    many = policy(privacy=JointDP(epsilon=50, user_ids=False), horizon=2000, readout=readout)
    many.tell_batch([many.ask(CONTEXT).id for _ in range(500)], np.ones(500))
    assert "not shown to differ" in many.readout().sentence
    assert "too little" not in many.readout().sentence


@pytest.mark.parametrize("release", ["marginals", "features"])
def test_the_noise_of_a_look_is_the_stated_one(release):
    """Counts of nothing, over seeds and looks: their deviation is that of the stated law."""
    counts, stated = [], set()
    for seed in range(12):
        one = policy(
            tuning=GPTuning(release=release, blocks=[100]),
            privacy=WITHOUT_IDS,
            horizon=104,
            noise=SimulatedNoise(seed),
            readout={"looks": 26},
        )
        for _ in range(26):
            one.ask_batch([CONTEXT] * 4)
        for look in one.released_looks():
            counts.append([look.policy.answered, look.control.answered])
            laws = (group.answered_laws for group in (look.policy, look.control))
            stated.add(tuple(math.hypot(*(law.sd for law in parts)) for parts in laws))
            np.testing.assert_allclose(
                look.policy.sum_laws[0].sd, one.diagnostics()["readout"]["noise_sd"][0]
            )
    (sds,) = stated
    # standard error of a Laplace variance: sqrt(5/n) of it; seven of them
    np.testing.assert_allclose(np.var(counts, axis=0), np.square(sds), rtol=7.0 * (5.0 / len(counts)) ** 0.5)


@pytest.mark.parametrize("then", ["control", None])
def test_a_rule_on_the_releases_stops_the_policy_or_only_says_so(tmp_path, then):
    stop = dpb.Stop(harm="complaint", above=0.1, then=then)
    privacy = JointDP(epsilon=20, user_ids=False)
    new = policy(privacy=privacy, horizon=2000, readout={"looks": 4, "stop": stop})

    def complains(one, count):
        for _ in range(count):
            decision = one.ask(CONTEXT)
            one.tell(decision.id, 0.5, complaint=decision.group == "policy")

    with GPBandit.open(tmp_path / "live", new=new) as one:
        complains(one, 500)
        assert one.diagnostics()["readout"]["stop"]["stopped_at_look"] is None
        complains(one, 1)
        assert one.diagnostics()["readout"]["stop"]["stopped_at_look"] == 1
    with GPBandit.open(tmp_path / "live") as one:
        found = one.ask_batch([CONTEXT] * 300)
        if then is None:
            assert set(found.groups) == {"policy", "control"}
            assert set(found.arms) > {"nothing"}
        else:
            assert set(found.groups) == {None}
            assert set(found.arms) == {"nothing"}
            complains(one, 1000)
            assert len(one.released_looks()) == 1
        assert "complaint exceeds that of the control by more than 0.1" in one.readout().sentence


# -- what is promised --------------------------------------------------------------------------------


@pytest.mark.parametrize("release", ["marginals", "features"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_statement_names_groups_sums_and_assumptions(release, delta):
    if release == "features" and not delta:
        return
    found = policy(release=release, privacy=JointDP(epsilon=2, delta=delta)).guarantee
    assert (found.epsilon, found.status) == (2.0, "simulated")
    assert found.certificate.delta_at(2.0) <= found.delta
    text = found.annex()
    for said in ("sums of outcomes of the control group", "Separate groups", "Fixed ids and times"):
        assert said.lower() in " ".join(text.split()).lower()
    assert "Fixed ids and times" in found.explain()


def test_unsupported_policies_are_refused_at_construction():
    readout = dpb.Readout(control=dpb.Control(arm="nothing"))
    privacy = JointDP(epsilon=1, delta=1e-6)
    common = {"reward_range": (0, 1), "horizon": 100, "privacy": privacy, "readout": readout}
    people = {"contexts": PEOPLE, "arms": ARMS}
    kernel = dpb.kernels.SquaredExponential(lengthscale=0.3)
    refused = [
        {"domain": dpb.Box(low=[0], high=[1]), "kernel": kernel},
        {"contexts": PEOPLE, "actions": dpb.Range(1, 20, steps=20)},
        {**people, "horizon": None},
        {**people, "tuning": GPTuning(lag=3)},
        {**people, "privacy": JointDP(epsilon=1, rounds_per_user=2, user_ids=False)},
        {**people, "arms": ["mail", "call"]},
        {
            **people,
            "arms": ["uniform", "nothing"],
            "readout": dpb.Readout(control=dpb.Control(arm="uniform")),
        },
        {**people, "horizon": 3, "tuning": GPTuning(blocks=[2])},
        {**people, "readout": {"control": "nothing"}},
        {
            **people,
            "tuning": GPTuning(release="features"),
            "readout": dpb.Readout(control=dpb.Control(arm="nothing"), minimum={"mail": 0.1}),
        },
        {**people, "readout": dpb.Readout(control=dpb.Control(arm="nothing"), minimum={"mail": 0.4})},
    ]
    with pytest.raises(InvalidParameter, match="together"):  # each is rounded up to 1/48
        dpb.Readout(control=dpb.Control(arm="nothing"), minimum=dict.fromkeys(map(str, range(25)), 0.001))
    for own in refused:
        with pytest.raises(InvalidParameter):
            GPBandit(**{**common, **own})


def test_a_minimum_is_kept_and_propensities_are_those_of_the_public_coins():
    """After the last release, when every user gets the best arm but for the minimum of another one."""
    one = policy(
        readout={"minimum": {"nothing": 0.1}, "control": dpb.Control(arm="nothing", share=0.01)},
        horizon=3000,
        privacy=JointDP(epsilon=50, user_ids=False),
        tuning=GPTuning(release="marginals", blocks=[600]),
    )
    drive(one, 600, reward=lambda _, decision: float(decision.arm == "call"))
    batch = one.ask_batch([CONTEXT] * 2300)
    own = np.array([group == "policy" for group in batch.groups])
    arms = np.array([str(arm) for arm in batch.arms])[own]
    forced = 5 / 48  # 0.1, rounded up
    share = (arms == "nothing").mean()
    assert abs(share - forced) < 6.0 * (forced * (1.0 - forced) / len(arms)) ** 0.5
    chances = {arm: set(batch.propensities[own][arms == arm].tolist()) for arm in set(arms)}
    assert chances == {"nothing": {forced}, "call": {1.0 - forced}}
    (alone,) = one.ask_batch([CONTEXT], available=[["mail", "call"]])
    assert alone.propensity == 1.0 or alone.group == "control"


def test_minimums_of_the_readout_and_of_new_arms_take_at_most_half_of_the_decisions():
    one = policy(readout={"minimum": {"mail": 0.3}}, horizon=400, tuning=GPTuning(blocks=[60, 120, 180, 300]))
    with pytest.raises(InvalidParameter, match="together"):
        one.add_arm("chat", minimum=0.3)
    one.add_arm("chat", minimum=0.15)


def test_arms_that_the_readout_needs_stay():
    one = policy(readout={"minimum": {"mail": 0.05}})
    drive(one, 10)
    for arm in ("nothing", "mail"):
        with pytest.raises(ProtocolError, match="the readout needs this arm"):
            one.retire_arm(arm)
    assert one.retire_arm("call").arm == "call"


def test_the_last_look_of_a_delay_in_time_is_released_when_it_has_passed_and_by_no_refused_call():
    tuning = GPTuning(release="marginals", blocks=[60, 120], reporting_delay=timedelta(hours=1))
    one = policy(tuning=tuning)
    for index in range(200):
        decision = one.ask(CONTEXT, user=f"u-{index}", at=60.0 * index)
        one.tell(decision.id, 1.0, at=60.0 * index)
    with pytest.raises(HorizonExceeded):
        one.ask(CONTEXT, user="later", at=1e6)
    assert one.readout(at=60.0 * 199).readings.looks == 1
    assert one.readout(at=60.0 * 199 + 3601.0).readings.looks == 2
