"""Every natural mistake is understood or answered in our own words, and no private value comes back."""

import pytest

from messages.mistakes import MISTAKES, SECRETS, answer, as_markdown, place


@pytest.fixture
def files():
    with place():
        yield


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda one: f"{one.room}: {one.title}")
def test_a_mistake_is_understood_or_answered(files, mistake):
    got = answer(mistake)
    assert got.ours, got
    assert bool(got.kind) == bool(mistake.says), got
    for text in mistake.says:
        assert text in got.message
    for secret in SECRETS:
        assert secret not in got.message
    assert len(mistake.code.splitlines()) <= 3


def test_there_are_at_least_eighty_of_them_in_every_room():
    assert len({one.code for one in MISTAKES}) == len(MISTAKES) >= 80
    rooms = {"central", "commands", "keeping", "lab", "local", "outsourced", "promises", "tables"}
    assert {one.room for one in MISTAKES} == rooms


def test_the_page_shows_what_was_written_and_what_was_answered():
    page = as_markdown("promises")
    assert "| another library's name | `dpb.kernels.RBF` | **AttributeError**: module " in page
    assert "| numbers without names | `dpb.JointDP(1, 1e-6)` | *understood* |" in page
    assert len(page.splitlines()) == 2 + sum(one.room == "promises" for one in MISTAKES)
