"""The journal: every row of its table, every byte of its files, copies, processes, and disks that fail."""

import os
import signal
import struct
import subprocess
import sys
import tracemalloc

import pytest

from dpbandits import MemoryLedger, SQLiteLedger
from dpbandits.errors import CorruptState, ForkedState, IncompatibleState, ProtocolError
from dpbandits.state.files import locked
from dpbandits.state.journal import Journal
from internals.journal import copy_of, end_of, failing, files_of, only_written, put_back

NAME = {"kind": "words", "subject": "example"}


def made(path, *words, ledger=None):
    journal = Journal.create(path, **NAME, ledger=ledger)
    journal.settle()
    for word in words:
        journal.append(b"W", word)
    return journal


def opened(path, ledger=None, **other):
    return Journal(path, **{**NAME, **other}, ledger=ledger)


def words(path, ledger=None):
    return [content for _, content in opened(path, ledger).settle()]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "words.log"


@pytest.fixture(params=["witnessed", "alone"])
def ledger(request):
    return MemoryLedger() if request.param == "witnessed" else None


# -- what it is for -----------------------------------------------------------------------------------


def test_records_come_back_in_order_and_once(path, ledger):
    journal = made(path, b"one", b"", b"three" * 1000, ledger=ledger)
    assert len(journal) == 3
    assert journal.settle() == []
    again = opened(path, ledger)
    assert again.settle() == [(b"W", b"one"), (b"W", b""), (b"W", b"three" * 1000)]
    assert again.digest == journal.digest
    assert again.settle() == []
    again.append(b"X", b"four")
    assert journal.settle() == [(b"X", b"four")]
    assert "one" not in repr(journal)
    if ledger is not None:
        assert ledger.last("example") == (4, journal.digest)


def test_files_are_the_owners_alone(path):
    made(path, b"one")
    for file in path.parent.iterdir():
        assert file.stat().st_mode & 0o777 == 0o600, file.name


def test_two_processes_share_a_log_under_a_lock(path):
    """Each appends fifty records while the other does; all are there, none over another."""
    made(path)
    children = []
    for letter in b"ab":
        child = os.fork()
        if child == 0:
            journal = opened(path)
            for number in range(50):
                with locked(path.with_name("lock")):
                    journal.settle()
                    journal.append(bytes([letter]), bytes([number]))
            os._exit(0)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0]
    found = opened(path).settle()
    for letter in b"ab":
        assert [content[0] for kind, content in found if kind == bytes([letter])] == list(range(50))


def test_an_append_never_lies_over_a_record_that_counts(path, ledger):
    """Whoever forgets to settle is refused, and nothing is changed."""
    one, two = made(path, b"one", ledger=ledger), opened(path, ledger)
    two.settle()
    one.append(b"W", b"two")
    before = files_of(path)
    with pytest.raises(ProtocolError, match="settle"):
        two.append(b"W", b"other")
    with pytest.raises(ProtocolError, match="settle"):
        opened(path, ledger).append(b"W", b"other")
    assert files_of(path) == before
    two.settle()
    two.append(b"W", b"three")
    assert words(path, ledger) == [b"one", b"two", b"three"]


# -- the table ----------------------------------------------------------------------------------------


def test_nothing_happened(path, ledger):
    made(path, b"one", ledger=ledger)
    before = files_of(path)
    assert words(path, ledger) == [b"one"]
    assert files_of(path) == before


@pytest.mark.parametrize(
    "tail", [b"\x00", b"torn", b"\x03" + bytes(7) + b"Wabc", b"\xff" * 8 + b"W" + bytes(99)]
)
def test_a_torn_or_garbled_tail_never_counted(path, ledger, tail):
    made(path, b"one", ledger=ledger)
    before = files_of(path)
    for content in (tail, before[0][-44:]):  # also a whole record that is chained to nothing here
        path.write_bytes(before[0] + content)
        assert words(path, ledger) == [b"one"]
        assert files_of(path) == before


@pytest.mark.parametrize("length", range(1, 45))
def test_died_at_every_byte_of_a_record(path, length):
    made(path, b"one", b"two")
    whole = path.read_bytes()
    record = 8 + 1 + 3 + 32
    assert length <= record
    put_back(path, (whole[: len(whole) - length], end_of_one(path)))
    assert words(path) == [b"one"]


def end_of_one(path):
    """The end file as it stood after the first record."""
    sound = files_of(path)
    first = path.with_name("first.log")
    made(first, b"one")
    assert sound[0].startswith(first.read_bytes())
    return end_of(first).read_bytes()


def test_died_before_the_witness(path, ledger):
    made(path, b"one", ledger=ledger)
    writer = opened(path, ledger)
    writer.settle()
    only_written(writer, b"W", b"two")
    if ledger is not None:
        assert ledger.last("example").position == 1
    journal = opened(path, ledger)
    assert journal.settle() == [(b"W", b"one"), (b"W", b"two")]
    if ledger is not None:
        assert ledger.last("example") == (2, journal.digest)
    assert words(path, ledger) == [b"one", b"two"]


def test_what_a_dead_process_wrote_is_on_disk_before_it_is_witnessed(path, monkeypatch):
    """Killed between write and sync: a power cut after the witness could otherwise leave the log behind."""
    steps = []

    class Telling(MemoryLedger):
        def advance(self, lineage, *, position, digest):
            steps.append("witness")
            super().advance(lineage, position=position, digest=digest)

    ledger = Telling()
    journal = made(path, ledger=ledger)
    only_written(opened(path, ledger), b"W", b"one")
    steps.clear()
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: steps.append("sync") or real(descriptor))
    assert journal.settle() == [(b"W", b"one")]
    assert steps[:2] == ["sync", "witness"]


def test_died_before_the_end(path, ledger):
    journal = made(path, b"one", ledger=ledger)
    end = end_of(path).read_bytes()
    journal.append(b"W", b"two")
    end_of(path).write_bytes(end)
    assert words(path, ledger) == [b"one", b"two"]
    assert words(path, ledger) == [b"one", b"two"]


def test_an_old_end_loses_no_record(path, ledger):
    """The disk forgot renames, or a backup took the end before the log."""
    journal = made(path, ledger=ledger)
    end = end_of(path).read_bytes()
    for word in (b"one", b"two", b"three"):
        journal.append(b"W", word)
    end_of(path).write_bytes(end)
    assert words(path, ledger) == [b"one", b"two", b"three"]
    last = end_of(path).read_bytes()
    end_of(path).write_bytes(end)
    writer = opened(path, ledger)
    writer.settle()
    assert end_of(path).read_bytes() == last
    only_written(writer, b"W", b"four")
    end_of(path).write_bytes(end)
    assert words(path, ledger) == [b"one", b"two", b"three", b"four"]


def test_a_copy_that_others_have_left_behind(path):
    """The copy is refused before it appends, and is not changed, though it is open already."""
    ledger = MemoryLedger()
    made(path, b"one", ledger=ledger)
    other = copy_of(path, "other.log")
    late = opened(other, ledger)
    late.settle()
    first = opened(path, ledger)
    for word in (b"two", b"three"):
        first.settle()
        first.append(b"W", word)
        before = files_of(other)
        for journal in (late, opened(other, ledger)):
            with pytest.raises(ForkedState, match="another copy"):
                journal.settle()
        assert files_of(other) == before
    assert words(path, ledger) == [b"one", b"two", b"three"]


def test_of_two_copies_that_append_at_once_one_counts(path):
    """Both have settled; the slower one's record is on its disk, is refused, and never counts."""
    ledger = MemoryLedger()
    made(path, b"one", ledger=ledger)
    other = copy_of(path, "other.log")
    fast, slow = opened(path, ledger), opened(other, ledger)
    fast.settle()
    slow.settle()
    fast.append(b"W", b"fast")
    with pytest.raises(ForkedState):
        slow.append(b"W", b"slow")
    for _ in range(2):
        for journal in (slow, opened(other, ledger)):
            with pytest.raises(ForkedState):
                journal.settle()
    assert words(path, ledger) == [b"one", b"fast"]


def test_a_record_that_died_before_its_witness_loses_to_the_copy_that_was_witnessed(path):
    ledger = MemoryLedger()
    made(path, b"one", ledger=ledger)
    other = copy_of(path, "other.log")
    writer = opened(path, ledger)
    writer.settle()
    only_written(writer, b"W", b"never")
    winner = opened(other, ledger)
    winner.settle()
    winner.append(b"W", b"two")
    with pytest.raises(ForkedState):
        words(path, ledger)
    assert words(other, ledger) == [b"one", b"two"]


def test_a_ledger_that_has_gone_back_is_not_led_on(path):
    """The end says that the record was witnessed, and this ledger (an old copy of it) has not seen it."""
    ledger, old = MemoryLedger(), MemoryLedger()
    journal = made(path, b"one", ledger=ledger)
    old.advance("example", position=1, digest=journal.digest)
    journal.append(b"W", b"two")
    with pytest.raises(ForkedState):
        words(path, old)
    assert old.last("example").position == 1


def test_an_unwitnessed_record_does_not_follow_another_copys_past(path):
    """A ledger stands one record back, and that record is another copy's: two pasts do not become one."""
    ledger, other = MemoryLedger(), MemoryLedger()
    writer = made(path, b"one", ledger=ledger)
    only_written(writer, b"W", b"two")
    other.advance("example", position=1, digest="ab" * 32)
    before = files_of(path)
    with pytest.raises(ForkedState):
        words(path, other)
    assert other.last("example").position == 1
    assert files_of(path) == before


def test_records_from_elsewhere_are_not_believed(path):
    """A log with the same beginning that went on under another ledger, by one and by two records."""
    ledger, stranger = MemoryLedger(), MemoryLedger()
    made(path, b"one", ledger=ledger)
    for more in ((b"x",), (b"x", b"y")):
        forged = made(path.with_name(f"forged{len(more)}.log"), b"one", *more, ledger=stranger)
        stranger = MemoryLedger()
        assert len(forged) == 1 + len(more)
    put_back(path, files_of(path.with_name("forged2.log")))
    with pytest.raises(ForkedState):
        words(path, ledger)
    other = made(path.with_name("other.log"), b"two", ledger=MemoryLedger())
    put_back(path, files_of(path.with_name("other.log")))
    assert len(other) == 1
    with pytest.raises(ForkedState):
        words(path, ledger)


@pytest.mark.parametrize("keep", [0, 1])
def test_a_cut_log(path, ledger, keep):
    """Cut to fewer records than its end says; an open journal and a fresh one refuse it, unchanged."""
    journal = made(path, *(b"one", b"two")[:keep], ledger=ledger)
    shorter = path.read_bytes()
    for word in (b"one", b"two")[keep:]:
        journal.append(b"W", word)
    path.write_bytes(shorter)
    for refused in (journal, opened(path, ledger)):
        with pytest.raises(CorruptState):
            refused.settle()
    assert path.read_bytes() == shorter


def test_every_byte_counts(path):
    """Any byte of log or end changed: refused, or (never) noticed; nothing else is ever read from it."""
    made(path, b"one", b"two")
    log, end = files_of(path)
    for name, content in ((path, log), (end_of(path), end)):
        for place in range(len(content)):
            for flip in (1, 0x80):
                changed = bytearray(content)
                changed[place] ^= flip
                put_back(path, (log, end))
                name.write_bytes(bytes(changed))
                with pytest.raises((CorruptState, IncompatibleState)):
                    words(path)
    put_back(path, (log, end))
    assert words(path) == [b"one", b"two"]


@pytest.mark.parametrize("damage", ["missing", "empty", "short", "long", "a directory", "a pipe"])
@pytest.mark.parametrize("which", ["log", "end"])
def test_a_file_that_is_no_log(path, ledger, which, damage):
    journal = made(path, b"one", ledger=ledger)
    sound = files_of(path)
    file = path if which == "log" else end_of(path)
    content = file.read_bytes()
    file.unlink()
    if damage == "empty":
        file.write_bytes(b"")
    elif damage == "short":
        file.write_bytes(content[:-1])
    elif damage == "long":
        file.write_bytes(content + b"x")
    elif damage == "a directory":
        file.mkdir()
    elif damage == "a pipe":
        os.mkfifo(file)
    if which == "log" and damage == "long":
        assert words(path, ledger) == [b"one"]
        return
    for read in (lambda: words(path, ledger), journal.settle):
        with pytest.raises(CorruptState):
            read()
    with pytest.raises(CorruptState):
        Journal.create(path, **NAME, ledger=ledger)
    if file.is_dir():
        file.rmdir()
    elif file.exists():
        file.unlink()
    put_back(path, sound)
    assert words(path, ledger) == [b"one"]


def test_a_link_in_the_place_of_the_log_is_not_written_through(path):
    journal = made(path, b"one")
    target = path.with_name("target")
    path.rename(target)
    path.symlink_to(target)
    journal.settle()
    with pytest.raises(OSError, match="symbolic links"):
        journal.append(b"W", b"two")


# -- headers and ledgers ------------------------------------------------------------------------------


@pytest.mark.parametrize("subject", ["examplf", "a much longer subject than the other one" * 9, "x"])
def test_another_subjects_log(path, subject):
    made(path, b"one")
    before = files_of(path)
    with pytest.raises(IncompatibleState, match="another subject"):
        opened(path, subject=subject)
    with pytest.raises(IncompatibleState, match="another subject"):
        opened(path, kind=subject)
    with pytest.raises(IncompatibleState, match="another subject"):
        Journal.create(path, kind="words", subject=subject)
    assert files_of(path) == before


def test_another_format(path):
    path.write_bytes(b'{"journal": "words", "format": 3, "subject": "example", "witnessed": false}\n')
    with pytest.raises(IncompatibleState, match="another format than 1"):
        opened(path)
    for nonsense in (b"{}\n", b"[1]\n", b"[" * 4000, b"\xff\n", b"\n"):
        path.write_bytes(nonsense)
        with pytest.raises(CorruptState, match="header"):
            opened(path)


def test_a_log_opens_with_a_ledger_if_it_was_made_with_one(path):
    made(path, b"one", ledger=MemoryLedger())
    with pytest.raises(IncompatibleState, match="made with a ledger"):
        opened(path)
    with pytest.raises(IncompatibleState, match="never seen"):
        words(path, MemoryLedger())
    alone = path.with_name("alone.log")
    made(alone, b"one")
    with pytest.raises(IncompatibleState, match="made without a ledger"):
        opened(alone, MemoryLedger())


def test_the_lineage_is_the_subjects_unless_it_is_named(path):
    ledger = MemoryLedger()
    Journal.create(path, **NAME, ledger=ledger, lineage="example.words").settle()
    assert ledger.last("example") is None
    assert ledger.last("example.words").position == 0
    with pytest.raises(IncompatibleState, match="never seen"):
        opened(path, ledger).settle()


# -- beginning ----------------------------------------------------------------------------------------


def test_beginning_is_repeatable_until_there_is_a_record(path, ledger):
    made(path, ledger=ledger)
    journal = made(path, ledger=ledger)
    journal.append(b"W", b"one")
    with pytest.raises(CorruptState, match="has records"):
        Journal.create(path, **NAME, ledger=ledger)
    assert words(path, ledger) == [b"one"]


@pytest.mark.parametrize("left", [0, 1, 20, -1, None])
def test_died_while_beginning(path, ledger, left):
    """Any beginning of the header, or all of it, and no end: taken up again."""
    made(path.with_name("sample"), ledger=None if ledger is None else MemoryLedger())
    header = path.with_name("sample").read_bytes()
    path.write_bytes(header[:left])
    made(path, b"one", ledger=ledger)
    assert words(path, ledger) == [b"one"]


def test_a_log_that_held_records_is_not_begun_anew(path, ledger):
    made(path, b"one", ledger=ledger)
    log, end = files_of(path)
    header = log[: log.index(b"\n") + 1]
    for content in (header, header[:-5], b""):  # cut, and the end is still there
        path.write_bytes(content)
        with pytest.raises(CorruptState):
            Journal.create(path, **NAME, ledger=ledger)
        assert files_of(path) == (content, end)
    path.write_bytes(log)
    end_of(path).unlink()
    with pytest.raises(CorruptState):
        Journal.create(path, **NAME, ledger=ledger)
    if ledger is not None:  # everything is gone but the witness
        path.unlink()
        with pytest.raises(ForkedState):
            Journal.create(path, **NAME, ledger=ledger)


# -- failing disks and ledgers ------------------------------------------------------------------------


@pytest.mark.parametrize(("step", "half"), [("write", False), ("write", True), ("sync", False)])
def test_a_failed_write_is_as_if_it_had_not_begun(path, ledger, monkeypatch, step, half):
    journal = made(path, b"one", ledger=ledger)
    before = files_of(path)
    with failing(monkeypatch, step, half=half), pytest.raises(OSError, match="disk full"):
        journal.append(b"W", b"two")
    assert files_of(path) == before
    journal.append(b"W", b"three")
    assert words(path, ledger) == [b"one", b"three"]


def test_a_failed_end_leaves_a_record_that_counts(path, ledger, monkeypatch):
    journal = made(path, b"one", ledger=ledger)
    with failing(monkeypatch, "end"):
        with pytest.raises(OSError, match="disk full"):
            journal.append(b"W", b"two")
        with pytest.raises(ProtocolError, match="settle"):  # not over it
            journal.append(b"W", b"three")
        with pytest.raises(OSError, match="disk full"):  # not returned while it does not count
            journal.settle()
    assert journal.settle() == [(b"W", b"two")]
    assert words(path, ledger) == [b"one", b"two"]


@pytest.mark.parametrize("reached", [True, False])
def test_a_ledger_that_fails_after_or_before_it_took_the_record(path, reached):
    class Busy(MemoryLedger):
        busy = False

        def advance(self, lineage, *, position, digest):
            if reached or not self.busy:
                super().advance(lineage, position=position, digest=digest)
            if self.busy:
                raise OSError("busy")

    ledger = Busy()
    journal = made(path, b"one", ledger=ledger)
    ledger.busy = True
    with pytest.raises(OSError, match="busy"):
        journal.append(b"W", b"two")
    ledger.busy = False
    with pytest.raises(ProtocolError, match="settle"):
        journal.append(b"W", b"three")
    assert journal.settle() == [(b"W", b"two")]
    assert words(path, ledger) == [b"one", b"two"]


# -- kill -9 ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("witnessed", [True, False])
@pytest.mark.parametrize("call", range(30))
def test_killed_at_every_call_of_an_append(path, witnessed, call):
    """Killed before the n-th system call of settle and append: all or nothing, and whatever left stays."""
    book = path.with_name("book.db")

    def ledger():
        return SQLiteLedger(book) if witnessed else None

    made(path, b"one", ledger=ledger())
    copy_of(path, "other.log")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            journal = opened(path, ledger())
            count = iter(range(1000))
            for name in ("open", "write", "fsync", "ftruncate", "replace", "close", "lseek", "fstat"):
                setattr(os, name, counted(getattr(os, name), count, call))
            journal.settle()
            journal.append(b"W", b"two")
            os.write(writing, b"left")
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        left = stream.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, -signal.SIGKILL)
    found = words(path, ledger())
    assert found in ([b"one"], [b"one", b"two"])
    if left:
        assert found == [b"one", b"two"]
    journal = opened(path, ledger())
    journal.settle()
    journal.append(b"W", b"three")
    assert words(path, ledger()) == [*found, b"three"]
    if witnessed:
        with pytest.raises(ForkedState):
            words(path.with_name("other.log"), ledger())


def counted(function, count, last):
    def run(*arguments, **options):
        if next(count) == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **options)

    return run


def test_a_record_of_an_absurd_length_is_no_record(path):
    journal = made(path, b"one")
    before = path.read_bytes()
    path.write_bytes(before + struct.pack("<Qc", 2**63, b"W") + bytes(100))
    assert journal.settle() == []
    assert path.read_bytes() == before


# -- beginning at a place, and reading one record at a time --------------------------------------------


def places(path, contents):
    """A log of these contents, and where it stands after each."""
    journal = Journal.create(path, kind="words", subject="s")
    return [(journal.append(b"W", content), journal.place)[1] for content in contents]


def test_a_journal_opened_after_a_place_gives_what_lies_behind_it(tmp_path):
    path = tmp_path / "log"
    first, second, third = places(path, [b"one", b"two", b"three"])
    for after, left in ((first, [b"two", b"three"]), (second, [b"three"]), (third, [])):
        journal = Journal(path, kind="words", subject="s", after=after)
        assert [record.content for record in journal.settle()] == left
        assert len(journal) == 3
        assert journal.place == third
    journal.append(b"W", b"four")
    assert [one.content for one in Journal(path, kind="words", subject="s").settle()][-1] == b"four"


def test_what_lies_before_the_place_is_not_read(tmp_path):
    path = tmp_path / "log"
    first, _ = places(path, [b"one", b"two"])
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"one", b"ONE"))
    assert len(Journal(path, kind="words", subject="s", after=first).settle()) == 1
    with pytest.raises(CorruptState):
        Journal(path, kind="words", subject="s").settle()


@pytest.mark.parametrize(
    "change",
    [
        {"digest": bytes(32)},
        {"records": 3},
        {"records": 1},
        {"length": 10_000},
        {"length": 5},
    ],
    ids=str,
)
def test_a_place_of_another_log_is_refused(tmp_path, change):
    path = tmp_path / "log"
    _, last = places(path, [b"one", b"two"])
    with pytest.raises(CorruptState):
        Journal(path, kind="words", subject="s", after=last._replace(**change)).settle()


def test_a_log_need_not_fit_into_memory(tmp_path):
    path, each = tmp_path / "log", 1 << 20
    places(path, [bytes(each)] * 32)
    journal = Journal(path, kind="words", subject="s")
    tracemalloc.start()
    try:
        sizes = [len(record.content) for record in journal.stream()]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sizes == [each] * 32
    assert peak < 8 * each


@pytest.mark.parametrize("size", [1 << 62, 2**64 - 1, 1000])
def test_a_torn_record_that_claims_to_be_long_is_cut_off(tmp_path, size):
    path = tmp_path / "log"
    places(path, [b"one"])
    whole = path.read_bytes()
    with path.open("ab") as file:
        file.write(size.to_bytes(8, "little") + b"W" + bytes(200))
    assert [record.content for record in Journal(path, kind="words", subject="s").settle()] == [b"one"]
    assert path.read_bytes() == whole


# -- lazy journals -------------------------------------------------------------------------------------


def lazy(path, *words):
    journal = Journal.create(path, **NAME, lazy=True)
    for word in words:
        journal.append(b"W", word)
    return journal


def test_a_lazy_journal_loses_nothing_in_a_crash_and_settles_as_it_goes(path):
    journal = lazy(path, b"one", b"two")
    assert journal.settle() == []
    journal.append(b"W", b"three")
    assert words(path) == [b"one", b"two", b"three"]  # whoever opens it after a crash
    journal = lazy(path.with_name("other.log"), b"one")
    journal.close()
    assert words(path.with_name("other.log")) == [b"one"]


def test_a_lazy_journal_drops_what_was_never_whole_and_refuses_what_was(path):
    lazy(path, b"one", b"two", b"three")
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    assert opened(path, lazy=True).settle() == [(b"W", b"one"), (b"W", b"two")]
    path.unlink()
    path.with_name(path.name + ".end").unlink()
    lazy(path, b"one", b"two", b"three")
    whole = path.read_bytes()
    at = whole.index(b"two")
    path.write_bytes(whole[:at] + b"x" + whole[at + 1 :])
    with pytest.raises(CorruptState):
        opened(path, lazy=True).settle()


def test_a_cut_behind_a_closed_lazy_journal_is_noticed(path):
    lazy(path, b"one", b"two").close()
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(CorruptState):
        opened(path, lazy=True).settle()


# -- a log that is kept open ---------------------------------------------------------------------------


def opened_to_append(monkeypatch):
    """Return descriptors that journals append to, in the order in which they were opened."""
    found, real = [], os.open

    def noting(path, flags, *rest, **named):
        descriptor = real(path, flags, *rest, **named)
        if flags & os.O_APPEND:
            found.append(descriptor)
        return descriptor

    monkeypatch.setattr(os, "open", noting)
    return found


def is_open(descriptor):
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def test_a_lazy_journal_opens_its_log_once_and_any_other_at_each_append(path, monkeypatch):
    found = opened_to_append(monkeypatch)
    journal = lazy(path, *[b"word"] * 10)
    assert len(found) == 1
    assert is_open(found[0])
    journal.close()
    assert not is_open(found[0])
    journal.append(b"W", b"after")  # a closed journal opens its log again
    assert len(found) == 2
    del journal  # nobody closed it
    assert not is_open(found[1])
    found.clear()
    made(path.with_name("other.log"), *[b"word"] * 3)
    assert len(found) == 3
    assert not any(map(is_open, found))


def test_a_log_that_was_deleted_while_it_was_open_is_not_begun_anew(path):
    journal = lazy(path, b"one")
    path.unlink()
    with pytest.raises(FileNotFoundError):
        journal.append(b"W", b"two")
    assert not path.exists()
    with pytest.raises(CorruptState):
        journal.settle()


def test_records_go_to_the_file_that_stands_at_the_path(path):
    """A copy in its place takes the next record; the file that was moved away takes none."""
    journal = lazy(path, b"one")
    moved = path.with_name("moved.log")
    sound = path.read_bytes()
    path.rename(moved)
    path.write_bytes(sound)
    journal.append(b"W", b"two")
    assert moved.read_bytes() == sound
    assert words(path) == [b"one", b"two"]


def test_a_longer_log_in_the_place_of_the_open_one_is_not_written_over(path):
    journal = lazy(path, b"one")
    whole = path.read_bytes() + b"more"
    path.unlink()
    path.write_bytes(whole)
    with pytest.raises(ProtocolError, match="settle"):
        journal.append(b"W", b"two")
    assert path.read_bytes() == whole


def test_a_link_in_the_place_of_an_open_log_is_not_written_through(path):
    journal = lazy(path, b"one")
    target = path.with_name("target")
    path.rename(target)
    path.symlink_to(target)
    sound = target.read_bytes()
    with pytest.raises(OSError, match="symbolic links"):
        journal.append(b"W", b"two")
    assert target.read_bytes() == sound


def test_an_append_never_lies_over_what_another_process_appended_to_an_open_log(path):
    journal = lazy(path, b"one")
    other = opened(path, lazy=True)
    other.settle()
    other.append(b"W", b"two")
    with pytest.raises(ProtocolError, match="settle"):
        journal.append(b"W", b"three")
    assert journal.settle() == [(b"W", b"two")]
    journal.append(b"W", b"three")
    assert words(path) == [b"one", b"two", b"three"]


@pytest.mark.parametrize(("step", "half"), [("write", False), ("write", True), ("sync", False)])
def test_an_open_log_is_opened_again_after_a_write_that_failed(path, monkeypatch, step, half):
    """A descriptor tells of a failed sync once: whoever asks it again may hear that all is well."""
    found = opened_to_append(monkeypatch)
    journal = lazy(path, b"one")
    before = files_of(path)
    with failing(monkeypatch, step, half=half), pytest.raises(OSError, match="disk full"):
        journal.append(b"W", b"two")
    assert files_of(path) == before
    assert not is_open(found[0])
    journal.append(b"W", b"three")
    assert len(found) == 2
    assert words(path) == [b"one", b"three"]


def test_a_child_that_ends_leaves_the_log_open_to_its_parent(path):
    journal = lazy(path, b"one")
    child = os.fork()
    if child == 0:
        journal.close()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    journal.append(b"W", b"two")
    assert words(path) == [b"one", b"two"]


AT_EXIT = """
import atexit, os, sys
from pathlib import Path

def last():
    other = os.open(sys.argv[1] + ".other", os.O_RDWR | os.O_CREAT)
    journal.append(b"W", b"second")
    print(os.fstat(other).st_size)

atexit.register(last)  # called after the handlers that were registered later
from dpbandits.state.journal import Journal
journal = Journal.create(Path(sys.argv[1]), kind="words", subject="example", lazy=True)
journal.append(b"W", b"first")
"""


def test_a_record_of_an_exit_handler_goes_to_the_log_and_into_no_other_file(tmp_path):
    path = tmp_path / "words.log"
    done = subprocess.run(
        [sys.executable, "-c", AT_EXIT, str(path)], check=False, capture_output=True, text=True
    )
    assert (done.stdout.strip(), done.stderr) == ("0", "")
    held = Journal(path, kind="words", subject="example", lazy=True).settle()
    assert [record.content for record in held] == [b"first", b"second"]
