"""Policies of the service: creation from JSON, preview of the cost, changes, and description.

A policy is a `GPBandit`, and the JSON has its arguments. One transaction creates it, with its row, the charge
and the first state.
"""

import hashlib
import json
import uuid
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from dpbandits import domains
from dpbandits.budget import Ledger, cost_of_guarantee
from dpbandits.central.arm_changes import ArmHistory
from dpbandits.central.published_function import PublishedPosterior
from dpbandits.central.readout.declared import Readout
from dpbandits.central.tuning import GPTuning
from dpbandits.domains import RewardRange
from dpbandits.domains.arms import Arms
from dpbandits.errors import CorruptState, InvalidData, InvalidParameter
from dpbandits.models import kernels
from dpbandits.privacy.definitions import JointDP
from dpbandits.service.budgets import previewed, promise_of, standing
from dpbandits.service.engines import Engines, Kept, ServedBandit, arms_fact, due_after, end_fact, looks_of
from dpbandits.service.keys import canonical
from dpbandits.service.problems import Problem
from dpbandits.service.store import Reads, Row, Writes, note_event, note_fact
from dpbandits.tables import Actions, Products, Schema

__all__ = [
    "actions_of",
    "all_described",
    "arms_described",
    "begin",
    "built",
    "change",
    "change_arms",
    "check_open",
    "described",
    "end_readout",
    "kept_policy",
    "preview",
    "readout_of",
    "releases_of",
]

LAG_SHARE = 200
"""Number by which the horizon is divided to get the default lag of a release, in rounds.

The release is made during the lag, so that no request waits for it.
"""

_ROWS = (
    "SELECT id, name, population, asked, settings, status, revision, made_at, "
    "(SELECT value FROM facts f WHERE f.name = 'arms ' || policies.id), "
    "(SELECT value FROM facts f WHERE f.name = 'end ' || policies.id) FROM policies"
)


def kept_policy(reads: Reads, name: str) -> Kept:
    """Return the row of the policy with this name; raise Problem if there is none."""
    row = reads.one(f"{_ROWS} WHERE name = ?", name)
    if row is None:
        raise Problem("not-found", "There is no policy of this name.")
    return _kept(row)


def _kept(row: tuple[Any, ...]) -> Kept:
    asked, settings, revision, changes = json.loads(row[3]), json.loads(row[4]), int(row[6]), row[8]
    ended = None if row[9] is None else int(row[9])
    return Kept(row[0], row[1], row[2], asked, settings, row[5], revision, row[7], changes or "[]", ended)


def _built(
    asked: Mapping[str, Any], ledger: Ledger | None, population: str
) -> tuple[ServedBandit, list[str]]:
    """Return the policy that JSON describes, and the library's warnings."""
    arguments: dict[str, Any] = {name: asked[name] for name in ("horizon", "seed") if name in asked}
    if "arms" in asked:
        columns = asked.get("contexts") or []
        arguments["contexts"] = Schema.from_config({"type": "Schema", "columns": columns})
        if "actions" in asked:
            arguments["actions"] = actions_of(asked["actions"])
        elif "products" in asked:
            arguments["arms"] = products_of(asked["products"])
        else:
            arguments["arms"] = asked["arms"]
    else:
        arguments["domain"] = domains.from_config(asked["domain"])
    if asked.get("kernel") is not None:
        arguments["kernel"] = kernels.from_config(asked["kernel"])
    low, high = asked["reward_range"]
    privacy = promise_of(asked["privacy"])
    if not isinstance(privacy, JointDP):
        raise InvalidParameter("privacy: expected JointDP for a policy")
    tuning = dict(asked.get("tuning") or {})
    if asked.get("readout") is not None:
        arguments["readout"] = Readout.from_config(asked["readout"])
        tuning.setdefault("lag", 0)
    if "lag" not in tuning and "seconds" not in str(tuning.get("reporting_delay", 0)):
        tuning["lag"] = max(1, (asked["horizon"] or 0) // LAG_SHARE) if asked["horizon"] else 0
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        policy = ServedBandit(
            **arguments,
            reward_range=RewardRange(low, high, clip=asked.get("clip", False)),
            privacy=privacy,
            tuning=GPTuning(**tuning),
            account=None if ledger is None else ledger.account(population),
        )
        if "warm_start" in asked:
            _warm(policy, asked["warm_start"])
    return policy, [str(one.message) for one in said]


def actions_of(asked: Mapping[str, Any]) -> Actions:
    """Return the actions that a request describes; raise InvalidParameter if they are invalid."""
    names = ("value", "shape", "bounds", "explore", "step")
    given = {name: asked[name] for name in names if asked.get(name) is not None}
    return Actions.from_config({"schema": {"type": "Schema", "columns": asked["columns"]}, **given})


def products_of(asked: Mapping[str, Any]) -> Products:
    """Return the products that a request describes; raise InvalidParameter if they are invalid."""
    columns = Schema.from_config({"type": "Schema", "columns": asked["columns"]})
    try:
        return Products(asked["rows"], columns=columns, name=asked.get("name", "name"))
    except InvalidData as error:  # the table is public, and so is the message
        raise InvalidParameter(f"products: {error}") from None


def _warm(policy: ServedBandit, begins_from: Mapping[str, Any]) -> None:
    if not begins_from["disjoint"]:
        raise InvalidParameter(
            "warm_start: a policy of the service begins from a function of other people's data alone. Send "
            "disjoint true if nobody in that data is a user here; else build the policy in Python, where "
            "both promises are added up"
        )
    try:
        function = PublishedPosterior.from_json(json.dumps(begins_from["function"]))
    except CorruptState:
        raise InvalidParameter("warm_start: expected a function as GET .../policy gives it") from None
    policy.warm_start(function, disjoint=True)


def _checked_settings(settings: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with defaults; raise InvalidParameter if they do not fit the policy."""
    found = {"mode": "live", "fallback": None, "default_reward": None, "wait_seconds": None, **settings}
    if found["fallback"] is not None and (
        "arms" not in asked or Arms(asked["arms"]).code(found["fallback"]) < 0
    ):
        raise InvalidParameter("fallback: expected one of the arms")
    if found["mode"] == "shadow" and asked.get("readout") is not None:
        raise InvalidParameter("readout: a policy in shadow mode does not choose the control's arm: use live")
    if found["default_reward"] is not None:
        low, high = asked["reward_range"]
        if not low <= found["default_reward"] <= high:
            raise InvalidParameter("default_reward: expected a number of reward_range")
        if found["wait_seconds"] is None:
            raise InvalidParameter("default_reward needs wait_seconds: after that it is counted")
    return found


def preview(ledger: Ledger, asked: dict[str, Any]) -> dict[str, Any]:
    """Return guarantee and cost of a policy and the remaining budget of its population. Nothing is stored.

    Raises:
        InvalidParameter: the request is invalid.
        Problem: there is no such population.
    """
    population = asked["population"]
    _checked_settings(asked.get("settings") or {}, asked)
    policy, said = _built(asked, None, population)
    guarantee = policy.guarantee
    return {
        **previewed(ledger, population, cost_of_guarantee(guarantee)),
        "releases_after_rounds": list(policy.batch_boundaries),
        "statement": guarantee.explain(),
        "warnings": said,
    }


def check_open(reads: Reads, population: str) -> None:
    """Raise Problem if a population is closed, because it is not known how much of its budget is spent."""
    if reads.one("SELECT value FROM facts WHERE name = ?", f"closed {population}") is not None:
        raise Problem(
            "conflict",
            "The population is closed: it came with a backup, and later charges are not known here.",
        )


def built(ledger: Ledger, asked: dict[str, Any]) -> ServedBandit:
    """Return the requested policy before its creation, from public numbers. Errors are those of `preview`."""
    standing(ledger, asked["population"])
    return _built(asked, ledger, asked["population"])[0]


def begin(
    writes: Writes,
    engines: Engines,
    ledger: Ledger,
    asked: dict[str, Any],
    new: Callable[[], ServedBandit],
    now: float,
    by: str = "",
) -> Kept:
    """Create a policy, and charge its population for all that the policy will release.

    An idempotent request gets the same policy. `new` returns a policy from `built`, a fresh one for each
    attempt. `by` is the id of the token that asks.

    Raises:
        BudgetExceeded: the population cannot pay; nothing is stored.
        InvalidParameter, Problem: the request is invalid; nothing is stored.
    """
    name, population = asked["name"], asked["population"]
    body = {key: value for key, value in asked.items() if key not in ("name", "population", "settings")}
    if "warm_start" in body:  # the state contains the function
        digest = hashlib.sha256(canonical(body["warm_start"]).encode()).hexdigest()
        body["warm_start"] = {"disjoint": True, "sha256": digest}
    settings = _checked_settings(asked.get("settings") or {}, body)
    row = writes.one("SELECT population, asked FROM policies WHERE name = ?", name)
    if row is not None:
        if tuple(row) != (population, canonical(body)):
            raise Problem("conflict", "There is another policy of this name: choose another name.")
        return kept_policy(writes, name)
    fresh = new()
    engines.refuse_large(fresh)
    check_open(writes, population)
    ledger.after(population, cost=cost_of_guarantee(fresh.guarantee))
    identity = uuid.uuid4().hex
    row = identity, name, population, canonical(body), canonical(settings), now
    writes.run("INSERT INTO policies VALUES (?, ?, ?, ?, ?, 'active', 1, ?)", *row)
    with writes.kept_alive():
        engines.begin(writes, identity, fresh)
    note_event(writes, now, "policy-begun", f"policy {name}", f"population {population}", by=by)
    return kept_policy(writes, name)


def change(
    writes: Writes,
    name: str,
    *,
    status: str | None,
    settings: Mapping[str, Any] | None,
    if_match: str | None,
    now: float,
    by: str,
) -> Kept:
    """Change status or settings of a policy, never its guarantee.

    `if_match` is the ETag that the change is based on, and `by` the id of the token that asks.

    Raises:
        Problem: another request changed the policy meanwhile, or the policy is retired, which is final.
        InvalidParameter: the settings do not fit the policy.
    """
    writes.locked("SELECT id FROM policies WHERE name = ?", name)  # locked until the commit
    kept = kept_policy(writes, name)
    if if_match is None:
        raise Problem(
            "needs-if-match", "Send If-Match with the policy's ETag, so that no change is overwritten."
        )
    if if_match not in (kept.etag, "*"):
        raise Problem("changed-meanwhile", "The policy was changed meanwhile: read it again.")
    if kept.status == "retired":
        raise Problem("conflict", "The policy is retired, which is final.")
    asked = dict(kept.asked)
    if kept.arm_changes != "[]":  # a new arm may be the fallback
        arms = _arms_of(kept)
        asked["arms"] = [label for label in arms.labels if arms.found("retire", label) is None]
    new = canonical(_checked_settings({**kept.settings, **(settings or {})}, asked))
    changing = "UPDATE policies SET status = ?, settings = ?, revision = revision + 1 WHERE id = ?"
    writes.run(changing, status or kept.status, new, kept.id)
    told = ", ".join([*([status] if status else []), *(settings or {})])
    note_event(writes, now, "policy-changed", f"policy {name}", told, by=by)
    return kept_policy(writes, name)


def _arms_of(kept: Kept) -> ArmHistory:
    return ArmHistory.of(kept.asked.get("arms", ()), json.loads(kept.arm_changes))


def change_arms(
    writes: Writes,
    engines: Engines,
    name: str,
    *,
    retire: bool,
    asked: Mapping[str, Any],
    now: float,
    by: str = "",
) -> Kept:
    """Announce that an arm is added or retired, from the next release on. A repetition changes nothing.

    The row of `progress` is locked until the commit. So the number of rounds is that of the announcement, and
    a release that puts the change into effect, which comes later, finds it in the store.

    Args:
        writes: the open transaction.
        engines: the open policies.
        name: name of the policy.
        retire: True for a retirement.
        asked: arguments of `GPBandit.add_arm` or `GPBandit.retire_arm`.
        now: time of the announcement.
        by: id of the token that asks.

    Raises:
        Problem: there is no such policy, or it is retired; or the arm to retire is the fallback of its
            settings.
        ProtocolError, InvalidParameter: as in `GPBandit.add_arm` and `GPBandit.retire_arm`.
    """
    writes.locked("SELECT id FROM policies WHERE name = ?", name)
    kept = kept_policy(writes, name)
    if kept.status == "retired":
        raise Problem("conflict", "The policy is retired, which is final.")
    fallback = kept.settings.get("fallback")
    if retire and fallback is not None and Arms([fallback]).code(asked["arm"]) == 0:
        raise Problem("conflict", "The arm is the policy's fallback: change that setting first.")
    engine = engines.use(writes, kept.id)
    engine.book.hold()
    engine.know(kept)
    engine.forget_changes()  # until the change is committed, and read from the store
    call = engine.policy.retire_arm if retire else engine.policy.add_arm
    change = call(asked["arm"], **{key: value for key, value in asked.items() if key != "arm"}, at=now)
    engines.refuse_large(engine.policy)
    told = [*json.loads(kept.arm_changes)]
    if change.to_config() not in told:
        note_fact(writes, arms_fact(kept.id), canonical([*told, change.to_config()]))
        writes.run("UPDATE policies SET revision = revision + 1 WHERE id = ?", kept.id)
        if change.ends is not None:
            looks = looks_of(writes, kept.id) or {"looks": ()}
            due = due_after(engine.policy, engine.book.released, len(looks["looks"]))
            writes.run("UPDATE progress SET due = ? WHERE policy = ?", due, kept.id)
        what = "arm-retired" if retire else "arm-added"
        said = f"{change.arm} from release {change.version} on, after {change.asked} rounds"
        note_event(writes, now, what, f"policy {name}", said, by=by)
    return kept_policy(writes, name)


def arms_described(reads: Reads, kept: Kept) -> dict[str, Any]:
    """Return the arms that the latest release offers, and all changes, as public JSON."""
    row = reads.one("SELECT MAX(version) FROM releases WHERE policy = ?", kept.id)
    history = _arms_of(kept)
    offered = history.offered(int((row[0] if row else 0) or 0))
    names = {"version": "release", "asked": "rounds"}
    changes = [
        {names.get(key, key): value for key, value in one.items()} for one in json.loads(kept.arm_changes)
    ]
    return {"arms": [history.labels[code] for code in offered.tolist()], "changes": changes}


def described(reads: Reads, kept: Kept) -> dict[str, Any]:
    """Return a policy as public JSON; `arms` are those that the latest release offers."""
    row = reads.one("SELECT MAX(version), MAX(rounds) FROM releases WHERE policy = ?", kept.id)
    return {
        "name": kept.name,
        "population": kept.population,
        "status": kept.status,
        **kept.asked,
        **({"arms": arms_described(reads, kept)["arms"]} if kept.arm_changes != "[]" else {}),
        "settings": kept.settings,
        "release": int(row[0] or 0) if row else 0,
        "rounds_released": int(row[1] or 0) if row else 0,
        "made_at": kept.made_at,
    }


def readout_of(reads: Reads, kept: Kept) -> dict[str, Any]:
    """Return the released looks of a policy's readout as public JSON; raise Problem if it has none."""
    found = looks_of(reads, kept.id)
    if found is None:
        raise Problem("conflict", "The policy was created without a readout.")
    return {
        "looks": len(found["looks"]),
        "planned_looks": len(found["ends"]),
        "ends": found["ends"],
        "over": _is_over(found),
        "result": found["result"],
    }


def _is_over(found: Mapping[str, Any]) -> bool:
    """Return True if no look follows those that `looks_of` gives."""
    return found["ended"] is not None or len(found["looks"]) == len(found["ends"])


def end_readout(writes: Writes, engines: Engines, name: str, *, now: float, by: str = "") -> Kept:
    """End a policy's readout with the rounds so far; see `GPBandit.end_readout`.

    A repetition changes nothing. The row of `progress` is locked until the commit. The next fold makes the
    last look, and later decisions wait for it.

    Args:
        writes: the open transaction.
        engines: the open policies.
        name: name of the policy.
        now: time of the call.
        by: id of the token that asks.

    Raises:
        Problem: there is no such policy, it has no readout, or no round has passed the delay of rewards.
    """
    writes.locked("SELECT id FROM policies WHERE name = ?", name)
    kept = kept_policy(writes, name)
    engine = engines.use(writes, kept.id)
    engine.book.hold()
    looks, asked = looks_of(writes, kept.id), engine.book.asked
    if looks is None:
        raise Problem("conflict", "The policy was created without a readout.")
    if kept.ended is not None or _is_over(looks):
        return kept
    if asked <= int(engine.policy.tuning.reporting_delay):  # type: ignore[arg-type] # rounds, in a service
        raise Problem("conflict", "No round has passed the delay of rewards yet.")
    note_fact(writes, end_fact(kept.id), str(asked))
    writes.run("UPDATE progress SET due = ? WHERE policy = ?", asked, kept.id)
    writes.run("UPDATE policies SET revision = revision + 1 WHERE id = ?", kept.id)
    note_event(writes, now, "readout-ended", f"policy {name}", f"after {asked} rounds", by=by)
    return kept_policy(writes, name)


def releases_of(reads: Reads, policy: str) -> list[Row]:
    """Return version, number of rounds and time of each release of the policy with this id."""
    query = "SELECT version, rounds, made_at FROM releases WHERE policy = ? AND version > 0 ORDER BY version"
    return reads.rows(query, policy)


def all_described(reads: Reads) -> list[dict[str, Any]]:
    """Return all policies in the form of `described`, sorted by name."""
    rows = reads.rows("SELECT name FROM policies ORDER BY name")
    return [described(reads, kept_policy(reads, str(row[0]))) for row in rows]
