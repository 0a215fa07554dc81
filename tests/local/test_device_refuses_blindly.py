"""What a server sees of a device: the same for any two contexts and rewards, whatever it offers."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpbandits.budget import Account, MemoryLedger, SQLiteLedger
from dpbandits.domains import Box
from dpbandits.errors import (
    BudgetExceeded,
    CorruptState,
    DPBanditsError,
    IncompatibleState,
    InvalidData,
    InvalidParameter,
    ProtocolError,
)
from dpbandits.local import (
    Client,
    FileOutbox,
    MemoryOutbox,
    PublishedArms,
    PublishedQuestions,
    Server,
    SourceSpec,
    Spec,
)
from dpbandits.local.device import client as device
from dpbandits.models.features import MercerFeatures
from dpbandits.models.kernels import SquaredExponential
from dpbandits.privacy import JointDP, LocalDP
from dpbandits.tables import Range, Schema
from flat import gp_spec_with, spec_with
from internals.client import remembered

BOX = Box(low=[0.0, -5.0], high=[1.0, 5.0])
ACCOUNT = "local-reports"
# Every statistical test below rejects a correct device with probability under this.
FALSE_ALARM = 1e-7


class Trap:
    """An object that notes that it was read, and fails in a way of its own."""

    def __init__(self):
        self.read = 0

    def __array__(self, *_arguments, **_options):
        self.read += 1
        raise RuntimeError("31337")


class TrapNumber(float):
    """A number that cannot be compared."""

    def __ne__(self, _other):
        raise RuntimeError("31337")

    __hash__ = float.__hash__


class Frame:
    columns = ("a", "b")


CONTEXTS = [
    [0.5, 0.0],
    [2.0, 0.0],
    [0.31337, 77.0],
    [math.nan, 0.0],
    [0.5, math.inf],
    [-math.inf, 1e308],
    [10**400, 0],
    [0.5],
    [[0.5, 0.5]],
    [],
    ["a", "b"],
    ["0.5", "0.5"],
    [None, 1.0],
    [True, False],
    [[1], [1, 2]],
    None,
    5,
    "text",
    {"age": 3},
    Frame(),
    np.ma.masked_array([0.5, 0.5], mask=[True, False]),
    Trap(),
]
REWARDS = [
    1.0,
    0,
    True,
    -7.0,
    99.0,
    math.nan,
    math.inf,
    -math.inf,
    10**400,
    None,
    "1",
    [1.0],
    {},
    Trap(),
    TrapNumber(0.5),
    1j,
]


def spec_of(**changes):
    return spec_with(
        **(
            {"contexts": BOX, "arms": range(3), "privacy": LocalDP(epsilon=1.0), "learner": "smooth"}
            | changes
        )
    )


def arms_of(spec, version=4):
    if spec.chooser == "client":
        return PublishedArms(version=version, splits=(0, 2), weights=np.full((3, 3), 1 / 3))
    if spec.protocol.asks:
        cells = np.arange(spec.protocol.grids.whole.size)
        parts, turned = cells % spec.protocol.grids.n_parts, cells % 2 == 1
        return PublishedQuestions(version=version, arms=cells % spec.n_arms, parts=parts, turned=turned)
    return PublishedArms(version=version, splits=(0, 2), arms=np.array([2, 0, 1]))


def attempt(call, *arguments):
    """What the outside sees of a call: its error, word for word, or the size of what it gave."""
    try:
        result = call(*arguments)
    except DPBanditsError as error:
        return type(error), str(error)
    return len(result) if isinstance(result, bytes) else type(result)


def transcript(spec, context, reward):
    """Everything of a device's life that does not stay on it, but for the arms and the reports' contents."""
    ledger, published = MemoryLedger(), arms_of(spec)
    client = Client(spec, account=ledger.account("local-reports"), budget=3.0)
    seen = [attempt(client.decide, published, context)]
    for told in (reward, None):
        seen += [attempt(client.choose, published, context), attempt(client.report, told)]
        seen += [attempt(client.report, reward)]
    seen += [attempt(client.choose, published, context)]
    seen += [attempt(client.choose, published, context), attempt(client.report, reward)]  # no budget is left
    reports = client.unsent()
    heads = [report[:9] for report in reports]
    return seen, heads, [len(report) for report in reports], ledger.balance(ACCOUNT)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"chooser": "client"},
        {"mechanism": "krr"},
        {"mechanism": "laplace"},
        {"learner": "questions"},
        {"learner": "questions", "constants": {"parts": 4}},
    ],
)
def test_no_context_and_no_reward_changes_what_is_seen_of_a_device(changes):
    spec = spec_of(**changes)
    plain = transcript(spec, [0.5, 0.0], 1.0)
    assert len(plain[1]) == 3  # three choices were paid and made a report each, with a reward or without
    assert plain[3].remaining_epsilon == 0
    assert plain[0][-2][0] is BudgetExceeded
    for context in CONTEXTS:
        assert transcript(spec, context, 1.0) == plain
    for reward in REWARDS:
        assert transcript(spec, [0.5, 0.0], reward) == plain
    assert transcript(spec, Trap(), Trap()) == plain


def test_slices_of_the_domain_offered_one_after_another_find_nobody():
    """A device refused a context outside the domain, for nothing: at epsilon .01 the exact slice of 1,024."""
    slices = [
        spec_of(
            contexts=Box(low=[i / 256, -5.0], high=[(i + 1) / 256, 5.0]),
            privacy=LocalDP(epsilon=0.01),
            max_leaves=2,
        )
        for i in range(256)
    ]
    published = PublishedArms(version=0, splits=(), arms=np.array([0]))

    def attacked(context):
        ledger, seen = MemoryLedger(), []
        for i, spec in enumerate(slices):
            for account in (ACCOUNT, f"another-{i}"):  # and where an app opens a new account for every offer

                def play(spec=spec, account=account):
                    # as a server may send it to every spec
                    return Client(spec, account=ledger.account(account)).choose(replace(published), context)

                seen.append(attempt(play))
        return seen

    first, *others = [attacked([x, 0.0]) for x in (0.0, 0.123, 0.5, 0.999)]
    assert all(other == first for other in others)
    # one account is bound to the first spec for good; with one account a spec nothing is refused at all
    assert first[0::2] == [int, *first[2::2]]
    assert {kind for kind, _ in first[2::2]} == {InvalidParameter}
    assert set(first[1::2]) == {int}


def test_budget_spec_and_version_are_judged_before_a_context_is_read():
    spec = spec_of()
    ledger, trap = MemoryLedger(), Trap()
    client = Client(spec, account=ledger.account("local-reports"))
    client.choose(arms_of(spec), [0.1, 0.0])
    client.report(1.0)
    with pytest.raises(BudgetExceeded):
        client.choose(arms_of(spec), trap)
    other = Client(spec)
    refused = [
        (PublishedArms(version=0, splits=(), arms=np.array([3])), IncompatibleState),
        (PublishedArms(version=0, splits=(0, 0), arms=np.array([0, 0, 0])), IncompatibleState),
        (None, InvalidParameter),
        (PublishedArms, InvalidParameter),
        ({"version": 0}, InvalidParameter),
    ]
    for published, error in refused:
        for call in (other.choose, other.decide):
            with pytest.raises(error):
                call(published, trap)
    assert trap.read == 0
    assert ledger.balance(ACCOUNT).spent_epsilon == 1


def test_clipped_contexts_count_where_they_are_moved_to_and_missing_ones_nowhere():
    spec = spec_of()
    client, published = Client(spec, budget=1e3), arms_of(spec)
    assert [client.choose(published, [x, 0.0]) for x in (-3.0, 0.2)] == [2, 2]
    assert client.choose(published, [math.inf, -math.inf]) == client.choose(published, [1.0, -5.0]) == 0
    assert not remembered(client).choice.missing
    middle = client.choose(published, [0.5, 0.0])
    assert client.choose(published, [math.nan, 9.0]) == middle
    assert remembered(client).choice.missing
    for reward in (7.0, math.nan):
        client.choose(published, [0.5, 0.0])
        client.report(reward)
    counts = dict(client.unsafe_counts)
    # six choices were closed by the next one without a reward, and one reward was no number
    assert counts == {
        "clipped contexts": 2,
        "missing contexts": 1,
        "clipped rewards": 1,
        "missing rewards": 7,
        "unavailable arms": 0,
    }
    with pytest.raises(TypeError):
        client.unsafe_counts["clipped contexts"] = 0
    assert "2" not in repr(client)


def test_a_spec_tests_an_integration_without_a_server():
    spec = spec_of()
    spec.check([0.5, 5.0])
    for context in CONTEXTS[1:]:
        if not isinstance(context, Trap):
            with pytest.raises(InvalidData) as raised:
                spec.check(context)
            assert "31337" not in str(raised.value)
    for context, said in (
        ([2.0, 0.0], "column 0: 1 clipped"),
        ([0.5, math.inf], "column 1: 1 clipped"),
        ([math.nan, 0.0], "column 0: 1 missing"),
        (["a", None], "column 0: 1 unreadable"),
    ):
        with pytest.raises(InvalidData, match=said):
            spec.check(context)


def test_a_schemas_check_counts_what_devices_count():
    """The same contexts, told in a table and to a device: missing and clipped ones are as many."""
    spec, rng = spec_of(), np.random.default_rng(11)
    pool = [0.0, 0.5, 1, 7.0, -1e300, math.nan, None, "half", 10**400]
    contexts = [[pool[i] for i in rng.integers(len(pool), size=2)] for _ in range(300)]
    client = Client(spec)
    for context in contexts:
        client.decide(arms_of(spec), context)
    columns = Schema(a=Range(0, 1, clip=True), b=Range(-5, 5, clip=True))
    found = columns.check(dict(zip("ab", map(list, zip(*contexts, strict=True)), strict=True)))
    counted = client.unsafe_counts
    assert (found.missing_rows, found.clipped_rows) == (
        counted["missing contexts"], counted["clipped contexts"],
    )  # fmt: skip
    assert min(found.missing_rows, found.clipped_rows) > 20


@pytest.mark.parametrize("chooser", ["server", "client"])
@pytest.mark.parametrize(("context", "reward"), [([0.1, 0.0], None), ("unreadable", 1.0), (None, None)])
def test_what_is_missing_is_any_cell_and_either_sign_equally_likely(chooser, context, reward):
    """So its report is a mixture of reports on public inputs, and exp(epsilon) covers it."""
    spec = spec_of(chooser=chooser)
    choice = spec.protocol.choose(arms_of(spec), context, spec.privacy)
    inputs = [spec.protocol.exact(choice, reward) for _ in range(10_000)]
    cells = 3 if chooser == "server" else 9
    counts = np.bincount([2 * cell + positive for cell, positive in inputs], minlength=2 * cells)
    assert len(counts) == 2 * cells
    assert stats.chisquare(counts).pvalue > FALSE_ALARM


@pytest.mark.parametrize("name", ["signed", "krr", "hadamard", "oue"])
def test_a_report_of_what_is_missing_keeps_the_claim_exactly(name):
    mechanism = spec_of(mechanism=name).protocol.mechanism_for(2)
    codes = np.arange(256**mechanism.report_bytes, dtype="<u8")
    rows = np.ascontiguousarray(codes).view(np.uint8).reshape(-1, 8)[:, : mechanism.report_bytes]
    inputs = [(cell, positive) for cell in range(2) for positive in (True, False)]
    laws = [
        [mechanism.likelihood(row.tobytes(), cell, positive=positive) for cell, positive in inputs]
        for row in rows[mechanism.valid(rows)]
    ]
    most = Fraction(math.exp(mechanism.exact_epsilon))
    for law in laws:
        missing = sum(law) / len(law)
        assert all(missing <= most * one and one <= most * missing for one in law)


@pytest.mark.parametrize("learner", ["smooth", "questions"])
@pytest.mark.parametrize("mechanism", ["signed", "krr", "hadamard", "oue"])
def test_the_same_random_bytes_are_drawn_whatever_the_input(mechanism, learner, monkeypatch):
    spec = spec_of(mechanism=mechanism, learner=learner)
    rng, drawn = np.random.default_rng(5), []
    monkeypatch.setattr("os.urandom", lambda n: drawn.append(n) or rng.bytes(n))
    seen = set()
    for context in CONTEXTS:
        for reward in REWARDS:
            client = Client(spec)
            drawn.clear()
            client.choose(arms_of(spec), context)
            client.report(reward)
            seen.add(tuple(drawn))
    assert len(seen) == 1


def test_a_choice_without_a_reward_is_reported_too():
    spec = spec_of()
    server = Server(spec)
    client, published = Client(spec), server.publish()
    client.choose(published, [0.1, 0.0])
    report = client.report(None)
    assert client.report(1.0) == report  # a reward that comes later changes nothing
    assert client.unsent() == [report]
    assert server.absorb([report]).accepted == 1
    assert client.unsafe_counts["missing rewards"] == 1


def test_the_deadline_is_part_of_the_spec():
    assert spec_of().to_config()["deadline"] == 86_400.0
    later = spec_of(deadline=7.0)
    assert Spec.from_json(later.to_json()) == later != spec_of()
    assert later.digest != spec_of().digest
    for wrong in (0, -1.0, math.inf, "1", None):
        with pytest.raises(InvalidParameter, match="deadline"):
            spec_of(deadline=wrong)


# -- what an account and an outbox are bound to -------------------------------------------------------


def test_an_account_is_bound_to_one_spec_for_good(tmp_path):
    first, second = spec_of(), spec_of(seed=1)
    Client(first, account=SQLiteLedger(tmp_path / "ledger").account("local-reports"), budget=5.0)
    ledger = SQLiteLedger(tmp_path / "ledger")
    with pytest.raises(InvalidParameter, match="another account"):
        Client(second, account=ledger.account("local-reports"), budget=5.0)
    Client(first, account=ledger.account("local-reports"), budget=5.0)
    Client(second, account=ledger.account("another"), budget=5.0)
    assert first.fingerprint in ledger.balance(ACCOUNT).terms.unit.whose
    assert len(first.fingerprint) == 64


def test_an_account_of_another_unit_is_refused():
    ledger = MemoryLedger()
    ledger.open_account(ACCOUNT, privacy=JointDP(1.0))
    with pytest.raises(InvalidParameter, match="has another unit"):
        Client(spec_of(), account=ledger.account("local-reports"))
    assert ledger.balance(ACCOUNT).spent_epsilon == 0


def test_an_outbox_is_bound_to_one_spec_for_good(tmp_path):
    for make in (lambda kept=MemoryOutbox(): kept, lambda: FileOutbox(tmp_path / "box")):  # noqa: B008
        Client(spec_of(), outbox=make())
        ledger = MemoryLedger()
        with pytest.raises(IncompatibleState, match="another spec"):
            Client(spec_of(seed=1), outbox=make(), account=ledger.account("local-reports"))
        with pytest.raises(InvalidParameter):
            ledger.balance(ACCOUNT)  # refused before an account was opened
        Client(spec_of(), outbox=make())


def test_an_outbox_that_lost_the_name_of_its_spec_is_refused(tmp_path):
    spec = spec_of()
    client = Client(spec)
    client.choose(arms_of(spec), [0.1, 0.0])
    report = client.report(1.0)
    FileOutbox(tmp_path).put("ab12", report)
    with pytest.raises(IncompatibleState, match="another spec"):
        Client(spec_of(seed=1), outbox=FileOutbox(tmp_path))
    with pytest.raises(CorruptState, match="file spec is missing"):
        Client(spec, outbox=FileOutbox(tmp_path))
    assert not (tmp_path / "spec").exists()
    (tmp_path / "spec").write_text("torn")
    with pytest.raises(IncompatibleState):
        Client(spec, outbox=FileOutbox(tmp_path))
    (tmp_path / "spec").unlink()
    (tmp_path / "ab12.report").write_bytes(b"torn")
    with pytest.raises(CorruptState):
        Client(spec, outbox=FileOutbox(tmp_path))


def test_a_version_that_changed_is_refused_and_versions_are_counted(monkeypatch):
    spec = spec_of()
    client = Client(spec)
    client.decide(arms_of(spec), [0.1, 0.0])
    changed = PublishedArms(version=4, splits=(0, 2), arms=np.array([2, 0, 2]))
    with pytest.raises(IncompatibleState, match="other contents"):
        client.decide(changed, [0.1, 0.0])
    client.decide(arms_of(spec), [0.1, 0.0])
    monkeypatch.setattr(device, "MOST_VERSIONS", 3)
    for version in (5, 6):
        client.decide(arms_of(spec, version), [0.1, 0.0])
    for _ in range(2):
        with pytest.raises(ProtocolError, match="takes no more"):
            client.choose(arms_of(spec, 7), [0.1, 0.0])
    client.decide(arms_of(spec, 5), [0.1, 0.0])


# -- arguments of another kind ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        {"spec": 5},
        {"spec": None},
        {"spec": Spec},
        {"spec": "{}"},
        {"outbox": "x"},
        {"outbox": FileOutbox},
        {"outbox": {}},
        {"budget": "1"},
        {"budget": math.nan},
        {"budget": -1.0},
        {"budget": True},
        {"privacy": 1.0},
        {"privacy": LocalDP(epsilon=2)},
        {"account": 5},
        {"account": "x"},
        {"account": MemoryLedger()},
        {"account": Account},
    ],
)
def test_a_device_of_wrong_parts_is_refused_before_anything_is_opened(arguments):
    ledger = MemoryLedger()
    with pytest.raises(InvalidParameter):
        Client(**({"spec": spec_of(), "account": ledger.account(ACCOUNT)} | arguments))
    with pytest.raises(InvalidParameter):
        ledger.balance(ACCOUNT)


@pytest.mark.parametrize(
    "changes",
    [
        {"contexts": [0, 1]},
        {"contexts": Box},
        {"privacy": 1.0},
        {"privacy": LocalDP},
        {"reward_range": 1},
        {"arms": True},
        {"arms": "3"},
        {"mechanism": 5},
        {"arms": None},
        {"seed": 1.0},
        {"window": "8"},
        {"n_users": "many"},
        {"epsilons": 1.0},
        {"epsilons": ("a",)},
        {"constants": 5},
        {"constants": {"no such constant": 1.0}},
        {"constants": {"depth": 1.0}},
        {"constants": {"known": True}},
        {"constants": {"known": math.nan}},
        {"constants": {1: 1.0}},
        {"learner": "explore", "constants": {"known": 1.0}},
        {"learner": "questions", "constants": {"known": 1.0}},
        {"learner": "questions", "chooser": "client"},
        {"mechanism": "laplace", "privacy": LocalDP(epsilon=1.5e-3)},  # too little for the most bins
        {"chooser": "client", "arms": range(256), "max_leaves": 1 << 16},  # more cells than a report may have
    ],
)
def test_a_spec_of_wrong_parts_is_refused_at_construction(changes):
    with pytest.raises(InvalidParameter):
        spec_of(**changes)


def test_the_names_of_constants_are_those_of_the_learners():
    from dataclasses import fields

    from dpbandits.local.contract import spec as contract
    from dpbandits.local.learners.table import LEARNERS

    for learner, names in contract.CONSTANTS.items():
        given = {"n_users", "epsilon"} if learner in contract.PUBLISHED else set()
        if learner == "ma2025-printed":  # of Algorithm 3, which simulations run
            given |= {"source_users", "source_epsilons"}
        assert {one.name for one in fields(LEARNERS[learner].Constants)} - given == names
    assert SourceSpec(
        target=spec_of(learner="tree"), name="x", n_users=500, privacy=LocalDP(epsilon=2.0)
    ).reports


def test_the_statement_says_what_a_forger_weighs_and_what_an_action_shows():
    spec = spec_of(max_leaves=16, mechanism="signed")
    text = " ".join(spec.statement().annex().split())
    assert "move the server's sums as far as 39.3 honest people do on average, 2.5 in any one bin" in text
    assert "Whoever sees the action learns that the context lies in one of the bins" in text
    assert "Without a `ReportKey` nothing proves this" in text
    assert "Refusals depend on the spec, on published versions and on the device's budget alone" in text
    chosen = " ".join(spec_of(chooser="client").statement().annex().split())
    assert "learns that the context lies" not in chosen
    assert "learns about the context as much as these choices reveal" in chosen


def test_the_statement_covers_what_is_not_available_and_what_was_pulled_elsewhere():
    """An arm that its bin does not pull shows that the bin's own was not to be had, or another bin."""
    spec = spec_of(max_leaves=4)
    server = Server(spec)
    for _ in range(20):
        client = Client(spec)
        assert client.choose(server.publish(), [0.5] * spec.dim, available=[1]) == 1
    text = " ".join(client.guarantee.annex().split())
    assert "or that the bin's own arm was not available" in text
    assert "An input that cannot be read or was not available" in text
    source = SourceSpec(
        target=spec_of(learner="tree"), name="x", n_users=500, privacy=LocalDP(epsilon=2.0)
    ).reports
    assert "or the arm was pulled elsewhere" in " ".join(source.statement().annex().split())


@pytest.mark.parametrize("make", ["spec_of", "gp_spec_of"])
def test_a_devices_statement_lists_what_its_ledger_does_not_add_up(make):
    """A report under another spec has an account of its own, and two losses of one user add up."""
    statement = globals()[make]().statement()
    text = " ".join(f"{statement.explain()} {statement.annex()}".split())
    [one] = [a for a in statement.assumptions if "what reports under several specs lose" in a.text]
    assert not one.enforced
    assert "the published version that it answers are not hidden" in text
    assert "no older copy of them is restored" in text
    [when] = [a for a in statement.assumptions if "as soon as a reward comes tells that it came" in a.text]
    assert not when.enforced
    assert "counts of clipped, missing and unavailable inputs, and nothing else of them" in text


def gp_spec_of(**changes):
    box = Box(low=[0], high=[1])
    return gp_spec_with(
        **changes,
        domain=box,
        features=MercerFeatures(kernel=SquaredExponential(lengthscale=0.3), domain=box, n_features=4),
        reward_range=(0, 1),
        privacy=JointDP(epsilon=4, delta=1e-6),
    )


def test_one_report_is_not_called_sums_of_blocks():
    as_published = {"learner": "dubey2021", "constants": {"horizon": 100.0}}
    for learner, sums in (
        ({}, "centred reward times features"),
        (as_published, "outer product of features, and centred reward times features,"),
    ):
        [record] = gp_spec_of(**learner).statement().mechanisms
        assert record.name == f"one report: {sums} of its one choice"


@pytest.mark.parametrize("mechanism", ["krr", "laplace", "paper-laplace", "oue", "hadamard", "signed"])
def test_the_statement_claims_no_probabilities_that_the_mechanism_lacks(mechanism):
    """A lie of k-ary response has (1 - keep)/(k - 1), a Laplace entry a power: fractions of other bases."""
    text = " ".join(spec_of(mechanism=mechanism, max_leaves=4).statement().annex().split())
    assert "multiple of 2^-64" not in text
    assert "enumerated" not in text
    assert "All draws have rational probabilities" in text
