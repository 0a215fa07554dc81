"""Ratios of `make bench`: this library over bare NumPy, its peers and itself, both sides in turn in one run.

Each case gives one number per repetition. "before" is its value as measured at commit 8169304, or 1 if the
code of that commit is the other side of the ratio. In cases marked as noted it is a value that was noted when
this work was planned. A case whose peer is not installed is left out, and named. Ratios are of CPU time, but
for operations that wait: a durable report, and the wall time of an ask.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from scipy.linalg import solve_triangular

import dpbandits as dpb

__all__ = ["RATIOS", "Ratio", "non_private_run", "whole_run", "world"]

Call = Callable[[], object]
Measured = Callable[[], float]

PRIVACY = dpb.JointDP(epsilon=1.0, delta=1e-6)


@dataclass(frozen=True)
class Ratio:
    """One line of the table.

    Args:
        name: Name of the measurement.
        unit: Unit of the number; "times" for a ratio.
        aim: Largest value that is aimed at; None without an aim.
        before: Value at commit 8169304; None if it was neither measured nor noted.
        prepare: Function that builds the call for one measurement.
        noted: True if `before` was noted, and not measured by this case.
        repeats: Largest number of repetitions.
        needs: Packages without which the case is left out.
    """

    name: str
    unit: str
    aim: float | None
    before: float | None
    prepare: Callable[[], Measured]
    noted: bool = False
    repeats: int = 3
    needs: tuple[str, ...] = ()

    @property
    def missing(self) -> list[str]:
        """Needed packages that are not installed."""
        return [name for name in self.needs if find_spec(name) is None]


def in_turn(ours: Call, theirs: Call, clock: Callable[[], float] = time.process_time) -> Measured:
    """Seconds of one call over those of the other, made right after it."""

    def ratio() -> float:
        marks = [clock()]
        for call in (ours, theirs):
            call()
            marks.append(clock())
        return (marks[1] - marks[0]) / (marks[2] - marks[1])

    return ratio


# -- central policies ------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def world(horizon: int) -> dpb.lab.worlds.FunctionBandit:
    """25 uniform candidates a round on a box; drawn before the clock starts."""
    environment = dpb.lab.worlds.camelback(seed=1_000_000, horizon=horizon, n_candidates=25)
    environment.decision_sets(0, horizon)
    return environment


@lru_cache(maxsize=4)
def features_of(horizon: int, n_features: int) -> dpb.features.MercerFeatures:
    kernel = dpb.kernels.Matern(nu=2.5, lengthscale=0.4)
    return dpb.features.MercerFeatures(kernel=kernel, domain=world(horizon).domain, n_features=n_features)


def folder_over_memory(pairs: int) -> Measured:
    """Return the time of asks and tells of a policy in a folder, over those of one in memory."""
    contexts = dpb.Schema(age=dpb.Range(0, 1), score=dpb.Range(0, 1), income=dpb.Range(0, 1))
    rows = [
        dict(zip(contexts.names, row, strict=True)) for row in np.random.default_rng(0).random((pairs, 3))
    ]

    def built() -> dpb.central.GPBandit:
        return dpb.central.GPBandit(
            contexts=contexts, arms=range(4), reward_range=(0, 1), horizon=pairs, privacy=PRIVACY
        )

    def run(policy: dpb.central.GPBandit) -> None:
        for t, row in enumerate(rows):
            policy.tell(policy.ask(row, user=t).id, 1.0)

    def in_a_folder() -> None:
        with (
            tempfile.TemporaryDirectory() as folder,
            dpb.central.GPBandit.open(Path(folder) / "live", new=built()) as policy,
        ):
            run(policy)

    return in_turn(in_a_folder, lambda: run(built()))


def whole_run(horizon: int, *, n_features: int, batched: bool = True, secure: bool = False) -> Call:
    environment, features = world(horizon), features_of(horizon, n_features)

    def go() -> object:
        policy = dpb.central.GPBandit(
            tuning=dpb.central.GPTuning(features=features),
            domain=environment.domain,
            reward_range=environment.reward_range,
            horizon=horizon,
            privacy=PRIVACY,
            noise=dpb.SecureNoise() if secure else dpb.SimulatedNoise(0),
        )
        return dpb.lab.evaluation.run(policy, environment, boundaries=None if batched else range(1, horizon))

    return go


def secure_over_simulated(n_features: int) -> Measured:
    secure, simulated = (whole_run(10_000, n_features=n_features, secure=one) for one in (True, False))
    simulated()  # what the runs share, such as the features of public decision sets, is made once
    return in_turn(secure, simulated)


def non_private_run(horizon: int, n_features: int, *, growth: float) -> Call:
    environment, features = world(horizon), features_of(horizon, n_features)

    def go() -> object:
        policy = dpb.lab.baselines.FeatureGPUCB(
            features=features,
            domain=environment.domain,
            reward_range=environment.reward_range,
            horizon=horizon,
            update_growth=growth,
        )
        return dpb.lab.evaluation.run(policy, environment)

    return go


def asked_and_told(
    horizon: int,
    n_features: int,
    tuning: dpb.central.GPTuning | None = None,
    clock: Callable[[], float] = time.thread_time,
) -> Callable[[], list[float]]:
    """One by one, without the runner: seconds of every ask, CPU seconds of the asking thread by default."""
    environment, features = world(horizon), features_of(horizon, n_features)
    sets, rewards = environment.decision_sets(0, horizon), environment.mean_rewards(0, horizon)

    def go() -> list[float]:
        policy = dpb.central.GPBandit(
            domain=environment.domain,
            reward_range=environment.reward_range,
            horizon=horizon,
            privacy=PRIVACY,
            tuning=replace(tuning or dpb.central.GPTuning(), features=features),
            noise=dpb.SimulatedNoise(0),
        )
        seconds = []
        for t in range(horizon):
            start = clock()
            decision = policy.ask(sets[t], user=f"user-{t}")
            seconds.append(clock() - start)
            policy.tell(decision.id, float(rewards[t, decision.index]))
        return seconds

    return go


PEOPLE = dpb.Schema(age=dpb.Range(18, 90), income=dpb.Range(0, 1e5), region=dpb.Categories(["n", "s", "w"]))


def people_over_matrices(horizon: int) -> Measured:
    """Dicts and four arms over their encoded candidates: the same domain, features and tuning."""
    rng = np.random.default_rng(0)
    columns = {"age": rng.uniform(18, 90, horizon), "income": rng.uniform(0, 1e5, horizon)}
    columns |= {"region": rng.choice(["n", "s", "w"], horizon)}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    codes = np.repeat(PEOPLE.encode(columns)[:, None], 4, axis=1)
    sets = np.concatenate([codes, np.tile(np.arange(4.0)[:, None], (horizon, 1, 1))], axis=2)
    shared = {"reward_range": (0, 1), "horizon": horizon, "privacy": PRIVACY, "noise": dpb.SimulatedNoise(0)}
    of_people = {"contexts": PEOPLE, "arms": ["a", "b", "c", "d"]}
    like = dpb.central.GPBandit(**shared, **of_people)
    of_points = {"domain": like.domain, "tuning": like.tuning}

    def run(asked: object, arguments: dict[str, object]) -> None:
        policy = dpb.central.GPBandit(**shared, **arguments)
        for t, one in enumerate(asked):
            policy.tell(policy.ask(one, user=t).id, 1.0)

    return in_turn(lambda: run(rows, of_people), lambda: run(sets, of_points))


LATE = dpb.central.GPTuning(blocks=(200, 400, 800), lag=190)


def tail(clock: Callable[[], float]) -> Measured:
    """The 99th percentile of an ask over the median, three releases being made beside the answers."""
    go = asked_and_told(1_400, 500, LATE, clock)

    def ratio() -> float:
        seconds = go()
        return float(np.quantile(seconds, 0.99) / np.median(seconds))

    return ratio


def tail_beside_a_release() -> Measured:
    """The 99th percentile of an ask while a release is made over that of the others: what a busy machine adds
    is in both."""
    go = asked_and_told(1_400, 500, LATE, time.perf_counter)
    ends = np.asarray(LATE.blocks)[:, None]
    beside = ((ends <= np.arange(1_400)) & (np.arange(1_400) < ends + LATE.lag)).any(axis=0)

    def ratio() -> float:
        seconds = np.asarray(go())
        return float(np.quantile(seconds[beside], 0.99) / np.quantile(seconds[~beside], 0.99))

    return ratio


def bare_thompson_loop(horizon: int, n_features: int) -> Call:
    """Return a minimal loop for comparison: exact sums, and a fit at the ends of the blocks of `GPBandit`."""
    environment, features = world(horizon), features_of(horizon, n_features)
    sets, rewards = environment.decision_sets(0, horizon), environment.mean_rewards(0, horizon)
    blocks = set(dpb.central.GPTuning().schedule(horizon)[0])

    def go() -> object:
        rng = np.random.default_rng(0)
        precision, vector = np.eye(n_features) / 0.2, np.zeros(n_features)
        mean, factor = np.zeros(n_features), np.eye(n_features) * np.sqrt(0.2)
        for t in range(horizon):
            phi = features(sets[t])
            best = int(np.argmax(phi @ (mean + 0.25 * factor @ rng.standard_normal(n_features))))
            precision += np.outer(phi[best], phi[best]) * 4.0
            vector += phi[best] * (rewards[t, best] - 0.5) * 4.0
            if t + 1 in blocks:
                factor = np.linalg.inv(np.linalg.cholesky(precision)).T
                mean = factor @ (factor.T @ vector)
        return mean

    return go


def mabwiser_loop(horizon: int, n_features: int) -> Call:
    """Return the loop by MABWiser's linear Thompson sampling: one arm, whose context is a row's features."""
    from mabwiser.mab import MAB, LearningPolicy  # type: ignore[import-not-found, unused-ignore]

    environment, features = world(horizon), features_of(horizon, n_features)
    sets, rewards = environment.decision_sets(0, horizon), environment.mean_rewards(0, horizon)

    def go() -> object:
        bandit = MAB(arms=[0], learning_policy=LearningPolicy.LinTS(alpha=0.25), seed=0)
        bandit.fit([0], [0.5], np.zeros((1, n_features)))
        for t in range(horizon):
            phi = features(sets[t])
            best = int(np.argmax([row[0] for row in bandit.predict_expectations(phi)]))
            bandit.partial_fit([0], [float(rewards[t, best])], phi[best : best + 1])
        return bandit

    return go


def opendp_draws(size: int) -> Call:
    """Discrete Gaussian noise by OpenDP, on zeros."""
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian
    from opendp.metrics import l2_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    space = vector_domain(atom_domain(T="i64")), l2_distance(T="f64")
    measurement = make_gaussian(*space, 1e7, MO="ZeroConcentratedDivergence")
    return lambda: np.array(measurement([0] * size), dtype=np.int64)


def secure_draws(size: int) -> Measured:
    source = dpb.SecureNoise()
    source.integer_gaussian(1e7, 1)
    return in_turn(partial(source.integer_gaussian, 1e7, size), opendp_draws(size))


# -- Gaussian processes without privacy ------------------------------------------------------------------

GP_KERNEL = dpb.kernels.Matern(nu=2.5, lengthscale=0.4)


def exact_gp_ucb(horizon: int) -> Call:
    environment = world(horizon)
    sets, rewards = environment.decision_sets(0, horizon), environment.mean_rewards(0, horizon)

    def go() -> object:
        policy = dpb.lab.baselines.ExactGPUCB(
            kernel=GP_KERNEL,
            domain=environment.domain,
            reward_range=environment.reward_range,
            horizon=horizon,
        )
        for t in range(horizon):
            decision = policy.ask(sets[t])
            policy.tell(decision.id, float(rewards[t, decision.index]))
        return policy

    return go


def bare_cholesky_loop(horizon: int) -> Call:
    """GP-UCB by an incremental Cholesky factor: no checks, no book, no protocol."""
    environment = world(horizon)
    sets, rewards = environment.decision_sets(0, horizon), environment.mean_rewards(0, horizon)
    centred = environment.reward_range.to_centred(rewards)

    def go() -> object:
        inputs, whitened = np.zeros((horizon, sets.shape[2])), np.zeros(horizon)
        lower = np.zeros((horizon, horizon))
        for t in range(horizon):
            cross = GP_KERNEL(inputs[:t], sets[t])
            if t:
                cross = solve_triangular(lower[:t, :t], cross, lower=True, check_finite=False)
            mean, variance = whitened[:t] @ cross, 1.0 - np.einsum("ij,ij->j", cross, cross)
            best = int(np.argmax(mean + 0.5 * np.sqrt(np.maximum(variance, 0.0))))
            pivot = np.sqrt(variance[best] + 0.25)
            lower[t, :t], lower[t, t] = cross[:, best], pivot
            whitened[t] = (centred[t, best] - mean[best]) / pivot
            inputs[t] = sets[t, best]
        return whitened

    return go


def sklearn_loop(horizon: int) -> Call:
    """Return the loop by scikit-learn, fitted again every round with a known kernel."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import Matern

    environment = world(horizon)
    sets, rewards = environment.decision_sets(0, horizon), environment.mean_rewards(0, horizon)
    centred = environment.reward_range.to_centred(rewards)

    def go() -> object:
        model = GaussianProcessRegressor(Matern(nu=2.5, length_scale=0.4), alpha=0.25, optimizer=None)
        inputs, answers = [sets[0, 0]], [float(centred[0, 0])]
        for t in range(1, horizon):
            mean, spread = model.fit(np.array(inputs), np.array(answers)).predict(sets[t], return_std=True)
            best = int(np.argmax(mean + 0.5 * spread))
            inputs.append(sets[t, best])
            answers.append(float(centred[t, best]))
        return model

    return go


def botorch_steps() -> Measured:
    from benchmarks.outsourced_botorch import compared

    def ratio() -> float:
        ours, theirs, _ = compared(2_000)
        return ours / theirs

    return ratio


# -- processes: the command line, tables -----------------------------------------------------------------


@dataclass(frozen=True)
class Cost:
    """CPU time of a process in seconds, and its peak memory in megabytes."""

    cpu: float
    megabytes: float


_COUNTED = """
import sys
try:
    exec(sys.argv.pop(1))
finally:
    with open("/proc/self/status") as status:
        peak = next(line for line in status if line.startswith("VmHWM"))
    sys.stderr.write("\\n" + peak.split()[1])
"""
_COMMAND = "sys.argv[0] = 'dpbandits'; from dpbandits.cli import main; main()"


def process(code: str, *arguments: str) -> Cost:
    """A Python process that runs `code`; raises where it fails."""
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen(  # noqa: S603  # code of this file
            [sys.executable, "-c", _COUNTED, code, *arguments],
            stdout=subprocess.DEVNULL,
            stderr=said,
        )
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read().decode()
    if child.returncode:
        raise SystemExit(f"a process of the benchmark failed: {text[-400:]}")
    return Cost(used.ru_utime + used.ru_stime, int(text.rsplit("\n", 1)[1]) / 1e3)


def run_with_attack() -> Measured:
    def command(guesses: int) -> float:
        with tempfile.TemporaryDirectory() as folder:
            options = "--data synthetic-income --horizon 2000 --reps 1 --jobs 1 --noise simulated"
            more = f"--attack-trials {guesses} --out {Path(folder) / 'report'}"
            return process(_COMMAND, "run", *f"{options} {more}".split()).cpu

    return lambda: command(500) / command(40)


def shown_help() -> Measured:
    return lambda: process(_COMMAND, "--help").cpu


def imported() -> Measured:
    return lambda: process("import dpbandits").cpu / process("pass").cpu


_FOLDER = tempfile.TemporaryDirectory()
ROWS_PER_USER = 5


@lru_cache
def table_of(rows: int) -> str:
    """A CSV file: two contexts, an arm of three, a reward, and the person, with five rows each."""
    import pyarrow as pa
    from pyarrow import csv

    path = Path(_FOLDER.name) / f"{rows}.csv"
    rng = np.random.default_rng(0)
    fields = [(name, pa.float64()) for name in ("age", "score", "reward")]
    schema = pa.schema([*fields, ("arm", pa.string()), ("user", pa.string())])
    with csv.CSVWriter(path, schema) as writer:
        for start in range(0, rows, 1_000_000):
            count = min(1_000_000, rows - start)
            numbers = np.round(rng.random((3, count)), 4)
            arm = np.array(["mail", "call", "none"])[rng.integers(3, size=count)]
            user = np.char.add("u", (rng.permutation(count) // ROWS_PER_USER + start).astype(str))
            writer.write_table(pa.table([*numbers, arm, user], schema=schema))
    return str(path)


@lru_cache
def learned(rows: int) -> tuple[str, Cost]:
    """The folder that `learn` published from such a table, and what it cost."""
    folder = str(Path(_FOLDER.name) / f"policy-{rows}")
    columns = "--context age,score --action arm --reward reward --user user"
    public = "--bounds 0:1,0:1,0:1 --arms mail,call,none --epsilon 1"
    options = f"{columns} {public} --rows-per-user {ROWS_PER_USER} --horizon {rows} --out {folder}"
    return folder, process(_COMMAND, "central", "learn", table_of(rows), *options.split())


@lru_cache
def read_by_pandas(rows: int) -> Cost:
    return process("import pandas; pandas.read_csv(sys.argv[1])", table_of(rows))


@lru_cache
def evaluated(rows: int) -> Cost:
    return process(_COMMAND, "central", "evaluate", learned(rows)[0], table_of(rows))


@lru_cache
def predicted(rows: int) -> Cost:
    return process(_COMMAND, "central", "predict", learned(rows)[0], table_of(rows))


MILLION = 1_000_000

_SIX_COLUMNS = """
import sys
from dpbandits.tables.described import DescribedTable
described = DescribedTable.from_toml(sys.argv[1])
described.schema.points(described.read(), ignore_extra=True)
"""


@lru_cache
def six_columns(rows: int) -> tuple[str, str]:
    """A CSV file of four numbers and two categories, one in a hundred missing, and the TOML file about it."""
    import pyarrow as pa
    from pyarrow import csv

    path, rng = Path(_FOLDER.name) / f"six-{rows}.csv", np.random.default_rng(1)
    names = ["age", "score", "income", "visits", "region", "plan"]
    kinds = [pa.float64()] * 4 + [pa.string()] * 2
    schema = pa.schema(list(zip(names, kinds, strict=True)))
    with csv.CSVWriter(path, schema) as writer:
        for start in range(0, rows, MILLION):
            count = min(MILLION, rows - start)
            gone = rng.random((6, count)) < 0.01
            numbers = np.round(rng.random((4, count)), 4)
            texts = np.array([f"c{code}" for code in range(8)])[rng.integers(8, size=(2, count))]
            columns = [*numbers, *texts]
            writer.write_table(
                pa.table(
                    [
                        pa.array(one, kind, mask=lost)
                        for one, kind, lost in zip(columns, kinds, gone, strict=True)
                    ],
                    schema=schema,
                )
            )
    ranges = "".join(f"[columns.{name}]\nlow = 0\nhigh = 1\nmissing = 0.5\n" for name in names[:4])
    listed = [f"c{code}" for code in range(8)] + ["unknown"]
    texts = "".join(f'[columns.{name}]\ncategories = {listed!r}\nmissing = "unknown"\n' for name in names[4:])
    toml = path.with_suffix(".toml")
    toml.write_text(f'path = "{path.name}"\n{ranges}{texts}')
    return str(path), str(toml)


def read_and_encoded(rows: int) -> Cost:
    return process(_SIX_COLUMNS, six_columns(rows)[1])


# -- local policies --------------------------------------------------------------------------------------

USERS, A_VERSION = 160_000, 100


def local_crowd() -> Call:
    spec = dpb.local.Spec(contexts=dpb.Box([0, 0], [1, 1]), arms=range(3), privacy=dpb.LocalDP(epsilon=1.0))
    people = dpb.lab.worlds.contextual.ma2025()
    return lambda: dpb.lab.evaluation.crowds.simulate(spec, people, n_users=USERS, seed=1_000_000)


def bare_crowd() -> Call:
    """Return a minimal crowd for comparison: randomised response in 16 fixed bins, and Thompson sampling."""
    people, bins, arms, gain = dpb.lab.worlds.contextual.ma2025(), 16, 3, 2.16

    def go() -> object:
        rng = np.random.default_rng(0)
        contexts, means = people.draw(USERS, rng)
        where = (contexts * 4).astype(int) @ np.array([4, 1])
        luck, every = rng.random(USERS), np.arange(USERS)
        precision, pull = np.full((bins, arms), 10.0), np.zeros((bins, arms))
        at_bin, regret = np.arange(bins), 0.0
        for start in range(0, USERS, A_VERSION):
            here = slice(start, start + A_VERSION)
            drawn = pull / precision + rng.standard_normal((bins, arms)) / np.sqrt(precision)
            arm = drawn.argmax(axis=1)
            mean = means[every[here], arm[where[here]]]
            regret += float((means[here].max(axis=1) - mean).sum())
            signs = np.where(luck[here] < mean, 1.0, -1.0)
            sums = gain * np.bincount(where[here], weights=signs, minlength=bins)
            sums += gain * np.sqrt(A_VERSION / bins) * rng.standard_normal(bins)
            precision[at_bin, arm] += A_VERSION / bins / gain**2
            pull[at_bin, arm] += sums / gain**2
        return regret

    return go


def crowd_seconds() -> Measured:
    crowd = local_crowd()

    def seconds() -> float:
        start = time.process_time()
        crowd()
        return time.process_time() - start

    return seconds


def lone_report(count: int = 5_000) -> Measured:
    """Microseconds of CPU that a server takes for a report that comes alone."""
    spec = dpb.local.Spec(contexts=dpb.Box([0], [1]), arms=range(2), privacy=dpb.LocalDP(epsilon=1.0))
    published, reports = dpb.local.Server(spec).publish(), []
    for _ in range(count):
        client = dpb.local.Client(spec)
        client.choose(published, [0.3])
        reports.append(client.report(1.0))

    def microseconds() -> float:
        server = dpb.local.Server(spec)
        start = time.process_time()
        for report in reports:
            server.absorb([report])
        return 1e6 * (time.process_time() - start) / count

    return microseconds


def outsourced_run(horizon: int = 500, batch: int = 1, *, known: bool) -> Measured:
    """CPU seconds of all asks and tells over 1,000 rows of five columns."""
    from dpbandits.models.kernels import SquaredExponential

    rng = np.random.default_rng(0)
    table = {f"c{place}": rng.uniform(-1, 1, 1_000) for place in range(5)}
    values = np.exp(-sum((column - 0.3) ** 2 for column in table.values())) + 0.1 * rng.standard_normal(1_000)
    published = dpb.outsourced.Curator(
        table | {"value": values},
        contexts=dpb.Schema(**dict.fromkeys(table, dpb.Range(-1, 1))),
        privacy=dpb.RowDP(epsilon=5.0, distance=1.0),
        objective="value",
        noise=dpb.SimulatedNoise(3),
    ).publish()
    kernel = SquaredExponential(lengthscale=6.25) if known else None

    def seconds() -> float:
        start = time.process_time()
        modeler = dpb.outsourced.Modeler(published, kernel=kernel, horizon=horizon)
        for _ in range(horizon // batch):
            rows = modeler.ask_batch(batch)
            modeler.tell_batch(rows, values[rows])
        return time.process_time() - start

    return seconds


def durable_reports(count: int = 320, threads: int = 16) -> Measured:
    """Reports that come one a call from several threads, over as many bare appends, each durable."""
    spec = dpb.local.Spec(contexts=dpb.Box([0], [1]), arms=range(2), privacy=dpb.LocalDP(epsilon=1.0))

    def ratio() -> float:
        with tempfile.TemporaryDirectory() as folder:
            with dpb.local.DurableServer.open(spec, Path(folder) / "server") as server:
                published, reports = server.publish(), []
                for _ in range(count):
                    client = dpb.local.Client(spec)
                    client.choose(published, [0.3])
                    reports.append(client.report(1.0))

                def sent(mine: list[bytes]) -> None:
                    for report in mine:
                        server.absorb([report])

                work = [threading.Thread(target=sent, args=(reports[i::threads],)) for i in range(threads)]
                start = time.perf_counter()
                for one in work:
                    one.start()
                for one in work:
                    one.join()
                ours = time.perf_counter() - start
            start = time.perf_counter()
            with (Path(folder) / "bare").open("ab", buffering=0) as log:
                for report in reports:
                    log.write(report)
                    os.fsync(log.fileno())
            return ours / (time.perf_counter() - start)

    return ratio


RATIOS = (
    Ratio(
        "10,000 asks and tells one by one, m = 100, over a bare NumPy Thompson loop",
        "times",
        2.5,
        4.3,
        lambda: in_turn(asked_and_told(10_000, 100), bare_thompson_loop(10_000, 100)),
        noted=True,
    ),
    Ratio(
        "1,000 asks and tells one by one, m = 20, over MABWiser's linear Thompson sampling",
        "times",
        None,
        None,
        lambda: in_turn(asked_and_told(1_000, 20), mabwiser_loop(1_000, 20)),
        needs=("mabwiser",),
    ),
    Ratio(
        "2,000 people as dicts and four arms, asked and told, over their matrices of candidates",
        "times",
        1.5,
        None,
        lambda: people_over_matrices(2000),
    ),
    Ratio(
        "2,000 asks and tells of a policy in a folder, over the same in memory: CPU time",
        "times",
        2.0,
        None,
        lambda: folder_over_memory(2_000),
    ),
    Ratio(
        "99th percentile over median of an ask's CPU time, m = 500, lag of 190 rounds",
        "times",
        5.0,
        None,
        lambda: tail(time.thread_time),
    ),
    Ratio(
        "99th percentile over median of an ask's wall time, m = 500, lag of 190 rounds",
        "times",
        5.0,
        None,
        lambda: tail(time.perf_counter),
    ),
    Ratio(
        "99th percentile of an ask's wall time while a release is made, m = 500, over that of other asks",
        "times",
        None,
        None,
        tail_beside_a_release,
    ),
    Ratio(
        "run of 10,000 rounds, m = 100: secure noise over simulated",
        "times",
        1.15,
        None,
        lambda: secure_over_simulated(100),
    ),
    Ratio(
        "run of 10,000 rounds, m = 500: secure noise over simulated",
        "times",
        1.3,
        None,
        lambda: secure_over_simulated(500),
        repeats=1,
    ),
    Ratio(
        "secure discrete Gaussian noise, a draw, over OpenDP's",
        "times",
        0.95 / 24,
        1.0,
        lambda: secure_draws(20_000),
        needs=("opendp",),
    ),
    Ratio(
        "ExactGPUCB over 500 rounds, over a bare incremental Cholesky loop",
        "times",
        1.5,
        3.8,
        lambda: in_turn(exact_gp_ucb(500), bare_cholesky_loop(500)),
        noted=True,
    ),
    Ratio(
        "ExactGPUCB over 200 rounds, over scikit-learn's Gaussian process",
        "times",
        None,
        None,
        lambda: in_turn(exact_gp_ucb(200), sklearn_loop(200)),
        needs=("sklearn",),
    ),
    Ratio(
        "Modeler over 50 queries of 2,000 rows, over BoTorch conditioned anew",
        "times",
        None,
        None,
        botorch_steps,
        repeats=1,
        needs=("torch", "botorch"),
    ),
    Ratio(
        "read and encode 1,000,000 rows of six columns, over pandas reading the file: CPU time",
        "times",
        3.0,
        None,
        lambda: (
            lambda: (
                read_and_encoded(MILLION).cpu
                / process("import pandas; pandas.read_csv(sys.argv[1])", six_columns(MILLION)[0]).cpu
            )
        ),
        repeats=3,
        needs=("pandas", "pyarrow"),
    ),
    Ratio(
        "read and encode 5,000,000 rows of six columns: peak memory",
        "MB",
        1500.0,
        None,
        lambda: lambda: read_and_encoded(5 * MILLION).megabytes,
        repeats=1,
        needs=("pyarrow",),
    ),
    Ratio(
        "learn from 1,000,000 rows of persons, over pandas reading the file: CPU time",
        "times",
        5.0,
        13.6,
        lambda: lambda: learned(MILLION)[1].cpu / read_by_pandas(MILLION).cpu,
        noted=True,
        repeats=1,
        needs=("pandas", "pyarrow"),
    ),
    Ratio(
        "learn from 1,000,000 rows of persons, over pandas reading the file: peak memory",
        "times",
        2.5,
        4.6,
        lambda: lambda: learned(MILLION)[1].megabytes / read_by_pandas(MILLION).megabytes,
        noted=True,
        repeats=1,
        needs=("pandas", "pyarrow"),
    ),
    Ratio(
        "learn from 10,000,000 rows of persons: peak memory",
        "GB",
        4.0,
        None,
        lambda: lambda: learned(10 * MILLION)[1].megabytes / 1e3,
        repeats=1,
        needs=("pyarrow",),
    ),
    Ratio(
        "evaluate 1,000,000 rows of persons, over pandas reading the file: CPU time",
        "times",
        4.0,
        None,
        lambda: lambda: evaluated(MILLION).cpu / read_by_pandas(MILLION).cpu,
        repeats=1,
        needs=("pandas", "pyarrow"),
    ),
    Ratio(
        "predict for 1,000,000 rows: CPU time",
        "s",
        5.0,
        None,
        lambda: lambda: predicted(MILLION).cpu,
        repeats=1,
        needs=("pyarrow",),
    ),
    Ratio(
        "predict for 1,000,000 rows, over pandas reading the file: CPU time",
        "times",
        None,
        None,
        lambda: lambda: predicted(MILLION).cpu / read_by_pandas(MILLION).cpu,
        repeats=1,
        needs=("pandas", "pyarrow"),
    ),
    Ratio(
        "local crowd of 160,000 users, a version every 100: CPU time",
        "s",
        0.5,
        1.7,
        crowd_seconds,
        noted=True,
    ),
    Ratio(
        "local crowd of 160,000 users, a version every 100, over a bare NumPy loop",
        "times",
        None,
        None,
        lambda: in_turn(local_crowd(), bare_crowd()),
    ),
    Ratio(
        "durable single reports from 16 threads, over bare appends, each made durable: wall time",
        "times",
        None,
        None,
        durable_reports,
    ),
    Ratio("a report that comes to a local server alone: CPU time", "us", 20.0, None, lone_report),
    Ratio(
        "outsourced run of 500, known kernel: CPU time",
        "s",
        None,
        None,
        lambda: outsourced_run(known=True),
    ),
    Ratio(
        "outsourced run of 500 by fives, known kernel: CPU time",
        "s",
        None,
        None,
        lambda: outsourced_run(batch=5, known=True),
    ),
    Ratio(
        "outsourced run of 500, fitted kernel: CPU time",
        "s",
        None,
        None,
        lambda: outsourced_run(known=False),
    ),
    Ratio(
        "dpbandits run with 500 guesses of the membership attack, over 40",
        "times",
        None,
        None,
        run_with_attack,
        repeats=1,
    ),
    Ratio("dpbandits --help: CPU time", "s", 0.5, 2.2, shown_help),
    Ratio("import dpbandits, over a bare Python: CPU time", "times", 2.2, 2.2, imported),
)
