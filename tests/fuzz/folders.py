"""Parsers of what lies in folders: logs, snapshots, released policies, outboxes, witnesses, tables, the pipe.

A checksum stops nobody who may write to a folder, so each of these is right here, whatever it vouches for.
"""

import hashlib
import io
import json
import os
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np

import dpbandits as dpb
from dpbandits.central import (
    ExploreThenCommit,
    ExploreTuning,
    GPBandit,
    GPTuning,
)
from dpbandits.central.logged.logged_table import LogColumns, LoggedTable
from dpbandits.central.logged.published_table import PublishedTable
from dpbandits.errors import InvalidParameter
from dpbandits.lab.worlds.tables import table_from_toml
from dpbandits.local import Client, DurableServer, FileOutbox, Server, SourceSpec
from dpbandits.models import measures
from dpbandits.models.features.fourier import QuadratureFourierFeatures
from dpbandits.outsourced import Curator
from dpbandits.outsourced.curator.answers import AnswerLog
from dpbandits.outsourced.pipe import StreamAnswers, request_lines, serve
from dpbandits.privacy import noise
from dpbandits.state.format import decode
from dpbandits.state.journal import Journal
from dpbandits.state.release_log import ReleaseLog
from dpbandits.state.witness import FileWitness
from dpbandits.tables.described import ArmRewards, DescribedTable
from dpbandits.tables.files import read_table_file
from dpbandits.tables.sketch import read_sample, sketched
from flat import spec_with
from fuzz.target import Target, any_json, as_json, as_text, header_of, listed_arrays, new_folder, whole_file
from internals.journal import with_record
from internals.policy import raw_arrays
from internals.policy import replay as replay_of_policy
from internals.server import replay as replay_of_server
from internals.server import snapshot_counts, snapshots_often, without_folder

__all__ = ["FOLDERS"]

BOX = dpb.Box(low=[0.0, 0.0], high=[1.0, 1.0])
CELLS = measures.CellMeasure.uniform(low=0.0, high=1.0, cells=3)
KERNEL = dpb.kernels.SquaredExponential(lengthscale=0.5)
PROMISE = dpb.JointDP(epsilon=1, delta=1e-6)
ROWS = np.array([[0.1, 0.2], [0.7, 0.8]])


class _Folder:
    """A folder that is put back into what it held at first; only what is not so any more is written."""

    _AS_WRITTEN = 1
    """A time of files, which any change moves."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files = {file.name: file.read_bytes() for file in path.iterdir()}

    def put_back(self, **instead: bytes) -> None:
        """The files of the beginning, and no others; `instead` of some of them something else."""
        found = {}
        for entry in os.scandir(self.path):
            if entry.name in self._files:
                found[entry.name] = entry.stat().st_mtime_ns
            else:
                Path(entry).unlink()
        for name in self._files.keys() - instead.keys():
            if found.get(name) != self._AS_WRITTEN:
                (self.path / name).write_bytes(self._files[name])
                os.utime(self.path / name, ns=(self._AS_WRITTEN, self._AS_WRITTEN))
        for name, data in instead.items():
            (self.path / name).write_bytes(data)

    def put_back_with(self, log: str, kind: bytes, content: bytes) -> None:
        """The same, and a record with a right checksum at the end of a log."""
        longer, end = with_record((self._files[log], self._files[f"{log}.end"]), kind, content)
        self.put_back(**{log: longer, f"{log}.end": end})


class _Trial:
    """An object without a folder that plays back records, as one does whose folder is opened.

    Most records are refused, or change nothing; what changes the object is used, and the object made anew.
    One in `EVERY` of those, by a digest of the record, goes through a folder too.

    Args:
        made: gives the object, as it stands at the end of a sound log.
        replay: plays (object, kind, content) back.
        look: everything that a record can change.
        use: what is done with an object that a record changed.
    """

    EVERY = 8

    def __init__(
        self,
        *,
        made: Callable[[], Any],
        replay: Callable[[Any, bytes, bytes], object],
        look: Callable[[Any], object],
        use: Callable[[Any], object],
    ) -> None:
        self._made, self._replay, self._look, self._use = made, replay, look, use
        self._begin()

    def _begin(self) -> None:
        self._object = self._made()
        self._before = self._look(self._object)

    def wants_folder(self, kind: bytes, content: bytes) -> bool:
        """Play the record back; whether it is one to go through a folder."""
        refused = True
        try:
            self._replay(self._object, kind, content)
            refused = False
        finally:
            changed = self._look(self._object) != self._before
            if refused and changed:
                self._begin()
        if not changed:
            return False
        try:
            self._use(self._object)
        finally:
            self._begin()
        return zlib.crc32(kind + content) % self.EVERY == 0


def _names(path: Path) -> tuple[str, str]:
    """Kind and subject of a log that is there."""
    header = json.loads(path.read_bytes().partition(b"\n")[0])
    return header["journal"], header["subject"]


def _held(path: Path) -> list[tuple[bytes, bytes]]:
    kind, subject = _names(path)
    return list(Journal(path, kind=kind, subject=subject).settle())


def _copy(folder: Path) -> Path:
    return Path(shutil.copytree(folder, new_folder(), dirs_exist_ok=True))


def _record(data: bytes) -> tuple[bytes, bytes]:
    """Any bytes as a record: its kind, then its content."""
    return data[:1].ljust(1), data[1:]


# -- the journal -------------------------------------------------------------------------------------

_END_BYTES = 48


def _journal() -> Target:
    """A log and its end as any bytes, the end last."""
    path = new_folder() / "any.log"
    journal = Journal.create(path, kind="words", subject="example")
    for word in (b"first", b"", b"third" * 20):
        journal.append(b"W", word)
    end = path.with_name("any.log.end")

    def parse(data: bytes) -> object:
        path.write_bytes(data[:-_END_BYTES])
        end.write_bytes(data[-_END_BYTES:])
        held = Journal(path, kind="words", subject="example").settle()
        if sum(len(content) for _, content in held) > len(data):
            raise AssertionError("more content than bytes")
        return held

    return Target(parse=parse, seeds=(path.read_bytes() + end.read_bytes(),), form="bytes")


def _release_log() -> Target:
    log, terms = ReleaseLog(), {"law": "discrete Gaussian", "scale": 4.0, "charge": None, "witnessed": False}
    for number in range(3):
        log.enter("block", number, terms)
    log.enter("answer", 0, terms)

    def build(value: Any) -> object:
        read = ReleaseLog.from_json(value)
        if ReleaseLog.from_json(read.to_json()).to_json() != read.to_json():
            raise AssertionError("a log that comes back otherwise")
        return read.count("block"), repr(read)

    return Target(parse=any_json(build), seeds=(as_json(log.to_json()),), form="json")


def _witness() -> Target:
    """A file of `FileWitness` as any bytes."""
    folder = new_folder()
    witness = FileWitness(folder)
    for position in range(3):
        witness.advance("study", position=position, digest=f"d{position}")
    (path,) = folder.glob("*.witness")

    def parse(data: bytes) -> object:
        path.write_bytes(data)
        last = witness.last("study")
        witness.advance("study", position=0 if last is None else last.position + 1, digest="new")
        if witness.last("study") == last:
            raise AssertionError("what was witnessed is not there")
        return last

    return Target(parse=parse, seeds=(path.read_bytes(),), form="bytes")


# -- central -------------------------------------------------------------------------------------------


def _living(**changes: Any) -> GPBandit:
    arguments: dict[str, Any] = {
        "domain": BOX,
        "reward_range": (0.0, 1.0),
        "horizon": 12,
        "privacy": PROMISE,
        "noise": noise.SimulatedNoise(0),
        "tuning": GPTuning(features=QuadratureFourierFeatures(kernel=KERNEL, dim=2, nodes=2), blocks=[4, 8]),
    }
    return GPBandit(**(arguments | changes))


def _round_log() -> Target:
    """A policy's folder whose log of rounds ends with any record: its kind, then its content."""
    sound = new_folder()
    with GPBandit.open(sound, new=_living()) as policy:
        policy.tell(policy.ask(ROWS, user="u0").id, 0.5)
        waiting = policy.ask(ROWS, user="u1").id
    folder, whole = _Folder(_copy(sound)), _copy(sound)
    with GPBandit.open(whole) as policy:
        policy.tell(waiting, 0.25)
        policy.ask(ROWS, user="u2")
    (name,) = (path.name for path in sound.glob("rounds-*.log"))
    (log,) = whole.glob("rounds-*.log")
    seeds, begun = tuple(kind + content for kind, content in _held(log)), _held(sound / name)

    def made() -> GPBandit:
        policy = _living()
        for record in begun:
            replay_of_policy(policy, *record)
        return policy

    def use(policy: GPBandit) -> object:
        policy.predict(ROWS)
        for number in range(3):  # enough for a block that holds the record's rounds
            policy.tell(policy.ask(ROWS, user=f"v{number}").id, 0.5)
        return repr(policy), policy.pending

    trial = _Trial(made=made, replay=replay_of_policy, look=raw_arrays, use=use)

    def parse(data: bytes) -> object:
        record = _record(data)
        if not trial.wants_folder(*record):
            return None
        folder.put_back_with(name, *record)
        with GPBandit.open(folder.path) as policy:
            return use(policy)

    return Target(parse=parse, seeds=seeds, form="bytes")


def _explore_state() -> Target:
    """States of `ExploreThenCommit` that say what they like, their checksums right."""
    path = new_folder() / "policy.state"
    common: dict[str, Any] = {
        "kernel": KERNEL,
        "actions": CELLS,
        "contexts": CELLS,
        "reward_range": (0.0, 1.0),
        "noise": noise.SimulatedNoise(0),
    }
    once = ExploreThenCommit(
        **common, privacy=dpb.JointDP(epsilon=4.0, delta=1e-6, user_ids=False), horizon=200,
        # the rule for the ridge looks at many, each time it is loaded
        tuning=ExploreTuning(ridge=1.0, publish_epsilon=2.0, answer_epsilon=0.5),
    )  # fmt: skip
    rng = np.random.default_rng(1)
    once.learn(rng.random(200), once.explore(0, 200), rng.random(200))
    once.answer([0.3])
    once.publish()
    tables = ExploreThenCommit(
        contexts=dpb.Schema(old=dpb.Categories(["no", "yes"]), age=dpb.Range(0, 1)), arms=["mail", "call"],
        reward_range=(0.0, 1.0), noise=noise.SimulatedNoise(0), horizon=200,
        privacy=dpb.JointDP(epsilon=4.0, user_ids=False), tuning=ExploreTuning(release="marginals"),
    )  # fmt: skip
    tables.learn([["yes", 0.5]] * 200, tables.explore(0, 200), rng.random(200))
    tables.publish()
    seeds = []
    for policy in (once, tables):
        policy.save(path)
        data = path.read_bytes()
        state, _ = decode(io.BytesIO(data), len(data))
        seeds.append(as_json({**json.loads(header_of(data)), "arrays": listed_arrays(state)}))
        path.unlink()

    def parse(data: bytes) -> object:
        found = whole_file(data)
        if found is None:
            return None
        _, forged = found
        path.write_bytes(forged)
        loaded = ExploreThenCommit.load(path)
        if loaded.arms is not None:
            return loaded.publish().choose([["yes", 0.25]]), repr(loaded), loaded.guarantee
        return loaded.publish().choose([[0.3]]), loaded.answer([0.3]).index, repr(loaded)

    return Target(parse=parse, seeds=tuple(seeds), form="json")


def _row_sums() -> Target:
    """A shard of sums that says what it likes, its checksums right, and is merged."""
    path = new_folder() / "shard.state"
    policy = ExploreThenCommit(
        kernel=KERNEL, actions=CELLS, contexts=CELLS, reward_range=(0.0, 1.0), noise=noise.SimulatedNoise(0),
        privacy=dpb.JointDP(epsilon=4.0, delta=1e-6), horizon=40,
        tuning=ExploreTuning(ridge=1.0, publish_epsilon=2.0),
    )  # fmt: skip
    rng, users = np.random.default_rng(1), [f"u{number}" for number in range(4)]
    shard, other = policy.shard(), policy.shard()
    shard.learn(rng.random(4), policy.explore(0, 4), rng.random(4), users=users)
    shard.save(path)
    data = path.read_bytes()
    state, _ = decode(io.BytesIO(data), len(data))
    seed = as_json({**json.loads(header_of(data)), "arrays": listed_arrays(state)})

    def parse(data: bytes) -> object:
        found = whole_file(data)
        if found is None:
            return None
        path.write_bytes(found[1])
        read = shard.load_sums(path)
        read.learn([0.5], policy.explore(4, 5), [0.5], users=["u4"])
        read.merge(other)
        return repr(read)

    return Target(parse=parse, seeds=(seed,), form="json")


def _published_posterior() -> Target:
    """What `GPBandit.publish` gives away, as any text."""
    policy = _living()
    for number in range(6):
        policy.tell(policy.ask(ROWS, user=f"u{number}").id, 0.5)
    published = policy.publish()
    kind = type(published)

    def parse(data: bytes) -> object:
        read = kind.from_json(as_text(data))
        return read.predict(ROWS), repr(read)

    return Target(parse=parse, seeds=(published.to_json().encode(),), form="json")


def _learned_folder() -> tuple[Path, PublishedTable]:
    rng, n = np.random.default_rng(5), 200
    table = {
        "age": rng.random(n),
        "arm": np.array(["mail", "call"], dtype=object)[rng.integers(0, 2, n)],
        "bought": rng.random(n),
    }
    log = LoggedTable.read(
        table,
        LogColumns(contexts=["age"], action="arm", reward="bought"),
        [(0.0, 1.0), (0.0, 1.0)],
        arms=["mail", "call"],
    )
    folder = new_folder() / "out"
    published = log.publish(dpb.JointDP(epsilon=2.0, delta=1e-6), horizon=n)
    published.save(folder)
    return folder, published


def _used(folder: Path) -> object:
    """All that the commands do with a folder of `learn`."""
    held = PublishedTable.load(folder)
    rows = held.context_rows({name: np.array([0.2, 0.9]) for name in held.contexts}, clip=True)
    mean, _ = held.function.predict(rows)
    shown = [held.action_names[best] for best in mean.argmax(axis=1)]
    return shown, held.action_cells({held.action: shown}), repr(held.function.guarantee)


def _manifest() -> Target:
    """`manifest.json` of a folder of `learn` as any text."""
    folder, _ = _learned_folder()
    path = folder / "manifest.json"

    def parse(data: bytes) -> object:
        path.write_bytes(data)
        return _used(folder)

    return Target(parse=parse, seeds=(path.read_bytes(),), form="json")


def _learned() -> Target:
    """`policy.json` and `columns.json` of a folder of `learn`, under a right manifest, whatever they say."""
    folder, published = _learned_folder()
    files = published.to_files()
    said = {name: json.loads(files[name]) for name in ("policy.json", "columns.json")}

    def build(value: Any) -> object:
        parts = value if isinstance(value, dict) else {}
        new = files | {name: json.dumps(parts.get(name)).encode() for name in said}
        del new["manifest.json"]
        listed = {name: hashlib.sha256(data).hexdigest() for name, data in sorted(new.items())}
        new["manifest.json"] = f"{json.dumps({'format': 1, 'files': listed}, indent=1)}\n".encode()
        for name in ("manifest.json", *said):
            (folder / name).write_bytes(new[name])
        return _used(folder)

    return Target(parse=any_json(build), seeds=(as_json(said),), form="json")


# -- local ---------------------------------------------------------------------------------------------

SPEC = spec_with(
    contexts=BOX,
    arms=range(3),
    privacy=dpb.LocalDP(epsilon=2.0),
    learner="tree",
    chooser="server",
    reports_per_version=4,
    max_leaves=16,
)


def _some_reports(n: int) -> list[bytes]:
    client, published = Client(SPEC, budget=200.0), Server(SPEC).publish()
    reports = []
    for x in np.random.default_rng(3).random(n):
        client.choose(published, [x, 1.0 - x])
        reports.append(client.report(x))
    return reports


def _server_log() -> Target:
    """A server's log whose last record is anything: its kind, then its content."""
    sound = new_folder()
    reports = _some_reports(8)
    with DurableServer.open(SPEC, sound, least_open=0.0) as server:
        server.publish()
    folder, whole, attached = _Folder(_copy(sound)), _copy(sound), _copy(sound)
    with DurableServer.open(SPEC, whole, least_open=0.0) as server:
        server.absorb(reports)
        server.publish()
    held = _held(whole / "reports.log")
    source = SourceSpec(target=SPEC, name="past", n_users=50, privacy=dpb.LocalDP(epsilon=2.0))
    past = Server(source.reports)
    device, told = Client(source.reports, budget=100.0), past.publish()
    device.choose(told, [0.1, 0.2])
    past.absorb([device.report(1.0)])
    with DurableServer.open(SPEC, attached, least_open=0.0) as server:
        server.attach(source, past)
    begun = len(_held(sound / "reports.log"))
    seeds = [kind + content for kind, content in held[begun : begun + 1]]
    seeds += [kind + content for kind, content in _held(attached / "reports.log")[begun:]]

    def made() -> DurableServer:
        server = without_folder(SPEC)
        for record in held[:begun]:
            replay_of_server(server, *record)
        return server

    def look(server: DurableServer) -> object:
        arrays = server.server.to_arrays()
        return {name: (array.shape, array.tobytes()) for name, array in arrays.items()}

    def use(server: Server | DurableServer) -> object:
        server.absorb(reports[:5])
        return server.publish().to_json(SPEC), repr(server)

    trial = _Trial(made=made, replay=replay_of_server, look=look, use=lambda server: use(server.server))

    def parse(data: bytes) -> object:
        record = _record(data)
        if not trial.wants_folder(*record):
            return None
        folder.put_back_with("reports.log", *record)
        with DurableServer.open(SPEC, folder.path, least_open=0.0) as server:
            return use(server)

    return Target(parse=parse, seeds=tuple(seeds), form="bytes")


def _server_snapshot() -> Target:
    """A server's snapshot that says what it likes, its checksums right; its texts are JSON here.

    One that does not count is passed over: the log is read from its start, whatever the snapshot said.
    """
    place, reports = new_folder(), _some_reports(12)
    snapshots_often(2)
    with DurableServer.open(SPEC, place, least_open=0.0) as server:
        for start in (0, 4):
            server.publish()
            server.absorb(reports[start : start + 4])
        server.publish()
    snapshots_often(1000)
    data = (place / "server.state").read_bytes()
    state, _ = decode(io.BytesIO(data), len(data))
    texts = {
        name: json.loads(array.tobytes())
        for name, array in state.arrays.items()
        if name == "numbers" or name.startswith("published.")
    }
    arrays = {name: entry for name, entry in listed_arrays(state).items() if name not in texts}
    seed = as_json({"header": json.loads(header_of(data)), "arrays": arrays, "texts": texts})
    folder = _Folder(place)

    def build(value: Any) -> object:
        parts = value if isinstance(value, dict) else {}
        header, kept, said = (parts.get(name) for name in ("header", "arrays", "texts"))
        if not all(isinstance(part, dict) for part in (header, kept, said)):
            return None
        written = {
            name: {"dtype": "|u1", "shape": [len(text)], "values": list(text)}
            for name, text in ((name, json.dumps(one).encode()) for name, one in said.items())
        }
        found = whole_file(json.dumps({**header, "arrays": kept | written}).encode())
        if found is None:
            return None
        folder.put_back(**{"server.state": found[1]})
        if not snapshot_counts(SPEC, place):
            return None
        with DurableServer.open(SPEC, place, least_open=0.0) as server:
            server.absorb(reports[8:])
            return server.publish().to_json(SPEC), repr(server)

    return Target(parse=any_json(build), seeds=(seed,), form="json", drops=True)


def _outbox() -> Target:
    """An outbox whose pin and stored report are any bytes: 64 of the pin first."""
    folder = new_folder() / "outbox"
    device = Client(SPEC, outbox=FileOutbox(folder))
    device.choose(Server(SPEC).publish(), [0.1, 0.2])
    device.report(1.0)
    pin, (stored,) = folder / "spec", folder.glob("*.report")
    length = len(pin.read_bytes())

    def parse(data: bytes) -> object:
        pin.write_bytes(data[:length])
        stored.write_bytes(data[length:])
        return Client(SPEC, outbox=FileOutbox(folder)).unsent()

    return Target(parse=parse, seeds=(pin.read_bytes() + stored.read_bytes(),), form="bytes")


# -- outsourced ----------------------------------------------------------------------------------------


def _answer_log() -> Target:
    """A log of answers whose last record is anything; what lies around it is the journal's."""
    sound = new_folder() / "answers.log"
    log = AnswerLog.create(sound, "example", ledger=None)
    log.append(3, 0.25)
    held = _held(sound)

    class Held:
        def __init__(self, last: tuple[bytes, bytes]) -> None:
            self.settle = lambda: [*held, last]

    def parse(data: bytes) -> object:
        read = AnswerLog(cast("Any", Held(_record(data))))
        return read.evaluations, read.entries, read.get(3)

    return Target(parse=parse, seeds=(b"A[1, 0.5]", b"B[2]"), form="bytes")


def _requests() -> Target:
    """What a stranger may write to a curator's process."""
    table = {"age": [30.0, 41.0, 52.0, 63.0], "effect": [0.1, 0.7, 0.4, 0.9]}
    curator = Curator(
        table,
        contexts=dpb.Schema(age=dpb.Range(18, 90)),
        privacy=dpb.RowDP(epsilon=1.0, distance=1.0),
        objective="effect",
    )
    curator.publish()

    def parse(data: bytes) -> object:
        replies = io.StringIO()
        first = b"".join(data.splitlines(keepends=True)[:16])  # a request a line, and so many say enough
        serve(curator, request_lines(io.BytesIO(first)), replies)
        if any("row" not in json.loads(line) for line in replies.getvalue().splitlines()[1:]):
            raise AssertionError("a reply without its row")
        return replies

    return Target(parse=parse, seeds=(b'{"ask": 1}\n{"again": 1}\n{"ask": 2}\n',), form="bytes", drops=True)


def _replies() -> Target:
    """What a curator's process may write to a modeler."""

    def parse(data: bytes) -> object:
        lines = StreamAnswers(iter(as_text(data).splitlines()), io.StringIO(), release_id="r")
        return [lines.ask(row) for row in (0, 1)]

    greeting = b'{"release": "r", "answered": 0, "cap": null}\n'
    seeds = (
        greeting + b'{"row": 0, "answer": 0.5}\n{"row": 1, "answer": 1}\n',
        greeting + b'{"row": 0, "error": "AlreadyTold", "message": "m"}\n{"row": 0, "answer": 2}\n0.5\n',
    )
    return Target(parse=parse, seeds=seeds, form="bytes")


# -- tables --------------------------------------------------------------------------------------------

_KINDS = {"age": float, "region": str, "visits": int, "paid": bool}
_CSV = b"age,region,visits,paid,more\n30,north,2,true,x\n41.5,NA,3,false,\n1e3, south ,-1,True,z\n"


def _table(ending: str, seed: Callable[[], bytes]) -> Target:
    path = new_folder() / f"any{ending}"

    def parse(data: bytes) -> object:
        path.write_bytes(data)
        table = read_table_file(path, _KINDS, gaps=("region",))
        if len({len(column) for column in table.values()}) != 1:
            raise AssertionError("columns of several lengths")
        return table

    return Target(parse=parse, seeds=(seed(),), form="bytes")


def _arrow_table() -> Any:
    import pyarrow as pa

    return pa.table(
        {
            "age": [30.0, 41.5, 1e3],
            "region": ["north", None, "south"],
            "visits": [2, 3, -1],
            "paid": [True, False, True],
        }
    )


def _parquet() -> bytes:
    from pyarrow import parquet

    sink = io.BytesIO()
    parquet.write_table(_arrow_table(), sink)
    return sink.getvalue()


def _arrow() -> bytes:
    """With a dictionary and compressed buffers."""
    import pyarrow as pa

    table = _arrow_table()
    table = table.set_column(1, "region", table["region"].dictionary_encode())
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as file:
        file.write_table(table)
    return sink.getvalue()


_TOML = (
    b'path = "people.csv"\n[columns.age]\nlow = 16\nhigh = 64\nclip = true\n'
    b'[columns.gender]\ncategories = ["f", "m"]\n[user]\ncolumn = "person"\nrows = 2\n'
    b'[label]\ncolumn = "pay"\ncuts = [10, 16]\narms = ["low", "mid", "high"]\n',
    b'name = "p"\npath = "people.csv"\n[columns.age]\nlow = 16.5\nhigh = 64\nclip = true\n'
    b'[rewards]\ncolumns = ["mail", "call"]\nlow = 0\nhigh = 1\n',
    b'path = "people.csv"\n[columns.age]\nperiod = 7\nmissing = 3\n[columns.born]\nfirst = 2000-01-01\n'
    b'last = "2004-12-31T12:00"\nclip = true\nmissing = 2001-01-01\n[columns.born2]\nperiod = "week"\n',
    b'path = "people.csv"\nhorizon = 9\n[columns.age]\nlow = 16\nhigh = 64\nmissing = 40\n'
    b'[user]\ncolumn = "person"\nrows = 2\n[privacy]\nepsilon = 1\ndelta = 1e-6\n'
    b'[log]\narm = "gender"\narms = ["f", "m"]\nreward = "mail"\nlow = 0\nhigh = 1\npropensity = "call"\n',
)


def _description() -> Target:
    """The description of a table as any bytes."""
    folder = new_folder()
    (folder / "people.csv").write_text(
        "age,gender,person,pay,mail,call,born,born2\n30,f,a,9,0,1,2001-02-03,2001-02-03T04:05\n"
        "41,m,b,12,1,0,1999-01-01,2001-02-03\n17,m,a,30,0.5,0.5,,2001-02-03\n"
    )
    path = folder / "people.toml"

    def parse(data: bytes) -> object:
        path.write_bytes(data)
        described = DescribedTable.from_toml(path)
        cells = described.read(lenient=True)
        described.schema.points(described.read(), ignore_extra=True)
        if isinstance(described.outcome, ArmRewards):
            described.outcome.rewards(cells, lenient=True)
            return repr(table_from_toml(path, seed=0))
        return repr(described)

    return Target(parse=parse, seeds=_TOML, form="bytes")


def _sample() -> Target:
    """A public sample of a table as any bytes: what is written of it is a file that is read."""
    path = new_folder() / "sample.csv"

    def parse(data: bytes) -> object:
        path.write_bytes(data)
        text = sketched(read_sample(str(path), 5), path="sample.csv")
        try:
            return repr(DescribedTable.from_text(text))
        except InvalidParameter as error:  # no column fits; a file that lacks them says so
            if "lacks columns" not in str(error):
                raise AssertionError(text) from error
            raise

    seeds = (
        b"age,region,seen,vip,wage\n31,north,2024-05-01,TRUE,12.5\n58,NA,2024-06-30,FALSE,\n",
        b'a,b\n"1","x"\n2,y\n3,\n4,none\n',
    )
    return Target(parse=parse, seeds=seeds, form="bytes")


FOLDERS: dict[str, Callable[[], Target]] = {
    "journal": _journal,
    "release-log": _release_log,
    "witness": _witness,
    "round-log": _round_log,
    "explore-state": _explore_state,
    "row-sums": _row_sums,
    "published-posterior": _published_posterior,
    "manifest": _manifest,
    "learned": _learned,
    "server-log": _server_log,
    "server-snapshot": _server_snapshot,
    "outbox": _outbox,
    "answer-log": _answer_log,
    "pipe-requests": _requests,
    "pipe-replies": _replies,
    "csv": lambda: _table(".csv", lambda: _CSV),
    "parquet": lambda: _table(".parquet", _parquet),
    "arrow": lambda: _table(".arrow", _arrow),
    "table-description": _description,
    "table-sample": _sample,
}
