"""Every task that people come with has a page or an example, and none of them is long.

The documentation's build runs guides and what is called plot_*, `test_examples.py` the other examples; here
only their length and their being there are looked at.
"""

import ast
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GUIDES, EXAMPLES = ROOT / "docs" / "guides", ROOT / "examples"
MOST_LINES = 30

TASKS = {
    "personalise": "personalise-offers.md",
    "prices, bids": "personal-prices.md",
    "doses": "personal-doses.md",
    "discounts": "discounts.md",
    "arms that come and go": "arms-come-and-go.md",
    "products": "products.md",
    "delayed": "delayed-rewards.md",
    "five visits": "returning-visitors.md",
    "arms with contexts in local": "own-devices.md",
    "log to policy": "log-to-policy.md",
    "log in Python": "learn-from-a-log.md",
    "number from a log": "number-from-a-log.md",
    "devices and their server": "devices.md",
    "other people's reports": "transfer.md",
    "curator and modeler": "outsourced.md",
    "move from another library": "moving.md",
    "log to adaptive policy": "plot_warm_start.py",
    "did it work": "did-it-work.md",
    "box": "over-a-box.md",
    "why nothing is learned": "why-nothing-is-learned.md",
    "optimise over a stranger's table": "outsourced-table.md",
    "save, kill, go on": "save-and-restart.md",
    "unseen categories": "unseen-categories.md",
    "several experiments on one budget": "several-experiments.md",
    "many columns": "many-columns.md",
    "privacy officer": "../tutorials/privacy-officer.md",
    "choose epsilon": "plot_choose_epsilon.py",
    "plot own simulator": "plot_own_simulator.py",
    "see what was learned": "plot_what_was_learned.py",
    "local reports": "plot_local_reports.py",
    "budget left": "plot_budget_left.py",
    "replicas from a published policy": "replicas.py",
    "web handler": "web_handler.py",
    "Optuna": "optuna_study.py",
    "scikit-learn": "scikit_learn_log.py",
    "Open Bandit Pipeline": "open_bandit.py",
    "Gymnasium": "gymnasium_world.py",
}
"""Task -> guide or example; what stands in the table of `docs/guides/index.md`."""

CELL = re.compile(r"^```\{code-cell\} python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def code_of(name: str) -> str:
    """What a reader sees and types: cells that only draw what a page shows are not theirs."""
    if name.endswith(".py"):
        text = (EXAMPLES / name).read_text(encoding="utf-8")
        code = "\n".join(text.splitlines()[ast.parse(text).body[0].end_lineno :])
        return code if name.startswith("plot_") else code.split("# %%")[0]  # what follows only calls it
    cells = CELL.findall((GUIDES / name).read_text(encoding="utf-8"))
    return "\n".join(cell for cell in cells if not cell.startswith(":tags: [remove-input]"))


def lines_of(code: str) -> int:
    return sum(bool(line.strip()) and not line.lstrip().startswith("#") for line in code.splitlines())


@pytest.mark.parametrize("task", TASKS)
def test_a_task_has_a_short_page_that_calls_the_library(task: str) -> None:
    code = code_of(TASKS[task])
    compile(re.sub(r"^(!|:tags:).*", "", code, flags=re.MULTILINE), TASKS[task], "exec")
    assert "dpb." in code
    assert 5 <= lines_of(code) <= MOST_LINES


def test_the_index_lists_every_task_and_every_guide() -> None:
    index = (GUIDES / "index.md").read_text(encoding="utf-8")
    for name in TASKS.values():
        link = f"../auto_examples/{name[:-3]}.rst" if name.endswith(".py") else name
        assert f"[]({link})" in index
    for page in GUIDES.glob("*.md"):
        assert page.name == "index.md" or f"[]({page.name})" in index


def test_the_readme_shows_how_many_people_one_needs_as_it_was_measured() -> None:
    rows = json.loads((ROOT / "reproduction" / "results" / "people-needed.json").read_text(encoding="utf-8"))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for row in rows:
        above, error = row["above_constant"], row["above_constant_error"]
        assert f"| {row['people']:,} | {above:+.4f} ± {error:.4f} |" in readme


NUMBERS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def test_the_guide_to_plans_has_the_figures_of_the_validations() -> None:
    results = ROOT / "reproduction" / "results"
    segments = [
        json.loads((results / f"{name}.json").read_text(encoding="utf-8"))["summary"]
        for name in ("plan-validation", "plan-validation-seventh")
    ]
    two = json.loads((results / "plan-validation-distributed.json").read_text(encoding="utf-8"))["summary"]
    page = " ".join((GUIDES / "plan.md").read_text(encoding="utf-8").split())
    wrong = sum(one["reachable_but_not_said"] for one in segments)
    unreachable = wrong + sum(one["rightly_not_reachable"] for one in segments)
    recommended = sum(one["recommended"] for one in segments)
    above = recommended - round(sum(one["within_twice"] * one["recommended"] for one in segments))
    assert f"{NUMBERS[wrong]} of {unreachable} *not reachable* were wrong" in page
    assert f"{NUMBERS[above].capitalize()} of {NUMBERS[recommended]} recommended epsilons" in page
    assert f"{round(two['covered'] * two['shares'])} of {two['shares']} shares lay in the bands" in page
    assert f"{NUMBERS[round(two['most_times_smallest'])]} times the smallest sufficient one" in page


def test_lines_are_counted_as_they_are_read() -> None:
    assert lines_of("a = 1\n\n# why\nb = 2\n") == 2
    assert len(list(EXAMPLES.glob("plot_*.py"))) >= 10
