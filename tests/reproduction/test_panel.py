"""The panel: disjoint tables, baselines that keep their promise, and cells that are kept."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from dpbandits.lab.evaluation import FIRST_REPORT_SEED
from dpbandits.privacy.calibration import gaussian_mu
from reproduction.studies import panel, panel_baselines, panel_tables
from reproduction.studies.tables_of_people import TUNING
from reproduction.tuning import panel_baselines as tuning

ROOT = Path(__file__).resolve().parents[2]
CHOSEN = ROOT / "reproduction" / "results" / "panel-tuning.json"


def test_no_other_study_page_or_tuning_program_uses_a_table_of_the_panel():
    own = {"panel_tables.py", "panel.json"}
    texts = [
        path.read_text()
        for folder in ("reproduction", "docs", "examples", "benchmarks")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".md", ".toml", ".json", ".ipynb") and path.name not in own
    ]
    named = {pair for text in texts for pair in re.findall(r'"(\w+)", ?"([\w.]+)"', text)}
    named |= {pair for text in texts for pair in re.findall(r"\b(\w+)/([\w.]+)\b", text)}
    assert {("AER", "CPSSW8"), ("ggplot2", "diamonds"), ("dplyr", "storms")} <= named  # both ways are found
    assert not panel_tables.sources() & named


def test_there_are_enough_tables_and_every_kind_is_there_twice():
    assert len(panel_tables.PUBLIC) >= 12
    assert len(panel_tables.sources()) == len(panel_tables.PUBLIC)
    for kind in panel_tables.KINDS:
        own = [name for name, table in panel_tables.TABLES.items() if kind in table.kinds]
        assert len(own) >= 2, kind
        assert set(own) & set(panel_tables.PUBLIC), kind


def test_made_tables_are_what_they_say():
    people = panel_tables.crescent()
    assert len(people.contexts) >= panel.LOCAL
    assert people.contexts.min() >= 0.0
    assert people.contexts.max() <= 1.0
    wide = panel_tables.widened(people)
    assert np.ptp(wide.contexts, axis=0).max() <= 1.0 / panel_tables.TOO_WIDE + 1e-12
    padded = panel_tables.padded(people)
    assert padded.contexts.shape[1] == len(padded.categories) == 2 + panel_tables.IRRELEVANT
    assert (padded.contexts[:, :2] == people.contexts).all()
    added = padded.contexts[:, 2:] - padded.contexts[:, 2:].mean(axis=0)
    paid = people.rewards - people.rewards.mean(axis=0)
    correlation = added.T @ paid / len(paid) / np.outer(added.std(axis=0), paid.std(axis=0))
    assert np.abs(correlation).max() < 6.0 / np.sqrt(len(paid))  # 60 pairs: false alarms below 1e-6


def test_constants_of_baselines_come_from_other_tables_and_seeds():
    found = json.loads(CHOSEN.read_text())
    allowed = {*TUNING, *(f"{name}-two" for name in tuning.TWO_OF), *tuning.MADE}
    assert set(found["tables"]) == allowed
    assert not allowed & set(panel_tables.TABLES)
    assert found["first_seed"] + found["seeds"] < FIRST_REPORT_SEED <= panel.FIRST_SEED
    wanted = {
        panel_baselines.key_of(setting, way, epsilon)
        for setting, epsilons in panel.EPSILONS.items()
        for way in panel.WAYS[setting]
        for epsilon in epsilons
    }
    assert set(found["chosen"]) == wanted
    for key, constants in found["chosen"].items():
        first = panel_baselines.FIRST[key.split("/")[1]]
        assert set(constants) == set(first)


def small(folder, *more):
    """The panel on a made table, with few people."""
    arguments = ["--only", "crescent", "--seeds", "2", "--most", "160", "--cells", str(folder / "cells")]
    panel.main([*arguments, *more, "--out", str(folder / "out")])
    return json.loads((folder / "out").read_text())


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A folder of cells, and the results."""
    folder = tmp_path_factory.mktemp("panel")
    return folder, small(folder)


def test_policies_are_run_again_without_their_baselines(ran):
    folder, results = ran
    assert results["cells"] == 9
    assert len(results["rows"][0]["ways"]) >= 4
    files = {path: path.read_text() for path in (folder / "cells").rglob("*.json")}
    ways = {setting: 1 + len(own) for setting, own in panel.WAYS.items()}
    assert len(files) == 2 * 3 * sum(ways.values()) + 2 * 3 * len(panel.CEILINGS)
    for path, text in files.items():
        path.write_text(json.dumps(json.loads(text) | {"seconds": -1.0}))
    again = small(folder, "--again", "policies")
    kept = {path for path in files if json.loads(path.read_text())["seconds"] == -1.0}
    assert {path for path in files if "policies" not in path.parts} == kept
    assert again["rows"] == results["rows"]


def test_policies_of_one_setting_are_run_again_alone(ran):
    folder, results = ran
    files = list((folder / "cells" / "policies").rglob("*.json"))
    for path in files:
        path.write_text(json.dumps(json.loads(path.read_text()) | {"seconds": -1.0, "code": "earlier"}))
    again = small(folder, "--again", "policies", "--settings", "local")
    kept = {path.parts[-3] for path in files if json.loads(path.read_text())["seconds"] == -1.0}
    assert kept == {"learn", "online"}
    assert again["rows"] == results["rows"]
    assert again["code"] == results["code"] | {f"policies {setting}": "earlier" for setting in kept}
    small(folder, "--again", "policies")


def test_runs_of_different_sources_are_refused(ran, tmp_path):
    folder, _ = ran
    path = next((folder / "cells" / "baselines").rglob("*.json"))
    text = path.read_text()
    path.write_text(json.dumps(json.loads(text) | {"code": "another"}))
    with pytest.raises(SystemExit, match="--again baselines --settings "):
        small(folder)
    path.write_text(text)


def test_every_way_sees_the_same_people_and_each_once():
    people = panel_tables.crescent()
    one, other = (panel.Order(people, "learn", 5, most=900) for _ in range(2))
    assert (one.contexts == other.contexts).all()
    assert one.split == 675
    assert (one.log[1] == other.log[1]).all()
    assert len(np.unique(one.contexts, axis=0)) == 900
    shares = np.bincount(panel.Order(people, "learn", 5).log[1]) / panel.LOG
    assert np.abs(shares - 0.25).max() < 6.0 * np.sqrt(0.25 * 0.75 / panel.LOG)
    few = panel_tables.People(people.contexts[:70], people.rewards[:70], people.categories)
    crowd = panel.Order(few, "local", 5, most=140)
    assert len(np.unique(crowd.contexts, axis=0)) == 70  # everyone twice


# -- baselines keep what they promise --------------------------------------------------------------


SETUP = panel_baselines.Setup(categories=(0, 3, 0), arms=3, epsilon=1.0, people=400)


def block(seed, n=400):
    """Contexts, arms and rewards of a block."""
    rng = np.random.default_rng(seed)
    contexts = np.column_stack([rng.random(n), rng.integers(0, 3, n), rng.random(n)])
    return contexts, rng.integers(0, 3, n), rng.integers(0, 2, n).astype(float)


def learner_of(way, seed=0, **more):
    constants = panel_baselines.FIRST[way] | more
    return panel_baselines.CENTRAL[way](SETUP, constants, np.random.default_rng(seed))


@pytest.mark.parametrize("way", ["ridge", "adassp", "gradient descent", "boosted"])
@pytest.mark.parametrize("blocks", [1, 2])
def test_gaussian_releases_of_a_block_spend_the_promise_and_no_more(way, blocks, monkeypatch):
    spent = []
    monkeypatch.setattr(
        panel_baselines.Central,
        "noise",
        lambda self, sensitivity, share, shape: spent.append(share) or np.zeros(shape),
    )
    learner = learner_of(way)
    for number in range(blocks):
        spent.clear()
        learner.learn(*block(number), uniform=number == 0)
        assert 0.9 < sum(spent) <= 1.0 + 1e-9


def test_noise_has_the_deviation_of_its_share():
    learner = learner_of("ridge")
    drawn = learner.noise(2.0, 0.25, 200_000)
    wanted = 2.0 / (gaussian_mu(1.0, panel_baselines.DELTA) * 0.5)
    assert drawn.std() == pytest.approx(wanted, rel=0.01)  # 6 standard errors


@pytest.mark.parametrize("ratio", [0.25, 1.0, 2.0])
def test_the_sums_of_a_ridge_move_by_no_more_than_their_sensitivity(ratio):
    """One row is replaced by another, in the coordinates in which noise is drawn."""
    learner, rng = learner_of("ridge", ratio=ratio), np.random.default_rng(0)

    def coordinates(context, arm, reward):
        gram, vectors = learner.sums(context[None], np.array([arm]), np.array([reward]))
        upper = np.triu(gram, 1)[np.triu_indices(len(gram), 1)] * np.sqrt(2.0)
        return np.concatenate([np.diag(gram), upper, np.sqrt(ratio) * vectors.ravel()])

    most = 0.0
    for _ in range(400):
        contexts = np.column_stack([rng.integers(0, 2, 2), rng.integers(0, 3, 2), rng.random(2)]) * 1.0
        arms, rewards = rng.integers(0, 2, 2), rng.integers(0, 2, 2) * 1.0
        one, other = (coordinates(*row) for row in zip(contexts, arms, rewards, strict=True))
        most = max(most, float(np.linalg.norm(one - other)))
    bound = (2.0 + ratio) / np.sqrt(2.0)
    assert 0.7 * bound < most <= bound + 1e-9


def test_rows_are_no_longer_than_one():
    contexts = block(3)[0]
    for design in ("linear", "squares", "bins", "products"):
        for bound in (0.35, 1.0):
            rows = panel_baselines.features(SETUP, contexts, design, bound)
            assert np.linalg.norm(rows, axis=1).max() <= 1.0 + 1e-12


def test_a_person_is_in_as_many_nodes_of_the_tree_as_its_noise_is_for(monkeypatch):
    batches, holding = 16, []
    learner = learner_of("tree linucb", batches=batches)
    real = panel_baselines.Central.noise

    def noise(self, sensitivity, share, shape):
        assert share == 1.0
        assert sensitivity == pytest.approx(3.0 / np.sqrt(2.0) * np.sqrt(self.levels))
        return real(self, sensitivity, share, shape)

    monkeypatch.setattr(panel_baselines.Central, "noise", noise)
    for number in range(batches - 1):
        learner.learn(*block(number, 30), uniform=True)
        holding.append(learner.nodes[-1][0])  # the new node holds the last 2^height batches
    inside = [
        sum(end - 2**height < batch <= end for end, height in enumerate(holding)) for batch in range(15)
    ]
    assert max(inside) <= learner.levels
    assert sum(2 ** node[0] for node in learner.nodes) == batches - 1


def test_shares_of_a_histogram_add_up(monkeypatch):
    spent = []
    real = panel_baselines.OneColumn.drawn
    monkeypatch.setattr(
        panel_baselines.OneColumn,
        "drawn",
        lambda self, columns, share, shape: (
            spent.append((columns, share)) or real(self, columns, share, shape)
        ),
    )
    learner = learner_of("one column")
    learner.learn(*block(0), uniform=True)
    share = learner.constants["choice"]
    assert spent == [(3, share)] * 3 + [(1, 1.0 - share)]
    spent.clear()
    learner.learn(*block(1), uniform=False)
    assert spent == [(1, 1.0)]


def test_randomised_responses_have_the_law_that_they_promise():
    rng, n, epsilon = np.random.default_rng(0), 200_000, 1.3
    said = panel_baselines.randomised(np.full(n, 2), 5, epsilon, rng)
    shares = np.bincount(said, minlength=5) / n
    wanted = np.exp(epsilon * (np.arange(5) == 2)) / (np.exp(epsilon) + 4.0)
    assert np.abs(shares - wanted).max() < 6.0 * np.sqrt(0.25 / n)
    estimate = panel_baselines.counted(said, 5, epsilon) / n
    assert np.abs(estimate - (np.arange(5) == 2)).max() < 0.02
    flipped = panel_baselines.flipped(np.ones(n, dtype=bool), epsilon, rng).mean()
    assert abs(flipped - 1.0 / (1.0 + np.exp(-epsilon))) < 6.0 * np.sqrt(0.25 / n)


def test_reports_of_vectors_are_unbiased_and_their_law_hardly_depends_on_them():
    rng, n, epsilon = np.random.default_rng(0), 200_000, 1.0
    vector = np.array([0.5, -0.2, 0.1])
    sent = panel_baselines.in_ball(np.tile(vector, (n, 1)), epsilon, rng)
    size = np.linalg.norm(sent, axis=1)
    assert size == pytest.approx(size[0])
    assert np.abs(sent.mean(axis=0) - vector).max() < 6.0 * size[0] / np.sqrt(3.0 * n)
    whole = panel_baselines.in_ball(np.tile([1.0, 0.0, 0.0], (n, 1)), epsilon, rng)
    towards = (whole[:, 0] > 0.0).mean()
    assert abs(towards - 1.0 / (1.0 + np.exp(-epsilon))) < 6.0 * np.sqrt(0.25 / n)


@pytest.mark.parametrize("way", tuple(panel_baselines.CENTRAL))
def test_central_baselines_learn_where_there_is_much_to_learn(way):
    """4,000 people at epsilon 3: an arm for each half of a column, and a third arm that pays nothing."""
    rng = np.random.default_rng(0)
    contexts = np.column_stack([rng.random(4_000), rng.integers(0, 3, 4_000), rng.random(4_000)])
    right = contexts[:, 0] > 0.5
    rewards = np.column_stack([right, ~right, np.zeros(4_000)]).astype(np.uint8)
    more = {"explore": 0.3} if way != "tree linucb" else {}
    earned = panel_baselines.online(way, contexts, rewards, (0, 3, 0), 3.0, 1, **more)
    assert earned > (0.4 if way == "best arm" else 0.6)


@pytest.mark.parametrize("way", tuple(panel_baselines.LOCAL))
def test_local_baselines_learn_where_there_is_much_to_learn(way):
    rng = np.random.default_rng(0)
    contexts = np.column_stack([rng.random(8_000), rng.integers(0, 3, 8_000)])
    right = contexts[:, 0] > 0.5
    rewards = np.column_stack([right, ~right, np.zeros(8_000)]).astype(np.uint8)
    more = panel_baselines.FIRST[way]
    earned = panel_baselines.local(way, contexts, rewards, (0, 3), 4.0, 1, **more)
    assert earned > (0.4 if way == "local best arm" else 0.55)
