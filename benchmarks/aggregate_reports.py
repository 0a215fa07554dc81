"""Count ten million reports in files: one process, then a local Dask cluster of two workers; the same bits.

    python -m benchmarks.aggregate_reports --folder FOLDER --out reproduction/results/counting.json
    python -m benchmarks.aggregate_reports --reports 1000000 --files 16
    python -m benchmarks.aggregate_reports --database --folder FOLDER --out reproduction/results/counting.json

With `--database` reports are also counted by a local policy of the service on PostgreSQL, a separate server
(see `service_workers.py`). Four workers take batches of files in turn. Then the cluster's counts are merged
in bulk into another policy of the same contract. The sums of both must be equal.

Reports have the distribution of devices' reports (signed ternary, epsilon = 1). They are sampled in batches
from a seeded generator, because counting is measured, not devices. Some are in two files, as after a retry.
"""

import argparse
import json
import multiprocessing
import platform
import tempfile
import time
from pathlib import Path

import numpy as np

from dpbandits.domains import Box
from dpbandits.errors import StateError
from dpbandits.local import PublishedArms, ReportCounts, Spec, SpecTuning, aggregate
from dpbandits.local.contract.reports import HEADER_BYTES
from dpbandits.local.server.aggregation import read_records, sums_digest
from dpbandits.local.server.counting import Absorbed
from dpbandits.privacy import LocalDP

CHUNK = 100_000
REPEATED = 50
WORKERS, BATCH = 4, 10_000


def contract(n_bins):
    """A spec, and one published version with this many bins."""
    spec = Spec(
        contexts=Box(low=[0, 0], high=[1, 1]),
        arms=range(3),
        privacy=LocalDP(epsilon=1.0),
        learner="tree",
        seed=1_000_000,
        tuning=SpecTuning(mechanism="signed"),
    )
    partition = spec.protocol.bins.partition()
    while len(partition.leaves) < n_bins:
        partition.split(partition.leaves[:1])
    arms = np.random.default_rng(0).integers(3, size=n_bins)
    return spec, PublishedArms(version=0, splits=tuple(partition.splits), arms=arms)


def reports(n, spec, n_bins, rng):
    """(n, length) reports of n devices spread evenly over bins, rewards fair coins."""
    mechanism = spec.protocol.mechanism_for(n_bins)
    a, b, theta = (float(rate) for rate in mechanism.rates)
    luck = rng.random((n, n_bins), dtype=np.float32)
    nonzero, negative = luck < 2 * theta, luck < theta
    own, cell = rng.random(n), rng.integers(n_bins, size=n)
    rows = np.arange(n)
    nonzero[rows, cell] = own < a + b
    negative[rows, cell] = (own < a + b) & ((own < a) == (rng.random(n) < 0.5))
    head = np.frombuffer(bytes([0xD1]) + spec.digest + bytes(4), dtype=np.uint8)
    records = np.empty((n, HEADER_BYTES + mechanism.report_bytes), dtype=np.uint8)
    records[:, :9] = head
    records[:, 9:17] = rng.integers(0, 256, size=(n, 8), dtype=np.uint8)
    planes = np.packbits(nonzero, axis=1), np.packbits(negative, axis=1)
    records[:, 17:] = np.concatenate(planes, axis=1)
    return records


def write(folder, spec, n_bins, n_reports, n_files):
    """Files of reports; every file but the first repeats some of the first file's."""
    rng, paths, first = np.random.default_rng(1_000_000), [], None
    each = n_reports // n_files
    for index in range(n_files):
        path = folder / f"{index:04d}.reports"
        paths.append(path)
        if path.exists():
            continue
        with path.open("wb") as file:
            for start in range(0, each, CHUNK):
                rows = reports(min(CHUNK, each - start), spec, n_bins, rng)
                if start == 0:
                    file.write(b"DPBREP1\n" + rows.shape[1].to_bytes(4, "little"))
                    first = rows[: REPEATED * n_files] if first is None else first
                file.write(rows.tobytes())
            if index:
                file.write(first[REPEATED * index : REPEATED * (index + 1)].tobytes())
    return paths


def timed(label, n, run, *, workers=1, used=time.process_time):
    """One row. `used` gives the CPU seconds of those who count; on a shared machine wall time says little."""
    started, cpu = time.perf_counter(), used()
    counts, tally = run()
    wall, cpu = time.perf_counter() - started, used() - cpu
    row = {"case": label, "reports": n, "workers": workers, "digest": sums_digest(counts)}
    row |= {"seconds": round(wall, 1), "per_second_a_worker": round(n / wall / workers)}
    row |= {"cpu_seconds": round(cpu, 1), "per_cpu_second": round(n / cpu)}
    row |= vars(tally)
    print(json.dumps(row), flush=True)
    return row


def sequentially(paths, spec, published):
    """Absorb file after file into one object, as a server would."""
    counts = ReportCounts(spec, published)
    tally = counts.absorb([])
    for path in paths:
        records, _ = read_records(path)
        for start in range(0, len(records), 1 << 16):
            tally.add(counts.absorb_records(np.ascontiguousarray(records[start : start + (1 << 16)])))
    return counts, tally


def taken(server, batch):
    """As devices do: again, until somebody says that it was taken."""
    while True:
        try:
            return server.absorb(batch)
        except StateError:
            time.sleep(0.1)


def take(database, spec, paths, place, places, told):
    """One worker of the service: every so manieth batch."""
    from dpbandits.service.postgres import PostgresStore
    from dpbandits.service.surveys import SharedServer

    store = PostgresStore(database)
    server = SharedServer(store, "workers", spec)
    tally, batches = server.absorb([]), 0
    for path in paths:
        records, _ = read_records(path)
        for start in range(0, len(records), BATCH):
            batches += 1
            if batches % places == place:
                rows = np.ascontiguousarray(records[start : start + BATCH])
                data, step = rows.tobytes(), rows.shape[1]
                batch = [data[at : at + step] for at in range(0, len(data), step)]
                tally.add(taken(server, batch))
    store.close()
    told.put((vars(tally), time.process_time()))


def counts_of(server, published):
    """Return the counts of a server that its learner has not used yet."""
    spec = server.spec
    named = {name.replace(".", "/"): one for name, one in server.to_arrays().items() if name[0].isdigit()}
    return ReportCounts.from_arrays(spec, [published], named | {"nonces": server.nonces()})


def into_database(paths, spec, published, counts, n, *, only_bulk):
    """Two rows: workers of the service, and counts in bulk; or the second alone."""
    from benchmarks.service_workers import address, postgresql
    from dpbandits.service.postgres import PostgresStore
    from dpbandits.service.surveys import SharedServer

    rows, spent = [], [0.0]
    context = multiprocessing.get_context("spawn")
    with postgresql() as server:
        database = address(server, "reports")
        store = PostgresStore(database)
        with store.writing() as writes:
            for name in ("workers", "bulk"):
                writes.run("INSERT INTO surveys VALUES (?, ?, 'people', ?, 0)", name, name, spec.to_json())
                SharedServer.begin(writes, name, spec, published)

        def by_workers():
            told, tally = context.Queue(), Absorbed()
            given = database, spec, paths
            running = [context.Process(target=take, args=(*given, k, WORKERS, told)) for k in range(WORKERS)]
            for process in running:
                process.start()
            for _ in running:
                each, used = told.get()
                tally.add(Absorbed(**each))
                spent[0] += used
            for process in running:
                process.join()
            return counts_of(SharedServer(store, "workers", spec).server, published), tally

        def in_bulk():
            shared = SharedServer(store, "bulk", spec)
            added = shared.merge(counts)
            return counts_of(shared.server, published), Absorbed(accepted=added)

        label = f"{WORKERS} workers of the service, PostgreSQL"
        if not only_bulk:
            rows.append(timed(label, n, by_workers, workers=WORKERS, used=lambda: spent[0]))
        rows.append(timed("counted in bulk, into PostgreSQL", n, in_bulk))
        store.close()
    return rows


def publish(rows, out):
    """Write the rows; the sums must be the same in all of them."""
    if out is not None:
        out.write_text(json.dumps(rows, indent=1) + "\n")
    if len({row["digest"] for row in rows}) != 1:
        raise SystemExit("the sums differ")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reports", type=int, default=10_000_000)
    parser.add_argument("--files", type=int, default=100)
    parser.add_argument("--bins", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=None, help="kept, and used again")
    parser.add_argument("--database", action="store_true", help="also into policies on PostgreSQL")
    parser.add_argument("--only-bulk", action="store_true", help="one object, and its counts into PostgreSQL")
    parser.add_argument("--out", type=Path, default=None, help="JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        spec, published = contract(options.bins)
        paths = write(folder, spec, options.bins, options.reports, options.files)
        n = sum(len(read_records(path)[0]) for path in paths)
        print(
            json.dumps(
                {"machine": platform.machine(), "python": platform.python_version(), "files": len(paths)}
            )
        )
        counted = []

        def by_one():
            counted.append(sequentially(paths, spec, [published]))
            return counted[-1]

        rows = [timed("one object, file after file", n, by_one)]
        if options.only_bulk:
            rows += into_database(paths, spec, published, counted[0][0], n, only_bulk=True)
            publish(rows, options.out)
            return
        rows.append(timed("one process", n, lambda: aggregate(paths, spec, [published])))
        from distributed import Client, LocalCluster

        with (
            LocalCluster(n_workers=options.workers, threads_per_worker=1, dashboard_address=None) as cluster,
            Client(cluster) as client,
        ):
            label = f"local cluster, {options.workers} workers"

            def on_cluster():
                counted.append(aggregate(paths, spec, [published], cluster=client))
                return counted[-1]

            rows.append(
                timed(
                    label,
                    n,
                    on_cluster,
                    workers=options.workers,
                    used=lambda: sum(client.run(time.process_time).values()),
                )
            )
        if options.database:
            rows += into_database(paths, spec, published, counted[-1][0], n, only_bulk=False)
        publish(rows, options.out)


if __name__ == "__main__":
    main()
