"""How far something is: where it is shown, what it says, and that it is silent unless it is asked for."""

import io
import sys
import time

import pytest

import dpbandits as dpb
from dpbandits import _progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_without_a_terminal_a_line_comes_every_few_seconds(capsys, monkeypatch):
    """While one step lasts, too."""
    monkeypatch.setattr(_progress, "EVERY", 0.01)
    said = ""
    with _progress.watched("crowds", completed=2, total=4) as moved:
        moved(doing="the third")
        while said.count("crowds: 3 of 4, the third, 0 s") < 3:
            said += capsys.readouterr().err
    capsys.readouterr()
    time.sleep(0.05)
    assert capsys.readouterr().err == ""


def test_what_was_done_before_is_not_counted_as_quick(capsys, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(_progress, "EVERY", 0.01)
    monkeypatch.setattr(_progress.time, "monotonic", lambda: now[0])
    said = ""
    with _progress.watched("study", completed=90) as moved:
        now[0] += 10.0
        moved(completed=95, total=100)
        while "study: 95 of 100, 10 s, about 10 s left" not in said:
            said += capsys.readouterr().err


def test_on_a_terminal_there_is_a_bar_that_goes_away(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with _progress.watched("crowds", total=2) as moved:
        moved()
    assert "crowds" in screen.getvalue()
    assert screen.getvalue().endswith("\x1b[2K")  # the line is wiped


def table(seed):
    return dpb.lab.worlds.load("synthetic-income", seed=seed, horizon=60)


def uniform(world, seed):
    return dpb.lab.baselines.Uniform(domain=world.domain, reward_range=world.reward_range, seed=seed)


@pytest.mark.parametrize("progress", [False, True])
def test_the_library_is_silent_unless_it_is_asked(capsys, monkeypatch, progress):
    """Asked, it tells how many of a known number of seeds and rounds, by any policy."""
    monkeypatch.setattr(_progress, "EVERY", 0.0)
    seeds = dpb.lab.evaluation.report_seeds(1_000_000, 2)
    dpb.lab.evaluation.repeat(uniform, table, name="random", seeds=seeds, progress=progress)
    assert ("random: " in capsys.readouterr().err) is progress
    dpb.lab.evaluation.run(uniform(table(1_000_000), 0), table(1_000_000), progress=progress)
    assert (" of 60" in capsys.readouterr().err) is progress
