"""StateStore: a failure at every single step of a commit, and copies that must not both go on."""

import os
import shutil
import stat
from pathlib import Path

import numpy as np
import pytest

from dpbandits.budget import MemoryLedger, SQLiteLedger
from dpbandits.errors import CorruptState, ForkedState, IncompatibleState, StateError
from dpbandits.state import State, StateStore, read_state, write_state
from dpbandits.state.format import MAGIC, encode, read_identity


class Crash(BaseException):
    """A crash: nothing in the library catches it."""


def state(position, *, draw=0.0, lineage="life"):
    return State(
        kind="test", version=1, lineage=lineage, position=position, arrays={"draw": np.array([draw])}
    )


def draw(saved):
    return float(saved.arrays["draw"][0])


class Steps:
    """Crashes at the n-th durable step of whatever runs, before or after it takes effect."""

    def __init__(self, monkeypatch, ledger, *, crash_at=None):
        self.log = []
        self.crash_at = crash_at
        for name in ("write", "fsync", "replace", "fchmod"):
            monkeypatch.setattr(os, name, self.counted(name, getattr(os, name)))
        monkeypatch.setattr(Path, "unlink", self.counted("unlink", Path.unlink))
        if ledger is not None:
            monkeypatch.setattr(ledger, "advance", self.counted("advance", ledger.advance))

    def counted(self, name, function):
        def step(*args, **keywords):
            self.reach(f"before {name}")
            if name == "write":  # a torn write, then the rest
                descriptor, data = args
                function(descriptor, data[: len(data) // 2])
                self.reach("within write")
                function(descriptor, data[len(data) // 2 :])
                return len(data)
            result = function(*args, **keywords)
            self.reach(f"after {name}")
            return result

        return step

    def reach(self, label):
        self.log.append(label)
        if len(self.log) - 1 == self.crash_at:
            raise Crash(label)


def crashes_at(step, directory, ledger, action):
    """Run `action(store)` with a crash at a step; whether there was such a step."""
    with pytest.MonkeyPatch.context() as patch:
        steps = Steps(patch, ledger, crash_at=step)
        try:
            action(StateStore(directory / "s", ledger))
        except Crash:
            return True
        assert len(steps.log) <= step
        return False


def every_step():
    """Numbers of steps; more than any commit or load has."""
    return range(60)


@pytest.fixture(params=["memory", "sqlite", "none"])
def make_ledger(request, tmp_path):
    def make(name):
        if request.param == "memory":
            return MemoryLedger()
        return SQLiteLedger(tmp_path / f"{name}.db") if request.param == "sqlite" else None

    return make


def test_the_order_of_durable_steps(tmp_path, monkeypatch):
    """Contents before the directory entry, that before the witness, that before the rename."""
    ledger = MemoryLedger()
    steps = Steps(monkeypatch, ledger)
    StateStore(tmp_path / "s", ledger).commit(state(1))
    done = [label for label in steps.log if label.startswith("after")]
    assert done == [
        "after fchmod",
        "after fsync",  # the file
        "after fsync",  # its name
        "after advance",
        "after replace",
        "after fsync",  # the new name
    ]


@pytest.mark.parametrize("first", [True, False], ids=["first commit", "later commit"])
def test_a_crash_at_any_step_leaves_one_of_the_two_states(tmp_path, make_ledger, first):
    crashed = 0
    for step in every_step():
        directory = tmp_path / str(step)
        directory.mkdir()
        ledger = make_ledger(step)
        store = StateStore(directory / "s", ledger)
        if not first:
            store.commit(state(1, draw=0.25))
        position = 1 if first else 2
        if not crashes_at(step, directory, ledger, lambda s, p=position: s.commit(state(p, draw=0.5))):
            break
        crashed += 1
        witnessed = ledger is not None and ledger.last("life") == (
            position,
            encode(state(position, draw=0.5))[1],
        )
        try:
            found = store.load()
        except FileNotFoundError:
            found = None
        # What the witness has seen comes back exactly; otherwise either state may.
        if witnessed:
            assert (found.position, draw(found)) == (position, 0.5)
        elif found is None or found.position == position - 1:
            assert (found is None) == first
            assert first or draw(found) == 0.25
        else:
            assert ledger is None
            assert (found.position, draw(found)) == (position, 0.5)
        # The outcome is final, nothing is left over, and life goes on.
        if found is not None:
            assert draw(store.load()) == draw(found)
            assert {file.name for file in directory.iterdir()} == {"s", "s.lock"}
        reached = 0 if found is None else found.position
        store.commit(state(reached + 1, draw=0.75))
        assert (store.load().position, draw(store.load())) == (reached + 1, 0.75)
    assert crashed >= 12 if ledger is None else crashed >= 14


def test_a_crash_while_recovering_from_a_crash_changes_nothing(tmp_path):
    """Every step of a commit, then every step of the load that follows: what the witness saw stays."""
    pairs = 0
    for step in every_step():
        for load_step in every_step():
            directory = tmp_path / f"{step}-{load_step}"
            directory.mkdir()
            ledger = MemoryLedger()
            store = StateStore(directory / "s", ledger)
            store.commit(state(1, draw=0.25))
            if not crashes_at(step, directory, ledger, lambda s: s.commit(state(2, draw=0.5))):
                assert pairs > 15
                return
            twice = crashes_at(load_step, directory, ledger, lambda s: s.load())
            pairs += twice
            found = store.load()
            assert ledger.last("life") == (found.position, read_identity(directory / "s").digest)
            assert (found.position, draw(found)) in {(1, 0.25), (2, 0.5)}
            if not twice:
                break


def test_a_crash_while_repeating_a_commit_changes_nothing(tmp_path):
    for step in every_step():
        for repeat_step in every_step():
            directory = tmp_path / f"{step}-{repeat_step}"
            directory.mkdir()
            ledger = MemoryLedger()
            store = StateStore(directory / "s", ledger)
            store.commit(state(1, draw=0.25))
            if not crashes_at(step, directory, ledger, lambda s: s.commit(state(2, draw=0.5))):
                assert step > 10
                return
            twice = crashes_at(repeat_step, directory, ledger, lambda s: s.commit(state(2, draw=0.5)))
            found = store.load()
            assert ledger.last("life") == (found.position, read_identity(directory / "s").digest)
            assert (found.position, draw(found)) in {(1, 0.25), (2, 0.5)}
            if not twice:
                assert found.position == 2
                break


def test_a_ledger_that_fails_leaves_a_commit_that_can_be_repeated(tmp_path):
    class Failing(MemoryLedger):
        """Fails, half the time after it has written: the caller cannot know."""

        fail = None

        def advance(self, lineage, *, position, digest):
            if self.fail == "before":
                raise StateError("busy")
            super().advance(lineage, position=position, digest=digest)
            if self.fail == "after":
                raise StateError("connection lost")

    for when in ("before", "after"):
        ledger = Failing()
        store = StateStore(tmp_path / when, ledger)
        store.commit(state(1))
        ledger.fail = when
        with pytest.raises(StateError):
            store.commit(state(2, draw=0.5))
        ledger.fail = None
        if when == "after":  # another draw may not take the place of the one that was witnessed
            with pytest.raises(ForkedState):
                store.commit(state(2, draw=0.75))
        store.commit(state(2, draw=0.5))
        assert draw(store.load()) == 0.5


def test_a_full_disk_leaves_the_last_state(tmp_path, monkeypatch):
    store = StateStore(tmp_path / "s", MemoryLedger())
    store.commit(state(1, draw=0.25))
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(OSError, match="No space"):
            store.commit(state(2))
    assert {file.name for file in tmp_path.iterdir()} == {"s", "s.lock"}
    store.commit(state(2, draw=0.5))
    assert draw(store.load()) == 0.5


def test_of_two_copies_the_second_to_advance_is_forked(tmp_path):
    ledger = SQLiteLedger(tmp_path / "ledger.db")
    StateStore(tmp_path / "a", ledger).commit(state(1))
    shutil.copy(tmp_path / "a", tmp_path / "b")
    first, second = StateStore(tmp_path / "a", ledger), StateStore(tmp_path / "b", ledger)
    assert first.load().position == second.load().position == 1
    first.commit(state(2, draw=0.25))
    before = (tmp_path / "b").read_bytes()
    with pytest.raises(ForkedState, match="position 2"):
        second.commit(state(2, draw=0.5))
    with pytest.raises(ForkedState, match="position 1"):
        second.load()
    assert (tmp_path / "b").read_bytes() == before
    assert not (tmp_path / "b.next").exists()
    first.commit(state(3))
    with pytest.raises(ForkedState):
        second.commit(state(2, draw=0.5))
    # Saving the very same continuation elsewhere is no fork.
    StateStore(tmp_path / "c", ledger).commit(state(3))
    assert StateStore(tmp_path / "c", ledger).load().position == 3


def test_a_copy_that_loses_the_race_at_the_ledger_leaves_nothing(tmp_path):
    """The other copy advances between our question and our advance."""

    class Raced(MemoryLedger):
        def advance(self, lineage, *, position, digest):
            if position == 2:
                super().advance(lineage, position=2, digest="the other copy's")
            super().advance(lineage, position=position, digest=digest)

    ledger = Raced()
    store = StateStore(tmp_path / "s", ledger)
    store.commit(state(1))
    with pytest.raises(ForkedState):
        store.commit(state(2))
    assert {file.name for file in tmp_path.iterdir()} == {"s", "s.lock"}
    assert read_state(tmp_path / "s").position == 1


def test_a_stale_process_cannot_destroy_an_interrupted_commit(tmp_path):
    """A crashed after its witness; B, still alive at the position before, must not overwrite `.next`."""
    ledger = MemoryLedger()
    store = StateStore(tmp_path / "s", ledger)
    store.commit(state(1))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(Crash))
        with pytest.raises(Crash):
            store.commit(state(2, draw=0.25))
    with pytest.raises(ForkedState):
        StateStore(tmp_path / "s", ledger).commit(state(2, draw=0.5))
    assert draw(StateStore(tmp_path / "s", ledger).load()) == 0.25


def test_one_path_without_a_ledger_still_notices_a_fork(tmp_path):
    first, second = StateStore(tmp_path / "s"), StateStore(tmp_path / "s")
    first.commit(state(1))
    first.commit(state(2, draw=0.25))
    with pytest.raises(ForkedState):
        second.commit(state(2, draw=0.5))
    with pytest.raises(ForkedState):
        second.commit(state(1))
    assert draw(second.load()) == 0.25


def test_repeating_a_commit_writes_nothing(tmp_path, make_ledger):
    ledger = make_ledger("ledger")
    store = StateStore(tmp_path / "s", ledger)
    store.commit(state(1))
    with pytest.MonkeyPatch.context() as patch:
        steps = Steps(patch, ledger)
        store.commit(state(1))
    assert steps.log == []


def test_an_occupied_path_is_not_overwritten(tmp_path):
    path = tmp_path / "s"
    StateStore(path).commit(state(7, lineage="another"))
    with pytest.raises(IncompatibleState, match="another lineage"):
        StateStore(path).commit(state(8))
    assert read_state(path).lineage == "another"
    path.write_text("my notes")
    with pytest.raises(CorruptState):
        StateStore(path).commit(state(8))
    assert path.read_text() == "my notes"


def test_a_lineage_the_ledger_has_never_seen_needs_adoption(tmp_path):
    StateStore(tmp_path / "s").commit(state(4))
    ledger = MemoryLedger()
    store = StateStore(tmp_path / "s", ledger)
    with pytest.raises(IncompatibleState, match="adopt=True"):
        store.load()
    assert ledger.last("life") is None
    assert store.load(adopt=True).position == 4
    store.commit(state(5))
    assert store.load().position == 5


def test_the_wrong_ledger_destroys_nothing(tmp_path):
    """Loading an interrupted commit with a ledger that knows nothing leaves it for the right one."""
    ledger = MemoryLedger()
    store = StateStore(tmp_path / "s", ledger)
    for position in (1, 2):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(Crash))
            with pytest.raises(Crash):
                store.commit(state(position, draw=0.5))
        with pytest.raises((IncompatibleState, FileNotFoundError)):
            StateStore(tmp_path / "s", MemoryLedger()).load()
        assert store.load().position == position


def test_a_state_ahead_of_the_ledger_is_refused(tmp_path):
    """The ledger was restored from a backup, or someone went on without it."""
    ledger = MemoryLedger()
    StateStore(tmp_path / "s", ledger).commit(state(1))
    StateStore(tmp_path / "s").commit(state(2))
    with pytest.raises(ForkedState):
        StateStore(tmp_path / "s", ledger).load()


def test_a_restored_backup_of_the_state_is_refused(tmp_path):
    ledger = MemoryLedger()
    store = StateStore(tmp_path / "s", ledger)
    store.commit(state(1))
    shutil.copy(tmp_path / "s", tmp_path / "backup")
    store.commit(state(2))
    shutil.copy(tmp_path / "backup", tmp_path / "s")
    with pytest.raises(ForkedState):
        store.load()


def test_another_state_at_the_witnessed_position_is_refused(tmp_path):
    ledger = MemoryLedger()
    StateStore(tmp_path / "s", ledger).commit(state(1, draw=0.25))
    write_state(tmp_path / "s", state(1, draw=0.5))
    with pytest.raises(ForkedState):
        StateStore(tmp_path / "s", ledger).load()


def test_a_torn_next_file_is_discarded_unless_it_was_witnessed(tmp_path):
    ledger = MemoryLedger()
    store = StateStore(tmp_path / "s", ledger)
    store.commit(state(1))
    data, digest = encode(state(2))
    for length in (0, 1, len(MAGIC), len(data) // 2, len(data) - 1):
        (tmp_path / "s.next").write_bytes(data[:length])
        assert store.load().position == 1
        assert not (tmp_path / "s.next").exists()
    ledger.advance("life", position=2, digest=digest)
    (tmp_path / "s.next").write_bytes(data[:-1])
    with pytest.raises(CorruptState, match="position 2"):
        store.load()
    (tmp_path / "s.next").write_bytes(data)
    assert store.load().position == 2


def test_a_damaged_state_is_corrupt_and_untouched(tmp_path, make_ledger):
    store = StateStore(tmp_path / "s", make_ledger("ledger"))
    store.commit(state(1))
    damaged = bytearray((tmp_path / "s").read_bytes())
    damaged[-1] ^= 1
    (tmp_path / "s").write_bytes(damaged)
    with pytest.raises(CorruptState):
        store.load()
    assert (tmp_path / "s").read_bytes() == bytes(damaged)


def test_nothing_committed_is_no_file(tmp_path, make_ledger):
    with pytest.raises(FileNotFoundError):
        StateStore(tmp_path / "s", make_ledger("ledger")).load()
    with pytest.raises(FileNotFoundError):
        StateStore(tmp_path / "no" / "directory", make_ledger("ledger")).commit(state(1))


def test_all_files_are_private(tmp_path):
    ledger = MemoryLedger()
    store = StateStore(tmp_path / "s", ledger)
    (tmp_path / "s.next").write_text("left over")
    (tmp_path / "s.next").chmod(0o666)
    old_mask = os.umask(0)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(Crash))
            with pytest.raises(Crash):
                store.commit(state(1))
        assert stat.S_IMODE((tmp_path / "s.next").stat().st_mode) == 0o600
        store.load()
    finally:
        os.umask(old_mask)
    assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {0o600}


def test_links_beside_the_state_are_not_followed(tmp_path):
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "s.next").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic link"):
        StateStore(tmp_path / "s", MemoryLedger()).commit(state(1))
    assert (tmp_path / "victim").read_text() == "precious"


@pytest.mark.parametrize("code", ["EINVAL", "ENOTSUP"])
def test_directories_that_cannot_be_synchronised_are_accepted(tmp_path, monkeypatch, code):
    import errno

    real = os.fsync

    def fsync(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(getattr(errno, code), "no such operation here")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    store = StateStore(tmp_path / "s", MemoryLedger())
    store.commit(state(1))
    assert store.load().position == 1


def test_a_directory_that_fails_to_synchronise_is_an_error(tmp_path, monkeypatch):
    """A real failure must not be mistaken for a missing feature: the witness is not reached."""
    ledger = MemoryLedger()
    real = os.fsync

    def fsync(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(5, "Input/output error")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match="Input/output"):
        StateStore(tmp_path / "s", ledger).commit(state(1))
    assert ledger.last("life") is None


def test_repr_shows_nothing(tmp_path):
    assert repr(StateStore(tmp_path / "canary")) == "StateStore()"


def test_a_file_that_this_object_left_is_not_read_again_and_another_is(tmp_path, monkeypatch):
    path = tmp_path / "state"
    store, other = StateStore(path), StateStore(path)
    store.commit(state(0))
    read = []

    def counted(where):
        read.append(where)
        return read_identity(where)

    monkeypatch.setattr("dpbandits.state.store.read_identity", counted)
    store.commit(state(1))
    store.commit(state(2))
    assert read == []
    other.commit(state(3))
    assert read == [path]
    with pytest.raises(ForkedState):  # it is not what `store` left there
        store.commit(state(3, draw=1.0))
    path.write_bytes(b"no state")
    with pytest.raises(CorruptState):
        store.commit(state(4))
    path.unlink()
    store.commit(state(4))
    assert read_state(path).position == 4
