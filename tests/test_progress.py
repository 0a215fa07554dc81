"""How far something is: where it is shown, what it says, and that it is silent unless it is asked for."""

import io
import sys
import time
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

import dpbandits as dpb
from dpbandits import _progress
from dpbandits.lab.people import study as people_study


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    """Clock in seconds that a test moves."""

    def __init__(self, monkeypatch):
        self.now = 100.0
        monkeypatch.setattr(_progress, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(_progress, "EVERY", 0.001)


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


@pytest.fixture
def line(capsys):
    """Return the next whole line that begins after now."""

    def read():
        capsys.readouterr()
        said = ""
        while said.count("\n") < 2:
            said += capsys.readouterr().err
        return said.split("\n")[1]

    return read


def test_without_a_terminal_a_line_comes_every_few_seconds(capsys, clock, line):
    """Lines also come during one step, and none comes after the end."""
    with _progress.watched("crowds", completed=2, total=4) as moved:
        moved(doing="the third")
        assert [line(), line()] == ["crowds: 3 of 4, the third, 0 s"] * 2
    capsys.readouterr()
    time.sleep(0.05)
    assert capsys.readouterr().err == ""


def test_a_step_that_was_only_begun_is_not_counted(clock, line):
    with _progress.watched("study", total=2) as moved:
        moved(0, doing="first")
        clock.now += 10.0
        assert line() == "study: 0 of 2, first, 10 s"
        moved()
        moved(0, doing="second")
        assert line() == "study: 1 of 2, second, 10 s, about 10 s left"


def test_the_last_step_counts_down_too(clock, line):
    """The time left counts down, and unfinished steps do not change its estimate."""
    with _progress.watched("study", total=3) as moved:
        for _ in range(2):
            clock.now += 40.0
            moved()
        seen = []
        for _ in range(4):
            seen.append(line())
            clock.now += 15.0
        assert seen == [
            "study: 2 of 3, 1 min 20 s, about 40 s left",
            "study: 2 of 3, 1 min 35 s, about 25 s left",
            "study: 2 of 3, 1 min 50 s, about 10 s left",
            "study: 2 of 3, 2 min 5 s, longer than expected",
        ]
        moved()
        assert line() == "study: 3 of 3, 2 min 20 s"


def test_what_was_done_before_is_not_counted_as_quick(clock, line):
    """Steps from before the start, or finished within the first second, do not count in the estimate."""
    with _progress.watched("study") as moved:
        clock.now += 5.0
        moved(completed=90, total=100)
        clock.now += 10.0
        moved(completed=95, total=100)
        assert line() == "study: 95 of 100, 15 s, about 10 s left"
    with _progress.watched("auditing", total=20) as moved:
        for _ in range(10):
            clock.now += 0.01
            moved()
        assert line() == "auditing: 10 of 20, 0 s"
        clock.now += 9.9
        moved()
        assert line() == "auditing: 11 of 20, 10 s, about 1 min 29 s left"


def test_on_a_terminal_there_is_a_bar_that_goes_away(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with _progress.watched("crowds", total=2) as moved:
        moved()
    assert "crowds" in screen.getvalue()
    assert screen.getvalue().endswith("\x1b[2K")  # the line is wiped


def test_on_a_terminal_the_last_step_moves_too(monkeypatch, clock):
    """The bar is redrawn between updates, with the elapsed time."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with _progress.watched("study", total=2) as moved:
        clock.now += 20.0
        moved()
        for wanted in ("1 of 2, 20 s, about 20 s left", "1 of 2, 23 s, about 17 s left"):
            while wanted not in screen.getvalue():
                time.sleep(0.01)
            clock.now += 3.0


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


def test_a_study_is_at_its_last_count_when_all_is_done(monkeypatch):
    """A step is not counted when it begins, and the attack, which takes most of the time, counts in parts."""
    begun, finished, totals = {}, [0], []

    @contextmanager
    def watching(_what, *, total, shown):
        assert shown
        totals.append(total)

        def moved(steps=1, *, completed=None, doing=None):
            finished.append(finished[-1] + steps if completed is None else completed)
            if doing is not None:
                begun[doing] = finished[-1]

        yield moved

    monkeypatch.setattr(people_study, "watched", watching)
    monkeypatch.setattr(type(table(1_000_000)), "supervised_ceiling", lambda *_: 0.5)  # fits ten models
    study = people_study.TableStudy(
        make_environment=table, epsilons=(1.0,), reps=2, noise="simulated", attack_trials=50
    )
    study.run(progress=True)
    (total,) = totals
    assert finished == sorted(finished)
    assert finished[-1] == total
    assert begun["supervised ceiling"] == 0
    assert begun["random"] == 1
    assert begun["best constant arm"] == 3
    last = begun["attack on private"]
    assert max(begun.values()) == last < total
    assert len({count for count in finished if last < count < total}) >= 2
