"""Read a comparison from a TOML file, for `dpbandits lab compare`.

The file::

    policies = ["GPBandit", "PrivateRidge", "non-private"]      # names in `RIVALS`
    epsilons = [0.3, 1, 3]
    people = [2_000, 10_000]     # optional numbers of rounds; default: all rounds of a world
    reps = 5                     # optional
    seed = 1_000_000             # optional

    [own]                        # optional: your own policies, functions (world, seed, promise) -> policy
    mine = "my_policies:make"    # function in a module beside this file, or in an installed one

    [worlds.income]
    table = "cps-income"         # name for `lab.worlds.load`, or a TOML file that describes a table; with a
                                 # [log], rewards of arms that were not chosen come from the nearest user

    [worlds.nugget]
    hard = "nugget"              # world in `lab.worlds.hard`

    [worlds.guess]
    facts = "people.toml"        # world in which the facts of a section [plan] hold

    [worlds.function]
    call = "my_worlds:steep"     # function (seed, people) -> world

    [worlds.steps]
    gymnasium = "MyBandit-v0"    # environment with one step in an episode; low and high bound its rewards
    low = 0
    high = 1

The modules that a file names are imported, which runs their code. Trust such a file as you trust a script.
"""

import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from dpbandits._lazy import needing
from dpbandits._typing import Seed
from dpbandits.errors import InvalidParameter
from dpbandits.lab import worlds
from dpbandits.lab.comparing.rivals import RIVALS
from dpbandits.lab.planning.facts import Facts
from dpbandits.tables.described import DescribedTable, LoggedArm
from dpbandits.tables.description import check_keys, description_in, text_in, value_in

__all__ = ["study_in"]

_KINDS = ("table", "hard", "facts", "call", "gymnasium")


def study_in(path: str | Path) -> dict[str, Any]:
    """Return the arguments of `compare` from a file; see the module.

    Raises:
        InvalidParameter: The file is not TOML, lacks a key, has an unknown key or contradicts itself.
        DataUnavailable: The file does not exist or cannot be read.
    """
    where = Path(path)
    found = description_in(text_in(where), where.name)
    optional = {"epsilons", "people", "reps", "seed", "own"}
    check_keys(found, where.name, required={"worlds", "policies"}, optional=optional)
    folder = where.resolve().parent
    policies: dict[str, Any] = {}
    for name in value_in(found, "policies", list, where.name):
        if name not in RIVALS:
            raise InvalidParameter(f"policy {name!r}: expected one of {', '.join(RIVALS)}, or one of [own]")
        policies[name] = RIVALS[name]
    own = value_in(found, "own", dict, where.name) if "own" in found else {}
    policies |= {name: _called(said, folder) for name, said in own.items()}
    places = value_in(found, "worlds", dict, where.name)
    said = {"reps": found.get("reps"), "seed": found.get("seed"), "people": found.get("people")}
    return {
        "worlds": {name: _world(name, section, folder) for name, section in places.items()},
        "policies": policies,
        "promises": found.get("epsilons", [1.0]),
        **{name: value for name, value in said.items() if value is not None},
    }


def _called(said: object, folder: Path) -> Callable[..., Any]:
    """Return the function that `said` names as "module:name". The module may be in the TOML file's folder."""
    module, _, name = str(said).partition(":")
    if not isinstance(said, str) or not name:
        raise InvalidParameter(f"{said!r}: expected module:function")
    sys.path.insert(0, str(folder))
    try:
        found = getattr(import_module(module), name, None)
    except ImportError as error:
        raise InvalidParameter(f"{said!r}: module {module!r} cannot be imported") from error
    finally:
        sys.path.remove(str(folder))
    if not callable(found):
        raise InvalidParameter(f"{said!r}: the module has no function {name!r}")
    made: Callable[..., Any] = found
    return made


def _world(name: str, section: object, folder: Path) -> Callable[..., Any]:
    where = f"[worlds.{name}]"
    if not isinstance(section, dict) or len(kinds := [kind for kind in _KINDS if kind in section]) != 1:
        raise InvalidParameter(f"{where}: expected a section with one of {', '.join(_KINDS)}")
    (kind,) = kinds
    said, bounds = str(section[kind]), {"low", "high"} if kind == "gymnasium" else set()
    check_keys(section, where, required={kind} | bounds, optional=set())
    if kind == "call":
        return _called(said, folder)
    if kind == "hard":
        if said not in worlds.HARD:
            raise InvalidParameter(f"{where}: expected one of {', '.join(worlds.HARD)}")
        return partial(_named, worlds.hard, said)
    if kind == "facts":
        return partial(_planned, Facts.from_toml(folder / said)[0])
    if kind == "gymnasium":
        return partial(_gymnasium, said, float(section["low"]), float(section["high"]))
    if said.endswith(".toml"):
        path = folder / said
        return partial(_described, path, DescribedTable.from_toml(path).path)
    return partial(_named, worlds.load, said)


def _planned(facts: Facts, seed: Seed, people: int | None) -> Any:
    if people is None:
        raise InvalidParameter(
            "facts: a simulated world has no number of rounds of its own: set people = [...]"
        )
    return facts.world(seed, people)


def _named(load: Callable[..., Any], name: str, seed: Seed, people: int | None) -> Any:
    return load(name, seed=seed, horizon=people)


def _described(path: Path, _table: Path | str | None, seed: Seed, people: int | None) -> Any:
    """Return the world of a described table, with missing rewards of a [log] filled in.

    The table's file is an argument so that the fingerprint of a run includes it.
    """
    described = DescribedTable.from_toml(path)
    log = described.outcome
    if not isinstance(log, LoggedArm):
        return worlds.table_of(described, seed=seed, horizon=people)
    if log.arm is None:
        raise InvalidParameter("a comparison needs a log of arms: one with [actions] cannot be filled in")
    cells, codes = described.read(), {label: code for code, label in enumerate(log.arms.labels)}
    return worlds.from_log(
        {name: cells[name] for name in described.schema.names},
        schema=described.schema,
        actions=np.array([codes.get(label, -1) for label in np.asarray(cells[log.arm]).tolist()]),
        rewards=np.asarray(cells[log.reward], dtype=np.float64),
        arms=log.arms.labels,
        reward_range=(0.0, 1.0) if log.reward_range is None else log.reward_range,
        seed=seed,
        horizon=people,
        name=described.name,
    )


def _gymnasium(name: str, low: float, high: float, seed: Seed, people: int | None) -> Any:
    with needing("gymnasium worlds need it: pip install gymnasium"):
        import gymnasium
    from dpbandits.adapters.gymnasium import GymWorld

    if people is None:
        raise InvalidParameter("gymnasium: an environment has no number of rounds: set people = [...]")
    return GymWorld(gymnasium.make(name), reward_range=(low, high), horizon=people, seed=seed)
