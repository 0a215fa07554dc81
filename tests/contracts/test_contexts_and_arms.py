"""People with contexts and arms: every policy answers them as it answers the same people's candidate rows.

That is the contract from which all others follow: what a person brings is turned into a decision set, and
from there on it is asked, told, released and saved as every decision set is. What is of the door itself (the
forms a context comes in, labels, and what becomes of a context that cannot be read) is tested here.
"""

import json
from collections import namedtuple
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.central import (
    ExploreThenCommit,
    GPBandit,
    GPTuning,
    PublishedFunction,
)
from dpbandits.errors import ContributionExceeded, DPBanditsError, InvalidData, InvalidParameter
from dpbandits.lab.baselines import (
    ArmEpisodes,
    BlockAggregation,
    CellHistogram,
    ConstantArm,
    CrudeTuning,
    ExactGPUCB,
    FeatureGPUCB,
    PrivateRidge,
    Uniform,
)
from dpbandits.models.features.people import arm_kernel
from dpbandits.models.measures import CellMeasure
from dpbandits.policy import Receipt
from dpbandits.privacy import JointDP, SimulatedNoise
from internals import logged as rows_inside
from internals import policy as internals
from tuning import built

PEOPLE = dpb.Schema(
    age=dpb.Range(18, 90),
    region=dpb.Categories(["north", "south", "west"]),
    income=dpb.Range(0, 1e5, clip=True),
    member=dpb.Categories([False, True]),
)
ARMS = ["mail", "call", 3, 2.5]
HORIZON = 64
BLOCKS = (8, 20, 40)


def gp(**changes):
    tuning = GPTuning(n_features=5, blocks=BLOCKS)
    shared = {"privacy": JointDP(epsilon=4.0, delta=1e-6), "noise": SimulatedNoise(3), "tuning": tuning}
    return GPBandit(
        **{"contexts": PEOPLE, "arms": ARMS, "reward_range": (0, 1), "horizon": HORIZON, "seed": 11}
        | shared
        | changes
    )


def crude(policy_class, **changes):
    shared = {
        "privacy": JointDP(epsilon=4.0, delta=1e-6),
        "noise": SimulatedNoise(3),
        "tuning": CrudeTuning(blocks=BLOCKS),
    }
    own = {"contexts": PEOPLE, "arms": ARMS, "reward_range": (0, 1), "horizon": HORIZON, "seed": 11}
    return policy_class(**(own | shared | changes))


def baseline(policy_class, **changes):
    own = {
        "contexts": PEOPLE,
        "arms": ARMS,
        "reward_range": (0, 1),
        "horizon": HORIZON,
        "seed": 11,
    }
    return policy_class(**(own | changes))


MAKERS = {
    "GPBandit": gp,
    "GPBandit of marginals": lambda **changes: gp(
        **({"tuning": GPTuning(release="marginals", blocks=BLOCKS)} | changes)
    ),
    "PrivateRidge": partial(crude, PrivateRidge),
    "CellHistogram": partial(crude, CellHistogram, most_cells=32),
    "BlockAggregation": lambda **changes: baseline(
        BlockAggregation,
        **{
            "privacy": JointDP(epsilon=4.0, delta=1e-6),
            "noise": SimulatedNoise(3),
            "tuning": GPTuning(n_features=5, blocks=BLOCKS),
        }
        | changes,
    ),
    "ArmEpisodes": lambda **changes: baseline(
        ArmEpisodes, **{"privacy": JointDP(epsilon=4.0, delta=1e-6), "noise": SimulatedNoise(3)} | changes
    ),
    "Uniform": partial(baseline, Uniform),
    "ConstantArm": partial(baseline, ConstantArm, arm=3),
    "FeatureGPUCB": partial(baseline, FeatureGPUCB),
    "ExactGPUCB": partial(baseline, ExactGPUCB),
}
every_policy = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
PRODUCTS = dpb.Products({"name": ARMS[:2], "cost": [1.0, 4.0]}, columns=dpb.Schema(cost=dpb.Range(0, 5)))


def changing(**changes):
    """A policy with a new arm from the first release on."""
    policy = gp(**({"tuning": GPTuning(release="marginals", blocks=BLOCKS)} | changes))
    policy.add_arm("chat", like="call")
    return policy


def changing_products(**changes):
    """A policy with a new product from the first release on."""
    policy = gp(**({"arms": PRODUCTS, "tuning": GPTuning(release="marginals", blocks=BLOCKS)} | changes))
    policy.add_arm("chat", features={"cost": 2.0})
    return policy


def read(**changes):
    """A policy with a readout, whose users have the same groups each time."""
    policy = gp(**({"readout": dpb.Readout(control=dpb.Control(arm="call"))} | changes))
    internals.give_salt(policy, bytes(16))
    return policy


NUMBERS_TOO = MAKERS | {
    "GPBandit of products": lambda **changes: gp(
        **({"arms": PRODUCTS, "tuning": GPTuning(release="marginals", blocks=BLOCKS)} | changes)
    ),
    "GPBandit with a readout": read,
    "GPBandit of arms that change": changing,
    "GPBandit of products that change": changing_products,
    "GPBandit of actions": lambda **changes: gp(
        **(
            {
                "arms": None,
                "actions": dpb.Range(1, 9, steps=5),
                "tuning": GPTuning(release="marginals", blocks=BLOCKS),
            }
            | changes
        )
    ),
}
numbers_too = pytest.mark.parametrize("make", NUMBERS_TOO.values(), ids=NUMBERS_TOO)
"""The policies, and those of numbers, products and changing arms: for contracts that name no arm."""


def rows_instead(policy, make):
    """The same policy over candidate rows of the same domain."""
    own = {"contexts": None, "arms": None, "domain": policy.domain}
    if isinstance(policy, ConstantArm):
        own["arm"] = policy.menu.arms.code(policy.arm)
    if isinstance(policy, ExactGPUCB):
        own["kernel"] = arm_kernel(policy.domain)
    elif isinstance(policy, GPBandit):
        own["tuning"] = policy.tuning
    elif getattr(policy, "features", None) is not None:
        own["features"] = policy.features
    return make(**own)


def person(t):
    rng = np.random.default_rng(t)
    regions = ("north", "south", "west")
    return {
        "age": int(rng.integers(18, 91)),
        "region": regions[rng.integers(3)],
        "income": float(rng.uniform(0, 1.2e5)),
        "member": bool(rng.integers(2)),
    }


def table(count):
    people = [person(t) for t in range(count)]
    return {name: [one[name] for one in people] for name in PEOPLE.names}


def candidates(t):
    """What an app without contexts and arms would bring: the encoded context beside every arm's code."""
    context = PEOPLE.encode({name: [value] for name, value in person(t).items()})[0]
    return np.array([[*context, code] for code in range(len(ARMS))])


def reward(t):
    return bool(np.random.default_rng(1000 + t).integers(2))


def user(t):
    return f"user-{t}"


@every_policy
def test_contexts_and_arms_are_answered_as_the_same_candidate_rows(make, tmp_path):
    policy = make()
    rows = rows_instead(policy, make)
    for t in range(30):
        decision, other = policy.ask(person(t), user=user(t)), rows.ask(candidates(t), user=user(t))
        assert decision.index == other.index
        assert decision.propensity == other.propensity
        np.testing.assert_array_equal(decision.action, other.action)
        assert decision.arm == ARMS[decision.index]
        assert type(decision.arm) is type(ARMS[decision.index])
        assert other.arm is None
        assert policy.tell(decision.id, reward(t)) is rows.tell(other.id, float(reward(t))) is Receipt.COUNTED
    assert internals.raw_rounds(policy)[0] == internals.raw_rounds(rows)[0]
    sets = np.stack([candidates(t) for t in range(40, 50)])
    mean, sd = policy.predict([person(t) for t in range(40, 50)])
    flat_mean, flat_sd = rows.predict(sets.reshape(-1, 5))
    np.testing.assert_allclose(mean, flat_mean.reshape(10, 4), rtol=1e-12)
    np.testing.assert_allclose(sd, flat_sd.reshape(10, 4), rtol=1e-12)
    chosen = policy.recommend(person(40))
    assert chosen == ARMS[rows.recommend(candidates(40))]
    policy.save(tmp_path / "state")
    rest = [person(t) for t in range(40, 50)]
    loaded = type(policy).load(tmp_path / "state")
    batch = loaded.ask_batch(rest, users=[user(t) for t in range(40, 50)])
    other = rows.ask_batch(sets, users=[user(t) for t in range(40, 50)])
    assert batch.indices.tolist() == other.indices.tolist()
    assert batch.arms == tuple(ARMS[index] for index in other.indices)
    assert [decision.arm for decision in batch] == list(batch.arms)


@every_policy
def test_decision_sets_are_still_taken(make):
    policy, same = make(), make()
    sets = np.stack([candidates(t) for t in range(6)])
    batch = policy.ask_batch(sets, users=[user(t) for t in range(6)])
    assert batch.arms == same.ask_batch(table(6), users=[user(t) for t in range(6)]).arms
    if isinstance(policy, ConstantArm):
        return
    assert policy.ask(sets[0][2:3], user="x").arm == ARMS[2]  # one row alone, of the third arm


@every_policy
def test_a_configuration_holds_contexts_and_arms(make):
    policy = make()
    config = json.loads(json.dumps(policy.to_config()))
    assert "domain" not in config
    again = type(policy).from_config(config)
    assert again.to_config() == policy.to_config()
    assert again.contexts == PEOPLE
    assert again.arms == tuple(ARMS)
    assert again.ask(person(0), user="u").arm == policy.ask(person(0), user="u").arm
    of_rows = rows_instead(policy, make).to_config()
    assert "contexts" not in of_rows
    assert "arms" not in of_rows


@every_policy
def test_public_data_is_learned_from_by_label(make):
    policy = make()
    people, arms, rewards = (
        [person(t) for t in range(20)],
        [ARMS[t % 4] for t in range(20)],
        np.arange(20) / 20,
    )
    if isinstance(policy, Uniform | ConstantArm):
        with pytest.raises(DPBanditsError):
            policy.warm_start(people, rewards, arms=arms)
        return
    rows = rows_instead(policy, make)
    policy.warm_start(people, rewards, arms=arms)
    rows.warm_start(np.stack([candidates(t)[t % 4] for t in range(20)]), rewards)
    flat = np.concatenate([candidates(t) for t in range(3)])
    np.testing.assert_allclose(policy.predict(people[:3])[0].ravel(), rows.predict(flat)[0], rtol=1e-12)
    for wrong in (arms[:-1], [*arms[:-1], "fax"]):
        with pytest.raises(InvalidData):
            make().warm_start(people, rewards, arms=wrong)


# -- the forms that a context comes in ------------------------------------------------------------------


@dataclass
class Visitor:
    age: int
    region: str
    income: float
    member: bool
    name: str = "somebody"


Row = namedtuple("Row", ["income", "member", "age", "region", "name"])


class Keyed:
    """As a row of a database, or of pandas."""

    def __init__(self, values):
        self._values = values

    def keys(self):
        return list(self._values)

    def __getitem__(self, name):
        return self._values[name]


def forms(one):
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    ordered = [one[name] for name in PEOPLE.names]
    more = {"name": "somebody", **one}
    columns = {name: [value] for name, value in more.items()}
    return {
        "dict": one,
        "more": more,
        "numpy": {name: np.array([value])[0] for name, value in one.items()},
        "dataclass": Visitor(**one),
        "named tuple": Row(**more),
        "keys": Keyed(one),
        "tuple": tuple(ordered),
        "list": ordered,
        "array": np.array(ordered, dtype=object),
        "pandas frame": pandas.DataFrame(columns),
        "pandas row": pandas.DataFrame(columns).iloc[0],
        "pandas tuple": next(pandas.DataFrame(columns).itertuples()),
        "polars frame": polars.DataFrame(columns),
        "polars row": polars.DataFrame(columns).row(0, named=True),
    }


@pytest.mark.parametrize("form", forms(person(0)))
def test_a_context_is_the_same_in_every_form(form):
    asked = []
    for t in range(12):
        policy = gp()
        given = forms(person(t))[form]
        asked.append(policy.ask(given, user="u").action.tolist())
        assert policy.predict(given)[0].shape == (1, 4)
        assert policy.recommend(given) in ARMS
    for t, action in enumerate(asked):
        assert action[:-1] == candidates(t)[0, :-1].tolist()


def test_a_table_is_the_same_in_every_form():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    pyarrow = pytest.importorskip("pyarrow")
    columns = table(9)
    people = [person(t) for t in range(9)]
    ordered = np.array([[one[name] for name in PEOPLE.names] for one in people], dtype=object)
    expected = gp().ask_batch(np.stack([candidates(t) for t in range(9)]), users=range(9))
    frame = pandas.DataFrame(columns, index=[5, 5, 4, 4, 3, 3, 2, 2, 1])
    for given in (
        columns,
        people,
        [Visitor(**one) for one in people],
        [*people[:4], *(tuple(one.values()) for one in people[4:])],
        ordered,
        frame,
        polars.DataFrame(columns),
        pyarrow.table(columns),
    ):
        batch = gp().ask_batch(given, users=range(9))
        np.testing.assert_array_equal(batch.actions, expected.actions)
        assert gp().predict(given)[0].shape == (9, 4)


def test_numbers_alone_may_come_as_one_array():
    schema = dpb.Schema(a=dpb.Range(0, 10), b=dpb.Range(-1, 1))
    policy = gp(contexts=schema)
    batch = policy.ask_batch(np.array([[5.0, 0.0], [10.0, -1.0]]), users=["a", "b"])
    assert batch.actions[:, :-1].tolist() == [[0.5, 0.5], [1.0, 0.0]]


# -- what cannot be read --------------------------------------------------------------------------------

CANARY = 48.71594


class Trap:
    """Fails in a way of its own wherever it is looked into."""

    def __repr__(self):
        return "Trap()"  # names of tests have no addresses in them

    def keys(self):
        raise RuntimeError(str(CANARY))

    def __getitem__(self, name):
        raise RuntimeError(str(CANARY))

    def __len__(self):
        raise RuntimeError(str(CANARY))


class TrapNumber(float):
    def __float__(self):
        raise RuntimeError(str(CANARY))

    __le__ = __ge__ = __sub__ = __float__


class TrapText(str):
    __slots__ = ()

    def __hash__(self):
        raise RuntimeError(str(CANARY))


class TrapKey:
    """Stands where a column's name is looked for, and fails when it is compared."""

    def __hash__(self):
        return hash("age")

    def __eq__(self, other):
        raise RuntimeError(str(CANARY))


class TrapSequence(Sequence):
    def __len__(self):
        raise RuntimeError(str(CANARY))

    __getitem__ = TrapText.__hash__


def without(name):
    return {key: value for key, value in person(1).items() if key != name}


BAD = {
    "missing key": without("region"),
    "no key": {},
    "nan": person(1) | {"age": float("nan")},
    "none": person(1) | {"age": None},
    "infinite": person(1) | {"age": float("inf")},
    "outside": person(1) | {"age": CANARY + 100},
    "negative": person(1) | {"age": -CANARY},
    "text": person(1) | {"age": f"{CANARY} years"},
    "huge": person(1) | {"age": 10**400},
    "complex": person(1) | {"age": 44 + 1j},
    "list": person(1) | {"age": [CANARY]},
    "object": person(1) | {"age": Trap()},
    "trap": person(1) | {"age": TrapNumber(44.0)},
    "trap text": person(1) | {"region": TrapText(f"north {CANARY}")},
    "category": person(1) | {"region": f"east {CANARY}"},
    "unhashable": person(1) | {"region": [CANARY]},
    "bool for text": person(1) | {"region": True},
    "nothing": None,
    "number": CANARY,
    "word": f"north {CANARY}",
    "bytes": b"north",
    "short": [44, "north"],
    "long": [44, "north", 1.0, True, CANARY],
    "trap object": Trap(),
    "trap key": {TrapKey(): 44.0} | without("age"),
    "trap sequence": TrapSequence(),
    "set": {44, "north"},
    "generator": (one for one in ()),
}


@numbers_too
@pytest.mark.parametrize("bad", BAD)
def test_a_context_that_cannot_be_read_takes_its_round_and_counts_nothing(make, bad, caplog):
    policy, whole = make(), make()
    for t in range(3):
        for one in (policy, whole):
            one.tell(one.ask(person(t), user=user(t)).id, reward(t))
    with pytest.raises(InvalidData, match="the round is taken") as refused:
        policy.ask(BAD[bad], user="u")
    error = refused.value
    while error is not None:  # what is said, causes included, holds nothing of the person
        assert "48.7" not in str(error) + repr(error.args)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    assert "48.7" not in caplog.text
    assert policy.diagnostics()["rounds_asked"] == 4
    assert policy.pending == ()
    if policy.privacy is not None:
        with pytest.raises(ContributionExceeded):
            policy.ask(person(5), user="u")
    decision = whole.ask(person(1), user="u")
    whole.abandon(decision.id)
    # nobody else is moved: the next person is answered as after anybody else
    assert policy.ask(person(9), user="v").arm == whole.ask(person(9), user="v").arm


@numbers_too
def test_one_who_cannot_be_read_is_refused_and_the_others_are_answered_as_without(make):
    good = [person(t) for t in range(len(BAD) + 5)]
    spoilt = list(good)
    places = range(2, 2 + len(BAD))
    for place, one in zip(places, BAD.values(), strict=True):
        spoilt[place] = one
    users = [user(t) for t in range(len(good))]
    whole, batch = make().ask_batch(good, users=users), (policy := make()).ask_batch(spoilt, users=users)
    assert np.flatnonzero(batch.refused).tolist() == list(places)
    assert all(batch.arms[place] is None for place in places)
    kept = [t for t in range(len(good)) if t not in places]
    assert [batch.arms[t] for t in kept] == [whole.arms[t] for t in kept]
    receipts = policy.tell_batch(batch.ids, [True] * len(good))
    assert [receipt is Receipt.REFUSED for receipt in receipts] == batch.refused.tolist()
    mean, spread = make().predict(spoilt)
    assert np.flatnonzero(np.isnan(mean).all(axis=1) & np.isnan(spread).all(axis=1)).tolist() == list(places)
    np.testing.assert_array_equal(mean[kept], make().predict(good)[0][kept])
    with pytest.raises(InvalidData) as refused:
        make().predict([spoilt[place] for place in places])
    assert "48.7" not in str(refused.value)


@pytest.mark.parametrize("library", ["pandas", "polars", "columns"])
def test_a_cell_of_a_table_that_cannot_be_read_is_its_own_row_s_alone(library):
    columns = table(8)
    columns["age"][2], columns["region"][5], columns["income"][6] = None, "east", None
    given = columns if library == "columns" else pytest.importorskip(library).DataFrame(columns)
    whole = gp().ask_batch(table(8), users=range(8))
    batch = gp().ask_batch(given, users=range(8))
    assert np.flatnonzero(batch.refused).tolist() == [2, 5, 6]
    kept = [0, 1, 3, 4, 7]
    assert [batch.arms[t] for t in kept] == [whole.arms[t] for t in kept]


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("age", [None, f"{CANARY} years", True, [CANARY], {"a": CANARY, "b": 1}])
def test_what_one_person_s_frame_says_takes_its_round_whatever_type_its_columns_get(library, age):
    frame = pytest.importorskip(library).DataFrame(
        {name: [age if name == "age" else value] for name, value in person(1).items()}
    )
    policy = gp()
    with pytest.raises(InvalidData, match="the round is taken") as refused:
        policy.ask(frame, user="u")
    assert "48.7" not in str(refused.value)
    assert policy.diagnostics()["rounds_asked"] == 1


def wrongly_sent():
    pandas = pytest.importorskip("pandas")
    one, several = person(0), table(3)
    return {
        "several people": ("ask", pandas.DataFrame(several)),
        "nobody in a frame": ("ask", pandas.DataFrame(several).iloc[:0]),
        "three axes": ("ask_batch", np.zeros((2, 3, 4))),
        "one axis": ("ask_batch", np.zeros(4)),
        "other columns": ("ask_batch", np.zeros((2, 3))),
        "one person": ("ask_batch", one),
        "a column less": ("ask_batch", {name: several[name] for name in PEOPLE.names[1:]}),
        "a frame's column less": ("ask_batch", pandas.DataFrame(several).drop(columns="age")),
        "columns of different length": ("ask_batch", several | {"age": [44]}),
        "a column that is no list": ("ask_batch", several | {"age": "44 years"}),
        "no column": ("ask_batch", several | {"region": None}),
        "a lazy frame": ("ask", pytest.importorskip("polars").LazyFrame(several)),
        "nobody": ("ask_batch", []),
        "a number": ("ask_batch", 7),
        "a text": ("ask_batch", "everybody"),
    }


@pytest.mark.parametrize("wrong", wrongly_sent())
def test_what_was_sent_wrongly_is_refused_and_changes_nothing(wrong):
    policy = gp()
    before = internals.fingerprint(policy)
    call, given = wrongly_sent()[wrong]
    users = {"user": "u"} if call == "ask" else {"users": ["a", "b", "c"]}
    with pytest.raises(InvalidData) as refused:
        getattr(policy, call)(given, **users)
    assert "the round is taken" not in str(refused.value)
    assert internals.fingerprint(policy) == before


# -- which arms are to be had -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(MAKERS.keys() - {"ConstantArm"}))
def test_only_what_is_available_is_given(name):
    make = MAKERS[name]
    policy = make()
    for t in range(20):
        labels = [ARMS[t % 4], ARMS[(t + 1) % 4]]
        decision = policy.ask(person(t), user=user(t), available=labels)
        assert decision.arm in labels
        policy.tell(decision.id, reward(t))
    lists = [[ARMS[t % 4]] for t in range(20, 40)]
    mask = np.array([[arm in labels for arm in ARMS] for labels in lists])
    for available in (lists, mask):
        batch = make().ask_batch(
            [person(t) for t in range(20, 40)], users=[user(t) for t in range(20, 40)], available=available
        )
        assert [[arm] for arm in batch.arms] == lists


@pytest.mark.parametrize(
    "available", [[], ["fax"], ["mail", "fax"], "mail", 5, [["mail"]], [Trap()], Trap()], ids=repr
)
def test_nothing_that_is_available_takes_the_round(available):
    policy = gp()
    with pytest.raises(InvalidData, match=r"available.*the round is taken"):
        policy.ask(person(0), user="u", available=available)
    batch = policy.ask_batch([person(1), person(2)], users=["a", "b"], available=[available, ["call"]])
    assert batch.refused.tolist() == [True, False]
    assert batch.arms == (None, "call")
    before = internals.fingerprint(policy)
    for wrong in (np.ones((2, 3), dtype=bool), np.ones((2, 4)), [["mail"]], "mail"):
        with pytest.raises(InvalidData):
            policy.ask_batch([person(3), person(4)], users=["c", "d"], available=wrong)
    assert internals.fingerprint(policy) == before


@pytest.mark.parametrize("arms", [[0, 1], [True, False], [1, "none"], [0.0, 2.5]], ids=repr)
def test_booleans_that_could_be_marks_or_labels_are_refused_in_words(arms):
    policy = gp(arms=arms)
    with pytest.raises(InvalidData, match=r"could be marks or labels.*the round is taken"):
        policy.ask(person(0), user="u", available=[True, False])
    batch = policy.ask_batch([person(1)], users=["a"], available=[[np.True_, np.False_]])
    assert batch.refused.tolist() == [True]
    assert policy.ask(person(2), user="b", available=[arms[0]]).arm == arms[0]
    marks = np.array([[True, False]])
    assert policy.ask_batch([person(3)], users=["c"], available=marks).arms == (arms[0],)


def test_booleans_are_no_labels_of_arms_that_have_texts():
    with pytest.raises(InvalidData, match="expected a list of labels"):
        gp(arms=["mail", "call"]).ask(person(0), user="u", available=[True, False])


def test_what_was_published_recommends_what_is_available():
    policy = gp()
    for t in range(40):
        decision = policy.ask(person(t), user=user(t))
        policy.tell(decision.id, reward(t))
    policy.ask(person(0), user="last")
    published = policy.publish()
    people = [person(t) for t in range(6)]
    mean, _ = published.predict(people)
    offered = [[ARMS[t % 4], ARMS[(t + 1) % 4]] for t in range(6)]
    best = [max(labels, key=lambda label: mean[t, ARMS.index(label)]) for t, labels in enumerate(offered)]
    assert list(published.recommend_batch(people, available=offered)) == best
    assert published.recommend(people[2], available=offered[2]) == best[2]
    assert published.recommend_batch(people) == tuple(ARMS[k] for k in mean.argmax(axis=1))
    with pytest.raises(InvalidData, match="at least one label for every user"):
        published.recommend_batch(people, available=[["fax"]] * 6)


# -- building ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"contexts": None, "arms": None}, "pass contexts=Schema"),
        ({"arms": None}, "needs arms="),
        ({"contexts": None}, "needs contexts="),
        ({"domain": dpb.Box(low=[0], high=[1])}, "not both"),
        ({"contexts": dpb.Box(low=[0], high=[1])}, "expected a Schema"),
        ({"contexts": {"age": (18, 90)}}, "expected a Schema"),
        ({"arms": "mail"}, "expected a list"),
        ({"arms": 3}, "expected a list"),
        ({"arms": []}, "from 1 to"),
        ({"arms": [1, True]}, "the same value"),
        ({"arms": ["mail", None]}, "a label is a NoneType"),
        ({"kernel": dpb.kernels.Matern(nu=2.5, lengthscale=0.3)}, "codes of categories"),
        (
            {"kernel": 2.0 * dpb.kernels.SquaredExponential(lengthscale=0.3, columns=(0, 1))},
            "codes of categories",
        ),
    ],
)
@pytest.mark.parametrize("make", [gp, MAKERS["FeatureGPUCB"]], ids=["private", "baseline"])
def test_what_does_not_fit_is_refused_with_what_to_pass(make, given, says):
    with pytest.raises(InvalidParameter, match=says):
        make(**given)


def test_a_kernel_is_over_contexts_and_arms_share_nothing():
    kernel = dpb.kernels.SquaredExponential(lengthscale=0.5, columns=(0, 2)) * dpb.kernels.Indicator(
        correlation=0.3, columns=(1, 3)
    )
    policy = baseline(ExactGPUCB, kernel=kernel)
    policy.warm_start([person(0)] * 30, np.ones(30), arms=["call"] * 30)
    mean, sd = policy.predict([person(0)])
    assert mean[0, 1] > 0.9
    np.testing.assert_allclose(np.delete(mean[0], 1), 0.5)
    assert sd[0, 1] < 0.2 < sd[0, 0]


def test_a_constant_arm_is_named_by_its_label():
    assert baseline(ConstantArm, arm=2.5).ask(person(0), user="u").arm == 2.5
    with pytest.raises(InvalidParameter, match="one of the labels"):
        baseline(ConstantArm, arm=0)


# -- policies over cells ----------------------------------------------------------------------------------

OVER_CELLS = {
    "explore": {"publish_epsilon": 20.0, "answer_epsilon": 5.0, "privacy": JointDP(epsilon=40.0, delta=1e-6)},
}
quiet = pytest.mark.filterwarnings("ignore::dpbandits.central.NothingToLearn")


def over_cells(name, **changes):
    kind = {"explore": ExploreThenCommit}[name]
    shared = {"contexts": PEOPLE, "arms": ARMS, "reward_range": (0, 1), "horizon": HORIZON, "seed": 11}
    return built(kind, shared | OVER_CELLS[name] | {"noise": SimulatedNoise(3)} | changes)


def cells_instead(name, policy):
    own = {"contexts": policy.contexts, "arms": None, "actions": policy.actions, "kernel": policy.kernel}
    return over_cells(name, **own)


def encoded(count):
    return PEOPLE.encode(table(count))


@quiet
def test_logs_of_people_are_learned_from_as_the_same_cells(tmp_path):
    policy = over_cells("explore")
    cells = cells_instead("explore", policy)
    explored = policy.explore(0, 40)
    assert [ARMS.index(arm) for arm in explored] == np.rint(cells.explore(0, 40)).astype(int).tolist()
    users, rewards = [user(t) for t in range(40)], [reward(t) for t in range(40)]
    policy.learn(table(40), explored, rewards, users=users)
    cells.learn(encoded(40), cells.explore(0, 40), rewards, users=users)
    assert rows_inside.sums(policy).tolist() == rows_inside.sums(cells).tolist()
    answer, other = policy.answer(person(7)), cells.answer(encoded(8)[7])
    assert (answer.index, answer.arm) == (other.index, ARMS[other.index])
    assert other.arm is None
    published, of_cells = policy.publish(), cells.publish()
    published.save(tmp_path / "function")
    for function in (published, PublishedFunction.load(tmp_path / "function")):
        np.testing.assert_array_equal(function.predict(table(9))[0], of_cells.predict(encoded(9))[0])
        best = [ARMS[index] for index in of_cells.choose(encoded(9))]
        assert list(function.recommend_batch(table(9))) == best
        assert function.recommend(person(0)) == best[0]
    with pytest.raises(InvalidData, match="no arms"):
        of_cells.recommend_batch(encoded(9))


@quiet
def test_a_row_of_a_log_that_cannot_be_read_counts_nothing_and_spoils_no_other():
    people = [person(t) for t in range(len(BAD) + 4)]
    arms = [ARMS[t % 4] for t in range(len(people))]
    spoilt = [*BAD.values(), *people[len(BAD) :]]
    arms[-1] = "fax"
    arms[-2] = [1]
    rewards, users = [True] * len(people), [user(t) for t in range(len(people))]
    policy, good = over_cells("explore"), over_cells("explore")
    policy.learn(spoilt, arms, rewards, users=users)
    good.learn(people[len(BAD) : -2], arms[len(BAD) : -2], rewards[-4:-2], users=users[-4:-2])
    assert rows_inside.sums(policy).tolist() == rows_inside.sums(good).tolist()
    assert policy.unsafe_left_out == {"unreadable": len(BAD) + 2, "surplus": 0}
    left = policy.remaining_answers
    with pytest.raises(InvalidData, match=r"region.*the answer is taken"):
        policy.answer(without("region"))
    assert policy.remaining_answers == left - 1


@quiet
@pytest.mark.parametrize("name", OVER_CELLS)
def test_a_configuration_over_cells_holds_contexts_and_arms(name):
    policy = over_cells(name)
    config = json.loads(json.dumps(policy.to_config()))
    assert "actions" not in config
    again = type(policy).from_config(config)
    assert again.to_config() == policy.to_config()
    assert again.menu.contexts == PEOPLE
    assert again.arms == tuple(ARMS)
    assert "arms" not in cells_instead(name, policy).to_config()
    assert "taken as uniform" in policy.guarantee.annex().replace("\n", " ")


@quiet
@pytest.mark.parametrize("name", OVER_CELLS)
@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"arms": None}, "needs arms="),
        ({"actions": CellMeasure.finite([0.0, 1.0])}, "not both"),
        ({"contexts": CellMeasure.uniform(low=0, high=1, cells=3)}, "with contexts=Schema"),
        ({"contexts": None}, "with contexts=Schema"),
        ({"contexts": None, "arms": None}, "kernel is a NoneType"),
        ({"kernel": "matern"}, "kernel is a str"),
        (
            {"contexts": dpb.Schema(**{f"x{k}": dpb.Categories(range(9)) for k in range(6)})},
            "cells of 6 columns",
        ),
    ],
)
def test_what_does_not_fit_over_cells_is_refused(name, given, says):
    with pytest.raises(InvalidParameter, match=says):
        over_cells(name, **given)
