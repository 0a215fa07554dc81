"""Arms that come and go: what is offered, what is released, and what a state and a folder keep."""

from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.central import GPBandit, GPTuning
from dpbandits.central.arm_changes import ArmHistory
from dpbandits.central.marginals.learning import LIKENESS
from dpbandits.errors import CorruptState, InvalidData, InvalidParameter, ProtocolError
from dpbandits.tables.menu import Menu
from internals import marginals as inside

PEOPLE = dpb.Schema(age=dpb.Range(18, 90), region=dpb.Categories(["north", "south", "west"]))
BLOCKS = (100, 200, 300, 400)
WORTH = {"mail": 0.4, "call": 0.3, "chat": 0.8, "fax": 0.1}


def policy(*, arms=("mail", "call"), lag=0, rounds=1, **changes):
    arguments = {
        "contexts": PEOPLE,
        "arms": None if arms is None else list(arms),
        "reward_range": (0, 1),
        "horizon": 500,
        "privacy": dpb.JointDP(epsilon=50.0, delta=1e-6, rounds_per_user=rounds),
        "noise": dpb.SimulatedNoise(1),
        "tuning": GPTuning(release="marginals", census=False, blocks=BLOCKS, lag=lag),
    }
    return GPBandit(**(arguments | changes))


def context(number):
    rng = np.random.default_rng(number)
    return {"age": float(rng.uniform(18, 90)), "region": ["north", "south", "west"][int(rng.integers(3))]}


def drive(chooser, start, stop, **options):
    """Ask and tell for users start .. stop - 1, one by one; return the arms that they got."""
    found = []
    for number in range(start, stop):
        decision = chooser.ask(context(number), user=number, **options)
        chooser.tell(decision.id, float(np.random.default_rng([7, number]).random() < WORTH[decision.arm]))
        found.append(decision.arm)
    return found


def test_an_arm_is_offered_from_the_next_release_on_and_a_retired_one_no_longer():
    chooser = policy()
    drive(chooser, 0, 150)
    added, retired = chooser.add_arm("chat", like="mail"), chooser.retire_arm("call")
    assert (added.version, retired.version, added.asked) == (2, 2, 150)
    assert "chat" not in drive(chooser, 150, 200)
    assert chooser.arms == ("mail", "call")
    after = drive(chooser, 200, 500)
    assert chooser.arms == ("mail", "chat")
    assert "call" not in after
    assert after[250:].count("chat") > 40  # the best arm of the two
    assert [len(sums) for sums in inside.sums_of(chooser)] == [2, 2, 2, 2]


@pytest.mark.parametrize("lag", [0, 20])
def test_at_the_end_of_a_block_a_change_is_in_effect_with_its_release(lag):
    chooser = policy(lag=lag)
    batch(chooser, 0, 100)
    assert chooser.add_arm("chat").version == 1
    batch(chooser, 100, 101)  # begins the release
    assert chooser.retire_arm("call").version == 2
    batch(chooser, 101, 120)
    batch(chooser, 120, 130)
    assert chooser.arms == ("mail", "call", "chat")


def test_one_by_one_and_in_batches_decide_equally_across_a_change():
    one, many = policy(), policy()
    found = []
    for chooser in (one, many):
        if chooser is one:
            own = drive(one, 0, 120)
        else:
            own = []
            for start, stop in ((0, 100), (100, 120)):
                own += batch(many, start, stop)
        chooser.add_arm("chat")
        if chooser is one:
            own += drive(one, 120, 450)
        else:
            for start, stop in ((120, 200), (200, 300), (300, 400), (400, 450)):
                own += batch(many, start, stop)
        found.append(own)
    assert found[0] == found[1]
    assert "chat" in found[0]


def batch(chooser, start, stop):
    people = [context(number) for number in range(start, stop)]
    decided = chooser.ask_batch(people, users=list(range(start, stop)))
    worth = [WORTH[arm] for arm in decided.arms]
    coins = [np.random.default_rng([7, number]).random() for number in range(start, stop)]
    chooser.tell_batch(decided.ids, np.less(coins, worth).astype(float))
    return list(decided.arms)


def test_the_same_call_again_is_one_change_and_another_one_is_refused():
    chooser = policy()
    first = chooser.add_arm("chat", like="mail")
    drive(chooser, 0, 10)
    assert chooser.add_arm("chat", like="mail") == first
    assert chooser.retire_arm("call") == chooser.retire_arm("call")
    assert len(chooser.arm_changes) == 2
    with pytest.raises(ProtocolError, match="another like"):
        chooser.add_arm("chat", like="call")
    with pytest.raises(InvalidParameter, match="pass a new label"):
        chooser.add_arm("call")  # a label is never used again
    with pytest.raises(ProtocolError, match="last arm"):
        chooser.retire_arm("mail") and chooser.retire_arm("chat")


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda chooser: chooser.add_arm("chat", like="fax"), InvalidParameter, "like="),
        (lambda chooser: chooser.add_arm("chat", minimum=0.7), InvalidParameter, "minimum="),
        (lambda chooser: chooser.add_arm("chat", minimum=True), InvalidParameter, "minimum="),
        (lambda chooser: chooser.retire_arm("fax"), InvalidParameter, "no arm"),
    ],
)
def test_refused_changes_change_nothing(call, error, says):
    chooser = policy()
    with pytest.raises(error, match=says):
        call(chooser)
    assert not chooser.arm_changes


def test_new_arms_together_have_at_most_half_of_the_decisions():
    chooser = policy()
    chooser.add_arm("chat", minimum=0.3)
    with pytest.raises(InvalidParameter, match="together"):
        chooser.add_arm("fax", minimum=0.3)


def test_small_minimums_of_many_new_arms_are_added_up_as_they_are_given():
    """Each arm gets whole draws of 48, so 24 arms take half of the decisions however small the share is."""
    chooser = policy()
    for number in range(24):
        chooser.add_arm(f"arm-{number}", minimum=0.001)
    with pytest.raises(InvalidParameter, match="together"):
        chooser.add_arm("one more", minimum=0.001)


@pytest.mark.parametrize(
    "altered",
    [
        *({"version": 0}, {"asked": -1}, {"at": "now"}, {"event": "arm sold"}, {"what": "add"}),
        *({"minimum": 40.0}, {"minimum": "most"}, {"minimum": None}),
        *({"arm": "mail"}, {"like": "fax"}, {"arm": ["chat"]}),
        *({"ends": []}, {"ends": [0, 100]}, {"ends": [200, 200]}, {"ends": [1.5]}, {"ends": 300}),
    ],
)
def test_an_altered_change_is_no_history(altered):
    chooser = policy()
    event = chooser.add_arm("chat", like="mail").to_config()
    assert ArmHistory.of(("mail", "call"), [event]).changes == chooser.arm_changes
    with pytest.raises(CorruptState):
        ArmHistory.of(("mail", "call"), [event | altered])


def test_policies_without_tables_of_arms_refuse():
    for other in (
        policy(tuning=GPTuning(release="features")),
        policy(arms=None, actions=dpb.Range(0, 1, steps=5), tuning=None),
        GPBandit(domain=dpb.Box([0], [1]), reward_range=(0, 1), horizon=500, privacy=dpb.JointDP(1, 1e-6)),
    ):
        with pytest.raises(ProtocolError, match="build a new policy"):
            other.add_arm("chat")


def test_after_the_last_block_arms_do_not_change():
    chooser = policy()
    drive(chooser, 0, 301)
    assert chooser.retire_arm("call").version == 4
    with pytest.raises(ProtocolError, match="no release"):
        chooser.add_arm("chat")
    drive(chooser, 301, 401)
    with pytest.raises(ProtocolError, match="available="):
        chooser.retire_arm("mail")


def test_with_a_longest_block_an_arm_can_be_added_after_half_of_the_schedule():
    chooser = policy(horizon=2000, tuning=GPTuning(longest_block=100), privacy=dpb.JointDP(1.0, 1e-6))
    assert chooser.tuning.census
    assert np.diff((0, *chooser.blocks)).max() == 100
    asked_up_to(chooser, 1400)
    assert chooser.add_arm("chat").ends is None
    assert GPBandit.from_config(chooser.to_config()).blocks == chooser.blocks


def asked_up_to(chooser, rounds, start=0):
    """Ask and tell for users start .. rounds - 1 in batches between the boundaries."""
    ends = [end for end in chooser.batch_boundaries if start < end < rounds]
    for first, stop in zip([start, *ends], [*ends, rounds], strict=True):
        batch(chooser, first, stop)


def grown(rounds=1, **changes):
    """Return a policy with the default schedule, whose last blocks end after 785 and 1279 rounds."""
    changes = {"horizon": 2000, "tuning": GPTuning(census=False), "rounds": rounds} | changes
    chooser = policy(**changes)
    assert chooser.blocks == (180, 432, 785, 1279)
    return chooser


@pytest.mark.parametrize("asked", [500, 1200, 1279, 1280, 1400])
def test_a_late_addition_plans_later_blocks_anew_and_moves_no_asked_round(monkeypatch, asked):
    inside.noiseless(monkeypatch)
    chooser = grown()
    asked_up_to(chooser, asked)
    before = chooser.blocks
    change = chooser.add_arm("chat", like="call")
    kept = [end for end in before if end <= asked]
    assert chooser.blocks == (*kept, *change.ends)
    assert asked < change.ends[0] <= asked + 180
    assert set(np.diff(change.ends)) == {180}
    assert change.ends[-1] <= 1800
    assert chooser.batch_boundaries == chooser.blocks
    asked_up_to(chooser, 2000, start=asked)
    assert chooser.blocks_released == len(chooser.blocks)
    told = [int(one.sum()) for one in inside.counts_of(chooser)]
    assert told == (3 * np.diff((0, *chooser.blocks))).tolist()  # three tables of counts: each round is once
    assert [len(one) for one in inside.sums_of(chooser)][change.version :] == [3] * (
        len(chooser.blocks) - change.version
    )


def test_an_addition_with_two_later_releases_leaves_the_blocks_as_they_are():
    chooser = grown()
    asked_up_to(chooser, 179)
    assert chooser.add_arm("chat").ends is None
    assert chooser.blocks == (180, 432, 785, 1279)


def test_near_the_end_an_addition_is_refused():
    chooser = grown()
    asked_up_to(chooser, 1700)
    with pytest.raises(ProtocolError, match=r"GPTuning\(longest_block=100\)"):
        chooser.add_arm("chat")
    assert chooser.blocks == (180, 432, 785, 1279)


def test_noise_for_few_blocks_is_not_used_for_more_of_a_users_rounds():
    chooser = grown(rounds=5)
    asked_up_to(chooser, 1280)
    with pytest.raises(ProtocolError, match="no release"):
        chooser.add_arm("chat")


def test_blocks_that_a_change_planned_are_in_state_and_folder_and_change_no_noise(tmp_path):
    whole, part, live = grown(), grown(), grown()
    for chooser in (whole, part):
        asked_up_to(chooser, 1000)
        chooser.add_arm("chat", like="call", at=1.0)
        asked_up_to(chooser, 1600, start=1000)
    part.save(tmp_path / "policy")
    again = GPBandit.load(tmp_path / "policy")
    assert again.blocks == whole.blocks != grown().blocks
    assert again.to_config() == whole.to_config() == grown().to_config()
    for chooser in (whole, again):
        asked_up_to(chooser, 2000, start=1600)
    np.testing.assert_array_equal(again.released, whole.released)
    assert again.predict([context(1)])[0].tolist() == whole.predict([context(1)])[0].tolist()
    assert whole.guarantee.certificate == grown().guarantee.certificate
    with GPBandit.open(tmp_path / "folder", new=live) as chooser:
        asked_up_to(chooser, 1000)
        chooser.add_arm("chat", like="call", at=1.0)
        asked_up_to(chooser, 1100, start=1000)
    with GPBandit.open(tmp_path / "folder") as chooser:
        assert chooser.blocks == whole.blocks
        asked_up_to(chooser, 2000, start=1100)
        assert chooser.blocks_released == len(whole.blocks)


@pytest.mark.parametrize("kind", ["actions", "products"])
def test_a_longest_block_holds_for_actions_and_products(kind):
    contexts = dpb.Schema(age=dpb.Range(0, 1))
    shop = {"name": ["a", "b", "c"], "price": [1, 2, 3]}
    choices = {
        "actions": {"actions": dpb.Range(1, 20)},
        "products": {"arms": dpb.Products(shop, columns=dpb.Schema(price=dpb.Range(1, 3)))},
    }

    def blocks(**tuning):
        return dpb.central.GPBandit(
            contexts=contexts, **choices[kind], reward_range=(0, 1), horizon=20_000,
            privacy=dpb.JointDP(1, 1e-6), tuning=GPTuning(**tuning),
        ).blocks  # fmt: skip

    assert np.diff((0, *blocks())).max() > 1_000
    assert np.diff((0, *blocks(longest_block=1_000))).max() <= 1_000


def test_a_longest_block_is_instead_of_blocks():
    with pytest.raises(InvalidParameter, match="instead of blocks"):
        GPTuning(longest_block=100, blocks=[100, 200])


def test_a_reward_of_a_retired_arm_counts_in_the_block_of_its_ask(monkeypatch):
    inside.noiseless(monkeypatch)
    late, never = policy(), policy()
    for chooser in (late, never):
        chooser.add_arm("chat")
        drive(chooser, 0, 190)
        open_round = chooser.ask(context(190), user=190, available=["call"])
        chooser.retire_arm("call")
        assert chooser.ask(context(191), user=191, available=["call"]).arm == "call"  # still this block
        if chooser is late:
            assert chooser.tell(open_round.id, 1.0).value == "counted"
        drive(chooser, 192, 201)
        assert chooser.arms == ("mail", "chat")
    both = zip(inside.sums_of(late), inside.sums_of(never), strict=True)
    codes = [np.abs(one - other).sum(axis=1) for one, other in both]
    assert codes[0].sum() == 0
    assert (codes[1] > 0).tolist() == [False, True, False]  # the row of "call" alone


def test_a_batch_past_a_boundary_keeps_its_arms_and_a_retired_one_enters_no_row(monkeypatch):
    inside.noiseless(monkeypatch)
    told, never = policy(), policy()
    for chooser in (told, never):
        drive(chooser, 0, 150)
        chooser.retire_arm("call")
        chooser.add_arm("chat")
        people = [context(number) for number in range(150, 250)]
        decided = chooser.ask_batch(people, users=range(150, 250), available=[["call"]] * 100)
        assert set(decided.arms) == {"call"}
        rewards = np.full(100, np.nan)
        rewards[:50] = 1.0
        rewards[50:] = 1.0 if chooser is told else np.nan
        chooser.tell_batch(decided.ids, rewards)
        drive(chooser, 250, 301)
    for one, other in zip(inside.sums_of(told), inside.sums_of(never), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("public_code", [0, 1])
def test_an_unreadable_context_in_a_batch_changes_nobody_elses_answer_after_a_retirement(public_code):
    people = dpb.Schema(age=dpb.Range(18, 90))  # the public point of this domain has the second arm
    chosen = []
    for bad in (False, True):
        chooser = policy(contexts=people if public_code else PEOPLE)
        assert chooser.public_point[-1] == public_code
        drive_ages(chooser, 0, 60)
        chooser.retire_arm("mail")
        drive_ages(chooser, 60, 120)
        ages = [20.0, None if bad else 30.0, 40.0]
        batch = chooser.ask_batch({"age": ages, "region": ["west"] * 3}, users=[200, 201, 202])
        assert batch.refused.tolist() == [False, bad, False]
        chosen.append([batch.arms[i] for i in (0, 2)])
        for start, stop in ((203, 290), (290, 300)):  # the block with the refused round is released
            drive_ages(chooser, start, stop)
        assert chooser.blocks_released == 2
    assert chosen[0] == chosen[1] == ["call", "call"]


def drive_ages(chooser, start, stop):
    ages = np.random.default_rng(start).uniform(18, 90, stop - start)
    people = {"age": ages, "region": ["north"] * len(ages)}
    decided = chooser.ask_batch(people, users=list(range(start, stop)))
    chooser.tell_batch(decided.ids, (ages > 50).astype(float))


def test_available_takes_announced_and_retired_labels():
    chooser = policy()
    drive(chooser, 0, 50)
    chooser.add_arm("chat")
    chooser.retire_arm("call")
    assert chooser.ask(context(50), user=50, available=["chat", "mail"]).arm == "mail"
    with pytest.raises(InvalidData):
        chooser.ask(context(51), user=51, available=["chat"])
    drive(chooser, 52, 101)
    assert chooser.ask(context(101), user=101, available=["chat", "call"]).arm == "chat"
    with pytest.raises(InvalidData):
        chooser.ask(context(102), user=102, available=["mail", "letter"])


def test_a_new_arm_gets_its_minimum_until_two_releases_hold_it_and_a_bad_one_little_after():
    chooser = policy(
        horizon=5000, tuning=GPTuning(release="marginals", census=False, blocks=(1000, 2000, 3000, 4000))
    )
    drive(chooser, 0, 10)
    chooser.add_arm("fax", minimum=0.2)
    batch(chooser, 10, 1000)
    shares = [np.mean(np.array(batch(chooser, low, low + 1000)) == "fax") for low in (1000, 2000, 3000, 4000)]
    assert shares[0] > 0.15
    assert shares[1] > 0.15
    assert max(shares[2:]) < 0.1


def test_the_arm_that_a_new_one_is_like_decides_its_first_predictions(monkeypatch):
    monkeypatch.setitem(WORTH, "mail", 0.9)
    monkeypatch.setitem(WORTH, "call", 0.1)
    chooser = policy()
    drive(chooser, 0, 250)
    chooser.add_arm("chat", like="mail")
    chooser.add_arm("letter", like="call")
    drive(chooser, 250, 300)
    chooser.ask(context(300), user=300)
    mean, sd = chooser.predict([context(1)])
    by_arm = dict(zip(chooser.arms, mean[0], strict=True))
    assert abs(by_arm["chat"] - by_arm["mail"]) < abs(by_arm["letter"] - by_arm["mail"])
    assert sd[0, 2] > sd[0, 0]


@pytest.mark.parametrize("like", ["mail", None])
def test_a_new_arm_starts_between_the_average_of_arms_and_the_arm_that_it_is_like(like):
    chooser = policy()
    drive(chooser, 0, 250)
    chooser.add_arm("chat", like=like)
    drive(chooser, 250, 301)
    (mean,), _ = chooser.predict([context(1)])
    *old, new = mean
    average = np.mean(old)
    assert new == pytest.approx(average + (0.0 if like is None else LIKENESS * (old[0] - average)), abs=1e-9)
    assert LIKENESS < 1.0


@pytest.mark.parametrize("like", ["mail", None])
def test_where_rewards_are_low_a_bad_new_arm_gets_little_more_than_its_minimum(monkeypatch, like):
    for arm, worth in (("mail", 0.05), ("call", 0.04), ("fax", 0.0)):
        monkeypatch.setitem(WORTH, arm, worth)
    chooser = policy(
        horizon=5000, tuning=GPTuning(release="marginals", census=False, blocks=(1000, 2000, 3000, 4000))
    )
    batch(chooser, 0, 10)
    chooser.add_arm("fax", like=like)
    batch(chooser, 10, 1000)
    shares = [np.mean(np.array(batch(chooser, low, low + 1000)) == "fax") for low in (1000, 2000, 3000, 4000)]
    assert shares[0] < 0.5  # a third if it were as good as the others
    assert max(shares[2:]) < 0.02


@pytest.mark.parametrize("lag", [0, 20])
def test_a_saved_policy_goes_on_as_one_that_was_not_interrupted(tmp_path, lag):
    whole, path = policy(lag=lag), tmp_path / "policy"
    first = policy(lag=lag)
    for chooser in (whole, first):
        drive(chooser, 0, 150)
        chooser.add_arm("chat", like="mail", at=1.0)
        chooser.retire_arm("call", at=2.0)
        drive(chooser, 150, 260)
    first.save(path)
    again = GPBandit.load(path)
    assert again.arms == whole.arms
    assert again.arm_changes == whole.arm_changes
    assert drive(again, 260, 460) == drive(whole, 260, 460)
    np.testing.assert_array_equal(again.released, whole.released)
    assert again.to_config() == whole.to_config() == policy(lag=lag).to_config()


def test_with_a_lag_a_block_has_tables_for_both_versions(monkeypatch):
    inside.noiseless(monkeypatch)
    chooser = policy(lag=20)
    drive(chooser, 0, 150)
    chooser.add_arm("chat")
    chooser.retire_arm("call")
    arms = drive(chooser, 150, 450)
    assert "call" not in arms[70:]
    assert "chat" not in arms[:70]
    assert [len(sums) for sums in inside.sums_of(chooser)] == [2, 2, 3, 2]


def test_a_change_is_in_the_folder_before_the_call_returns(tmp_path):
    with GPBandit.open(tmp_path / "folder", new=policy()) as chooser:
        drive(chooser, 0, 150)
        change = chooser.add_arm("chat", like="mail")
    with GPBandit.open(tmp_path / "folder") as chooser:
        assert chooser.arm_changes == (change,)
        assert chooser.add_arm("chat", like="mail") == change
        drive(chooser, 150, 250)
        assert chooser.arms == ("mail", "call", "chat")
    with GPBandit.open(tmp_path / "folder", new=policy()) as chooser:
        assert chooser.arm_changes == (change,)
        assert chooser.arms == ("mail", "call", "chat")


def test_a_change_that_cannot_be_stored_is_no_change(tmp_path, monkeypatch):
    chooser = policy()
    chooser.save(tmp_path / "policy")

    def full(*_):
        raise OSError("disk full")

    with monkeypatch.context() as patched:
        patched.setattr("dpbandits.state.store.StateStore.commit", full)
        with pytest.raises(OSError, match="full"):
            chooser.add_arm("chat")
    assert not chooser.arm_changes
    assert chooser.add_arm("chat").version == 1
    assert GPBandit.load(tmp_path / "policy").arm_changes == chooser.arm_changes


def test_a_published_policy_has_the_arms_that_are_offered():
    chooser = policy()
    drive(chooser, 0, 150)
    chooser.add_arm("chat", like="mail")
    chooser.retire_arm("call")
    drive(chooser, 150, 350)
    function = dpb.central.PublishedPosterior.from_json(chooser.publish().to_json())
    assert function.arms == ("mail", "chat") == chooser.arms
    assert function.recommend(context(1)) == chooser.recommend(context(1))
    np.testing.assert_allclose(function.predict([context(2)])[0], chooser.predict([context(2)])[0])


def test_the_statement_says_that_changes_rest_on_no_private_data():
    chooser = policy()
    before = chooser.guarantee
    chooser.add_arm("chat")
    after = chooser.guarantee
    assert {one.name for one in after.assumptions} - {one.name for one in before.assumptions} == {
        "changes of arms"
    }
    assert after.certificate == before.certificate
    said = "Which arms are added and retired, how and when, does not depend on private data"
    assert said in " ".join(after.explain().split())


def test_public_data_comes_before_changes():
    chooser = policy()
    chooser.add_arm("chat")
    with pytest.raises(ProtocolError, match="before arms"):
        chooser.warm_start([context(0)], np.array([1.0]), arms=["mail"])


def test_another_thread_never_reads_old_arms_with_new_predictions(monkeypatch):
    chooser, real, asked = policy(), Menu.offering, []
    monkeypatch.setitem(WORTH, "call", 0.05)
    drive(chooser, 0, 150)
    chooser.add_arm("chat", like="mail")
    chooser.retire_arm("mail")
    drive(chooser, 150, 200)

    def meanwhile(menu, *given):  # the new posterior is there, and the arms are about to change
        if not asked:
            calls = (chooser.predict, [context(1)]), (chooser.recommend, context(1)), (chooser.diagnostics,)
            asked.extend(pool.submit(*call) for call in calls)
            wait(asked, timeout=0.3)
        return real(menu, *given)

    with ThreadPoolExecutor(3) as pool:
        monkeypatch.setattr(Menu, "offering", meanwhile)
        drive(chooser, 200, 201)
        (mean, _), best, told = (one.result() for one in asked)
    assert chooser.arms == ("call", "chat")
    np.testing.assert_array_equal(mean, chooser.predict([context(1)])[0])
    assert best == chooser.recommend(context(1)) == "chat"
    assert told["predictions"] == chooser.diagnostics()["predictions"]
