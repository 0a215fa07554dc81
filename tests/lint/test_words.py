"""The check of words finds what it says it finds, and the project has no more of it than is accepted."""

from pathlib import Path

import pytest

from lint.words import ACCEPTED, in_page, in_source, main

HERE = Path("x")


def rules(text: str, *, page: bool = False) -> list[str]:
    return [one.rule for one in (in_page if page else in_source)(HERE, text)]


@pytest.mark.parametrize(
    "text",
    [
        '"""Of the largest, where nobody says more."""\n',
        'DELTA = 1\n"""Where it is small."""\n',
        'def f(delta):\n    """Return it.\n\n    Args:\n        delta: of central promises.\n    """\n',
        'option = Option(help="Of central promises.")\n',
        'option = Option("--delta", help=f"In {1} of them.")\n',
    ],
)
def test_text_without_a_subject(text: str) -> None:
    assert rules(text) == ["start"]


@pytest.mark.parametrize(
    "text",
    [
        '"""Return the largest."""\n',
        'DELTA = 1\n"""Probability with which the guarantee may fail."""\n',
        'def f(delta):\n    """Return it.\n\n    Args:\n        delta: Probability of failure.\n    """\n',
        'option = Option(help="Probability of failure.")\n',
        'x = "Of no interest here."\n',
    ],
)
def test_text_with_a_subject(text: str) -> None:
    assert rules(text) == []


def test_headings() -> None:
    assert rules("# Where things are\n\nThey are here.\n", page=True) == ["start"]
    assert rules("# Where are things?\n\n```\n# Of code\n```\n", page=True) == []
    assert rules("# Trust models\n\nOf these there are four.\n", page=True) == []


def test_private_words_and_long_sentences() -> None:
    assert rules('"""Return the room."""\n') == ["word"]
    assert rules('raise ValueError("the room is closed")\n') == ["word"]
    assert rules("x = 1\n# The room is closed.\n") == ["word"]
    assert rules('"""Return `the room`."""\n') == []
    assert rules(f'"""{"word " * 36}."""\n') == ["long"]
    assert rules(f'"""{"word " * 30}. {"Word " * 30}."""\n') == []
    assert rules(f"{'word ' * 36}.\n", page=True) == ["long"]
    assert rules(f"```\n{'word ' * 36}.\n```\n\n| {'word ' * 36} |\n", page=True) == []
    assert rules("Some words. " * 800, page=True) == ["page"]
    assert rules(f'"""Words.\n\n===  ===\n{"word " * 36}\n===  ===\n\n{"word " * 36}.\n"""\n') == ["long"]
    assert rules(f'"""Words::\n\n    {"word " * 36}\n\n{"word " * 36}.\n"""\n') == ["long"]


def test_the_project_has_no_more_than_is_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    assert ACCEPTED.exists()
    assert main([]) == 0, capsys.readouterr().out
