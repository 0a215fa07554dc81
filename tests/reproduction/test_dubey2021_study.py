"""Dubey2021's experiments in miniature: cells, worlds, robustness of block release, report seeds."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from typer.testing import CliRunner

from dpbandits.errors import InvalidParameter
from dpbandits.lab.evaluation import run
from dpbandits.lab.evaluation.seeds import FIRST_REPORT_SEED
from dpbandits.lab.plot import to_png
from dpbandits.lab.study import run_cells
from dpbandits.local import Server
from dpbandits.local.contract.reports import Chosen
from dpbandits.policy import PublicCoins
from dpbandits.privacy import JointDP, SimulatedNoise
from dpbandits.privacy.prefix_sums import RELEASE_UNIT
from reproduction.__main__ import app
from reproduction.dubey2021 import worlds as dubey2021_worlds
from reproduction.dubey2021.cells import (
    AGGREGATED,
    BLOCKS,
    LOCAL,
    LOCAL_PUBLISHED,
    LOCAL_SHARP,
    OPEN,
    PAPER_COLUMNS,
    PRINTED,
    RANDOM,
    SHARP,
    TREE,
    PolicyCell,
    make_policy,
    picture,
)
from reproduction.dubey2021.gap_world import printed_world
from reproduction.dubey2021.items import STUDY
from reproduction.dubey2021.local import local_spec, simulate_published_local
from reproduction.dubey2021.parts import PARTS, WHOLE, PartsCell
from reproduction.dubey2021.tree import Parts, simulate_tree
from reproduction.experiments import Choice

FIRST = FIRST_REPORT_SEED


@pytest.fixture
def short(monkeypatch):
    """The first figure's world with 120 rounds."""

    def small(*, seed):
        return printed_world(seed=seed, horizon=120)

    monkeypatch.setitem(dubey2021_worlds.WORLDS, "printed", small)


@pytest.mark.parametrize("item", STUDY.items)
def test_every_item_has_every_column(item):
    found = STUDY.cells(item)
    columns = {
        "figure-1": PAPER_COLUMNS,
        "figure-2": PAPER_COLUMNS,
        "table-1": PAPER_COLUMNS,
        "table-1-parts": tuple(PARTS),
        "distributed": (BLOCKS, *AGGREGATED, LOCAL, OPEN, RANDOM),
        "distributed-blocks": tuple(cell.column for cell in found),
        "algorithm-3": (LOCAL, LOCAL_PUBLISHED, LOCAL_SHARP, OPEN, RANDOM),
    }
    assert {cell.column for cell in found} == set(columns[item])
    assert len({cell.name for cell in found}) == len(found)


def test_figure_in_miniature(short, tmp_path):
    results, _ = STUDY.run("figure-1", reps=2, out=tmp_path)
    assert len(results) == len(STUDY.cells("figure-1"))
    again, _ = STUDY.run("figure-1", reps=2, out=tmp_path)
    assert [r["regret"] for r in again] == [r["regret"] for r in results]
    by_column = {(r["column"], r["epsilon"]): r["regret"] for r in results}
    assert by_column[OPEN, None] < by_column[RANDOM, None]
    assert all(np.isfinite(r["regret"]) and r["standard_error"] >= 0 for r in results)
    assert {r["verdict"] for r in results} == {
        "not in the paper",
        "cannot be compared: curves, functions not given",
    }
    assert to_png(picture(results)).startswith(b"\x89PNG")


def test_command(short, tmp_path):
    arguments = ["dubey2021", "algorithm-3", "--reps", "2", "--column", RANDOM, "--column", LOCAL]
    ran = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path), "--json"])
    assert ran.exit_code == 0, ran.output
    assert '"column": "local"' in ran.output
    assert (tmp_path / "dubey2021-algorithm-3.png").exists()
    shown = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path)], env={"COLUMNS": "200"})
    assert shown.exit_code == 0, shown.output
    assert "not printed" in shown.output


def test_the_published_method_alone_and_what_is_named_beside_it(short):
    """`--published` runs Lemma 3's shift; a column that is named too stands beside it."""

    def columns(*words):
        ran = CliRunner().invoke(
            app, ["dubey2021", "figure-1", "--epsilon", "1", "--reps", "2", *words, "--json"]
        )
        assert ran.exit_code == 0, ran.output
        return {row["column"] for row in json.loads(ran.stdout)}

    assert columns("--published") == {TREE, PRINTED}
    assert columns("--published", "--column", SHARP) == {TREE, PRINTED, SHARP}


def test_columns_run_one_after_the_other_stand_side_by_side(short, tmp_path):
    """A run with --column must not throw away what the file holds of other columns."""

    def rows(*columns):
        arguments = ["dubey2021", "algorithm-3", "--reps", "2", "--out", str(tmp_path)]
        for column in columns:
            arguments += ["--column", column]
        ran = CliRunner().invoke(app, arguments)
        assert ran.exit_code == 0, ran.output
        return json.loads((tmp_path / "dubey2021-algorithm-3.json").read_text())

    first = rows(RANDOM)
    both = rows(LOCAL_PUBLISHED)
    assert [row["column"] for row in both] == [LOCAL_PUBLISHED] * 3 + [RANDOM]
    assert both[-1] == first[0]
    assert both == rows(LOCAL_PUBLISHED)  # and the same again
    assert {row["first_seed"] for row in both} == {FIRST}


def test_local_as_published_matches_devices_and_server_report_by_report(monkeypatch):
    """The simulated crowd is the real one: the same reports, packed, sent and absorbed one by one."""
    promise, seed = JointDP(epsilon=10.0, delta=1e-5), FIRST
    monkeypatch.setitem(dubey2021_worlds.WORLDS, "printed", partial(printed_world, horizon=12))
    simulated = simulate_published_local("printed", promise, seed)
    world = dubey2021_worlds.world_of("printed", seed)
    spec = local_spec("printed", promise, seed, published=True)
    tuning = replace(spec.tuning, constants={"horizon": 12.0})
    spec = replace(spec, learner="dubey2021", tuning=tuning)
    server, noise = Server(spec), SimulatedNoise(seed)
    size = spec.protocol.release.mechanism.size
    draws = noise.integer_gaussian(spec.protocol.release.sigma, 12 * size).reshape(12, size)
    regret = 0.0
    for t in range(12):
        policy, candidates = server.publish(), world.decision_sets(t, t + 1)[0]
        if t == 0:
            index = int(PublicCoins(seed).uniform("local/first", 0, 1, 1)[0, 0] * len(candidates))
        else:
            scores = policy.scores(spec.features(candidates), thompson_scale=0.0, normals=None)
            index = int(np.argmax(scores))
        reward = float(world.rewards(t, t + 1, [index])[0])
        raw = spec.protocol.exact(Chosen(version=t, arm=index, about=candidates[index]), reward)
        silent = spec.protocol.release.mechanism.to_coordinates(raw[0]) / RELEASE_UNIT
        values = np.rint(silent).astype(np.int64) + draws[t]
        head = bytes([0xD2]) + spec.digest + t.to_bytes(4, "little") + t.to_bytes(8, "little")
        assert server.absorb([head + values.astype("<i8").tobytes()]).accepted == 1
        means = world.mean_rewards(t, t + 1)[0]
        regret += means.max() - means[index]
    assert simulated["regret"] == pytest.approx(regret, abs=1e-12)


def test_tuning_seeds_are_refused(short):
    with pytest.raises(InvalidParameter):
        STUDY.run("figure-1", reps=2, seed=200)


def test_worlds_can_be_chosen(short):
    chosen = Choice(columns=[LOCAL], worlds=["printed"], epsilons=[10.0])
    results, _ = STUDY.run("algorithm-3", reps=2, choice=chosen)
    assert [result["world"] for result in results] == ["printed"]
    with pytest.raises(InvalidParameter, match="no such"):
        STUDY.run("algorithm-3", reps=2, choice=Choice(worlds=["nowhere"]))


def test_unknown_names_are_refused():
    with pytest.raises(InvalidParameter):
        STUDY.cells("figure9")
    with pytest.raises(InvalidParameter):
        dubey2021_worlds.world_of("nowhere", 0)
    with pytest.raises(InvalidParameter):
        PolicyCell(column="nothing", world="printed", epsilon=1.0, delta=1e-5).simulate(FIRST)
    with pytest.raises(InvalidParameter):
        PolicyCell(column=TREE, world="printed").simulate(FIRST)


@pytest.mark.parametrize("name", ["styblinski-tang-20", "michalewicz-10", "camelback"])
def test_table_worlds_have_features_for_everybody(name):
    world = dubey2021_worlds.world_of(name, 3)
    points = world.decision_sets(0, 2)
    for features in (dubey2021_worlds.block_features(name), dubey2021_worlds.tree_features(name)):
        phi = features(points)
        assert (np.linalg.norm(phi, axis=-1) <= 1.0).all()


def test_items_are_on_the_papers_grid():
    def promises(item):
        return {(cell.epsilon, cell.delta) for cell in STUDY.cells(item) if cell.epsilon is not None}

    assert promises("figure-1") == {(0.1, 0.1), (0.5, 0.1), (1.0, 0.1), (10.0, 0.1)}
    assert promises("figure-2") == {(1.0, 0.01), (1.0, 0.1), (1.0, 0.5), (1.0, 0.99)}
    assert promises("table-1") == {(10.0, 0.1), (1.0, 0.1), (0.1, 0.1)}
    assert {cell.world for cell in STUDY.cells("figure-1")} == {"printed"}
    assert (STUDY.item("figure-1").reps, STUDY.item("table-1").reps) == (20, 10)


def test_columns_of_the_tree_add_the_noise_they_name():
    promise, config = {"epsilon": 1.0, "delta": 1e-5}, {}
    for column in (TREE, PRINTED):
        config[column] = PolicyCell(column=column, world="printed", **promise).settings["policy"]
    assert config[TREE].get("paper_constants") is None
    assert config[PRINTED]["paper_constants"] == "lemma-2"


@pytest.mark.parametrize("name", ["printed", "styblinski-tang-20", "michalewicz-10"])
@pytest.mark.parametrize("column", [TREE, PRINTED])
def test_the_tree_on_arrays_chooses_as_the_policy_does(monkeypatch, name, column):
    """Some 70 rounds: releases of seven levels, features of both kinds."""
    short = partial(dubey2021_worlds.WORLDS[name], horizon=70)
    monkeypatch.setitem(dubey2021_worlds.WORLDS, name, short)
    promise = JointDP(epsilon=1.0, delta=1e-5)
    world = dubey2021_worlds.world_of(name, FIRST)
    policy, same = (make_policy(column, name, promise, FIRST) for _ in range(2))
    own = run(policy, world)
    record = simulate_tree(same, name, FIRST)
    assert record["regret"] == pytest.approx(own.regret.sum(), abs=1e-9)
    assert record["random"] == pytest.approx((own.best - own.uniform).sum(), abs=1e-9)
    cell = PolicyCell(column=column, world=name, epsilon=1.0, delta=1e-5)
    assert cell.simulate(FIRST)["regret"] == record["regret"]


def test_parts_of_the_tree_change_what_they_name(monkeypatch):
    short = partial(dubey2021_worlds.WORLDS["camelback"], horizon=70)
    monkeypatch.setitem(dubey2021_worlds.WORLDS, "camelback", short)
    records = {
        name: PartsCell(world="camelback", column=name, epsilon=10.0).simulate(FIRST) for name in PARTS
    }
    assert len({record["regret"] for record in records.values()}) == len(PARTS)
    assert records["beta_t 0"]["bonus"] == 0.0
    assert 0.0 < records["a tenth of beta_t"]["bonus"] < 0.2 * records[WHOLE]["bonus"]
    assert records["ten times the shift"]["bonus"] < records[WHOLE]["bonus"]
    assert len({record["random"] for record in records.values()}) == 1
    for wrong in ({"noise": -1.0}, {"shift": 0.0}, {"radius": 0.0, "estimate": 0.0}):
        with pytest.raises(InvalidParameter):
            Parts(**wrong)


@pytest.mark.slow
def test_block_release_learns_where_the_paper_does_not():
    """20 seeds: the means are 10 standard errors apart."""
    wanted = [PolicyCell(column=c, world="printed", epsilon=1.0, delta=0.1) for c in (BLOCKS, TREE)]
    runs = run_cells(wanted, seeds=range(FIRST, FIRST + 20))
    blocks, tree = (run.values("regret").mean() for run in runs)
    assert blocks < 80
    assert tree > 250
