"""Drive a policy through an environment, once or over many seeds."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from dpbandits import _checks
from dpbandits._calls import worded
from dpbandits._dask import connected
from dpbandits._lazy import needing
from dpbandits._progress import watched
from dpbandits._seen import Seen
from dpbandits._threads import one_thread
from dpbandits._typing import FloatArray, Seed
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.lab.evaluation.seeds import FIRST_REPORT_SEED
from dpbandits.lab.worlds.protocol import Environment
from dpbandits.policy import Policy

__all__ = ["BANNER", "Repetitions", "RunResult", "in_processes", "on_cluster", "repeat", "run"]

BANNER = "Evaluation on data that one may look at: these numbers are not a private release."
"""Printed above every table of results."""

EnvironmentT = TypeVar("EnvironmentT", bound=Environment)

# Between two releases a policy answers all rounds alike, so batches may be cut anywhere; this bounds
# the memory of a batch without another release.
_LARGEST_BATCH = 4096


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RunResult(Seen):
    """Rewards of one policy in one environment, round by round. Raw data: for evaluation only.

    Attributes:
        environment: its name.
        seed: of the environment.
        rewards: (T,) rewards as they were drawn.
        expected: (T,) expected reward of the chosen candidates, or None where it is not known.
        best: (T,) expected reward of the best candidate of each round, or None.
        uniform: (T,) expected reward of a candidate drawn uniformly, or None.
        seconds: wall time of the policy's own calls.
        banner: says that this is no release.
    """

    environment: str
    seed: Seed
    rewards: FloatArray
    expected: FloatArray | None
    best: FloatArray | None
    uniform: FloatArray | None
    seconds: float
    banner: str = field(default=BANNER, init=False)

    @property
    def n_rounds(self) -> int:
        """T."""
        return len(self.rewards)

    @property
    def regret(self) -> FloatArray | None:
        """(T,) pseudo-regret: expected reward of the best candidate less that of the chosen one."""
        return None if self.best is None or self.expected is None else self.best - self.expected

    @property
    def mean_reward(self) -> float:
        """Mean over rounds of `expected`, or of `rewards` where that is not known."""
        return float(np.mean(self.rewards if self.expected is None else self.expected))

    def __repr__(self) -> str:
        return f"RunResult(environment={self.environment!r}, seed={self.seed}, n_rounds={self.n_rounds})"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Repetitions(Seen):
    """One policy over many seeds, a fresh policy and environment for each.

    Attributes:
        name: what reports call the policy.
        results: one `RunResult` a seed, in the order of the seeds.
        banner: says that this is no release.
    """

    name: str
    results: tuple[RunResult, ...]
    banner: str = field(default=BANNER, init=False)

    def __post_init__(self) -> None:
        if not self.results:
            raise InvalidParameter("repetitions need at least one run")
        if len({(result.environment, result.n_rounds) for result in self.results}) > 1:
            raise InvalidParameter("repetitions must share one environment and one number of rounds")
        if len({seed >= FIRST_REPORT_SEED for seed in self.seeds}) > 1:
            raise InvalidParameter("tuning and report seeds are mixed: run them apart")
        if len(set(self.seeds)) != len(self.seeds):
            raise InvalidParameter("a seed stands twice: its runs would be counted as independent")

    @property
    def seeds(self) -> tuple[Seed, ...]:
        """Seeds of the environments, in order."""
        return tuple(result.seed for result in self.results)

    @property
    def tuning(self) -> bool:
        """Return whether the seeds are for choosing constants and not for reporting."""
        return self.seeds[0] < FIRST_REPORT_SEED

    @property
    def mean_rewards(self) -> FloatArray:
        """(R,) mean reward of each run."""
        return np.array([result.mean_reward for result in self.results])

    @property
    def uniform_rewards(self) -> FloatArray | None:
        """(R,) mean reward of a uniformly random policy in each run's environment, exactly; or None."""
        means = [np.mean(result.uniform) for result in self.results if result.uniform is not None]
        return np.array(means) if len(means) == len(self.results) else None

    @property
    def cumulative_regret(self) -> FloatArray | None:
        """(R, T) pseudo-regret summed up to every round, or None."""
        regrets = [result.regret for result in self.results if result.regret is not None]
        return np.cumsum(regrets, axis=1) if len(regrets) == len(self.results) else None

    def __repr__(self) -> str:
        first = self.results[0]
        return (
            f"Repetitions(name={self.name!r}, environment={first.environment!r}, "
            f"n_rounds={first.n_rounds}, n_seeds={len(self.results)})"
        )


@worded
def run(
    policy: Policy,
    environment: Environment,
    *,
    rounds: int | None = None,
    boundaries: Sequence[int] | None = None,
    progress: bool = False,
) -> RunResult:
    """Let a fresh policy decide for the first `rounds` people of an environment.

    People between two boundaries are asked about together: none of their rewards is told before all of
    them have their answer. That changes nothing where the policy's released statistics change only at
    these rounds, which a policy states in its attribute `batch_boundaries`; a policy without it is driven
    one round at a time. Where a policy has `user_ids`, every round names its user: as the environment's
    `users(start, stop)` says, or another one each where it has none.

    Args:
        policy: has not been asked yet.
        environment: supplies people and rewards.
        rounds: all of the environment's by default.
        boundaries: increasing round indices, instead of the policy's own.
        progress: show how far it is, on standard error.

    Raises:
        InvalidParameter: more rounds than the environment has, boundaries that do not increase, or no policy
            and world.
    """
    if not hasattr(policy, "ask_batch"):
        raise InvalidParameter(
            f"policy is {_checks.kind_of(policy)}, expected a policy: call run(policy, world)"
        )
    if not hasattr(environment, "decision_sets"):
        raise InvalidParameter(
            f"environment is {_checks.kind_of(environment)}, expected a world such as those of lab.worlds"
        )
    total = environment.horizon if rounds is None else _checks.integer(rounds, name="rounds")
    if total > environment.horizon:
        raise InvalidParameter(f"rounds is {total}, the environment has {environment.horizon}")
    edges = _edges(policy, total, boundaries)
    name_users = bool(getattr(policy, "user_ids", False))
    rewards, seconds = np.empty(total), 0.0
    known: FloatArray | None = np.empty((3, total))
    with watched(environment.name, total=total, shown=progress) as moved, one_thread():
        for start, stop in pairwise(edges):
            candidates = environment.decision_sets(start, stop)
            users = _users(environment, start, stop) if name_users else None
            began = time.perf_counter()
            decisions = policy.ask_batch(candidates, users=users)
            seconds += time.perf_counter() - began
            indices = decisions.indices
            if (indices < 0).any():
                raise InvalidData(
                    "the policy refused a decision: the world has a context that it cannot read, or more "
                    "rounds of a "
                    "person than rounds_per_user"
                )
            rewards[start:stop] = environment.rewards(start, stop, indices)
            began = time.perf_counter()
            policy.tell_batch(decisions.ids, rewards[start:stop].copy())
            seconds += time.perf_counter() - began
            means = environment.mean_rewards(start, stop)
            if means is None or known is None:
                known = None
            else:
                chosen = means[np.arange(stop - start), indices]
                known[:, start:stop] = chosen, means.max(axis=1), means.mean(axis=1)
            moved(stop - start)
    expected, best, uniform = (None, None, None) if known is None else known
    return RunResult(
        environment=environment.name,
        seed=environment.seed,
        rewards=rewards,
        expected=expected,
        best=best,
        uniform=uniform,
        seconds=seconds,
    )


@worded
def repeat(
    make_policy: Callable[[EnvironmentT, Seed], Policy],
    make_environment: Callable[[Seed], EnvironmentT],
    *,
    name: str,
    seeds: Sequence[Seed],
    jobs: int = 1,
    rounds: int | None = None,
    boundaries: Sequence[int] | None = None,
    progress: bool = False,
) -> Repetitions:
    """One run a seed, each with its own environment and policy.

    Args:
        make_policy: (environment, seed) -> a fresh policy. It may use what is public about the
            environment (domain, reward range, horizon), nothing else.
        make_environment: seed -> environment. Use the same function and seeds for policies that are to
            be compared: `summarise` pairs them.
        name: what reports call the policy.
        seeds: distinct; see `report_seeds`.
        jobs: see `in_processes`.
        rounds, boundaries, progress: as in `run`; progress is in seeds.

    Raises:
        InvalidParameter: no seeds, jobs is 0, or an argument of another kind.
        MissingExtra: jobs is not 1 and joblib is not installed.
    """
    for what, given, said in (
        ("make_policy", make_policy, "lambda world, seed: GPBandit(...)"),
        ("make_environment", make_environment, "lambda seed: lab.worlds.load(name, seed=seed)"),
    ):
        if not callable(given):
            raise InvalidParameter(f"{what} is {_checks.kind_of(given)}, expected a function: pass {said}")
    if not isinstance(seeds, Iterable):
        raise InvalidParameter(
            f"seeds is {_checks.kind_of(seeds)}, expected several: pass report_seeds(1_000_000, 3)"
        )
    one = partial(_one, make_policy, make_environment, rounds=rounds, boundaries=boundaries)
    calls, results = [partial(_placed, place, one, seed) for place, seed in enumerate(seeds)], {}
    with watched(name, total=len(calls), shown=progress) as moved:
        for place, result in in_processes(calls, jobs=jobs, ordered=False):
            results[place] = result
            moved()
    return Repetitions(name=name, results=tuple(results[place] for place in range(len(calls))))


def in_processes(calls: Sequence[Callable[[], Any]], *, jobs: int, ordered: bool = True) -> Iterator[Any]:
    """Yield the results of calls as they end, or in order; calls must be picklable if jobs is not 1.

    Args:
        calls: independent of each other.
        jobs: processes, through joblib; -1 for all cores. A joblib backend chosen around this call, such
            as a Dask cluster, is used.
        ordered: whether the order of the calls is kept.

    Raises:
        InvalidParameter: jobs is 0.
        MissingExtra: jobs is not 1 and joblib is not installed.
    """
    if jobs == 0:
        raise InvalidParameter("jobs is 0, expected a number of processes, or -1 for all cores")
    if jobs == 1 or not calls:
        return (call() for call in calls)
    with needing("jobs other than 1 need joblib: pip install 'dpbandits[report]'"):
        from joblib import Parallel, delayed
    order = "generator" if ordered else "generator_unordered"
    found: Iterator[Any] = Parallel(jobs, return_as=order, batch_size=1)(delayed(call)() for call in calls)
    return found


@contextmanager
def on_cluster(address: str | None) -> Iterator[None]:
    """Send what `in_processes` runs here to a Dask cluster; None: to this machine's processes.

    Raises:
        InvalidParameter: no scheduler answers at the address, see `dpbandits._dask.connected`.
        MissingExtra: dask or joblib is not installed.
    """
    if address is None:
        yield
        return
    with needing("a cluster needs joblib: pip install 'dpbandits[cluster,report]'"):
        from joblib import parallel_config
    with connected(address), parallel_config("dask"):
        yield


def _placed(place: int, one: Callable[[Seed], RunResult], seed: Seed) -> tuple[int, RunResult]:
    """A run, and its place among the seeds: runs are counted as they end."""
    return place, one(seed)


def _one(
    make_policy: Callable[[EnvironmentT, Seed], Policy],
    make_environment: Callable[[Seed], EnvironmentT],
    seed: Seed,
    **how: Any,
) -> RunResult:
    environment = make_environment(seed)
    return run(make_policy(environment, seed), environment, **how)


def _users(environment: Environment, start: int, stop: int) -> list[str]:
    told: Callable[[int, int], list[str]] | None = getattr(environment, "users", None)
    return [f"{environment.name}/{t}" for t in range(start, stop)] if told is None else told(start, stop)


def _edges(policy: Policy, total: int, boundaries: Sequence[int] | None) -> list[int]:
    """0 = first edge < ... < last edge = total."""
    given = getattr(policy, "batch_boundaries", None) if boundaries is None else boundaries
    if given is None:
        return list(range(total + 1))
    inner = [_checks.integer(edge, name="a batch boundary", minimum=0) for edge in given]
    if any(left >= right for left, right in pairwise(inner)):
        raise InvalidParameter("batch boundaries must increase")
    natural = [0, *(edge for edge in inner if 0 < edge < total), total]
    return [*(cut for left, right in pairwise(natural) for cut in range(left, right, _LARGEST_BATCH)), total]
