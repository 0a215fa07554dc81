"""Run a policy in an environment, once or on many seeds."""

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
"""Text that is printed above every table of results."""

EnvironmentT = TypeVar("EnvironmentT", bound=Environment)

_LARGEST_BATCH = 4096
"""Largest number of rounds in a batch, which bounds the memory of a batch.

Between two releases a policy answers all rounds in the same way, so batches may be cut anywhere.
"""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RunResult(Seen):
    """Rewards of one policy in one environment in every round. They are raw data, for evaluation only.

    Attributes:
        environment: Name of the environment.
        seed: Seed of the environment.
        rewards: Sampled rewards (T,).
        expected: Expected rewards of the chosen candidates (T,); None if unknown.
        best: Expected reward of the best candidate of each round (T,); None if unknown.
        uniform: Expected reward of a uniformly random candidate (T,); None if unknown.
        seconds: Wall time of the policy's own calls, in seconds.
        banner: Text that says that this is not a private release.
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
        """Number of rounds, T."""
        return len(self.rewards)

    @property
    def regret(self) -> FloatArray | None:
        """Pseudo-regret of each round (T,): expected reward of the best candidate minus that of the
        chosen one.
        """
        return None if self.best is None or self.expected is None else self.best - self.expected

    @property
    def mean_reward(self) -> float:
        """Mean of `expected` over rounds, or of `rewards` if `expected` is unknown."""
        return float(np.mean(self.rewards if self.expected is None else self.expected))

    def __repr__(self) -> str:
        return f"RunResult(environment={self.environment!r}, seed={self.seed}, n_rounds={self.n_rounds})"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Repetitions(Seen):
    """Runs of one policy on many seeds, with a new policy and environment for each.

    Attributes:
        name: Name of the policy in reports.
        results: Results, one for each seed, in the order of the seeds.
        banner: Text that says that this is not a private release.
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
            raise InvalidParameter(
                "a seed occurs twice, and its runs are not independent: pass distinct seeds"
            )

    @property
    def seeds(self) -> tuple[Seed, ...]:
        """Seeds of the environments, in order."""
        return tuple(result.seed for result in self.results)

    @property
    def tuning(self) -> bool:
        """True if the seeds are for choosing constants and not for reporting."""
        return self.seeds[0] < FIRST_REPORT_SEED

    @property
    def mean_rewards(self) -> FloatArray:
        """Mean reward of each of the R runs, shape (R,)."""
        return np.array([result.mean_reward for result in self.results])

    @property
    def uniform_rewards(self) -> FloatArray | None:
        """Exact mean reward of uniformly random choice in each of R runs, (R,); None if unknown."""
        means = [np.mean(result.uniform) for result in self.results if result.uniform is not None]
        return np.array(means) if len(means) == len(self.results) else None

    @property
    def cumulative_regret(self) -> FloatArray | None:
        """Pseudo-regret of each of R runs, summed up to each of T rounds, shape (R, T); None if unknown."""
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
    """Run a new policy for the first `rounds` rounds of an environment.

    All rounds between two boundaries are asked in one batch, before any of their rewards is told. This gives
    the same result as single rounds if the policy's releases change only at these boundaries. A policy
    states its boundaries in the attribute `batch_boundaries`; a policy without this attribute runs one round
    at a time. If a policy has `user_ids`, every round names its user, from the environment's `users(start,
    stop)`, or else a new user.

    In a world with `actions`, a policy with `actions` is told outcomes. Other policies are told the value of
    the outcome. The result has values for both.

    Args:
        policy: Policy that has not been asked yet.
        environment: Source of users and rewards.
        rounds: Number of rounds. Default: all rounds of the environment.
        boundaries: Increasing round indices, instead of the policy's own.
        progress: True to show progress on standard error.

    Raises:
        InvalidParameter: The environment has fewer rounds, the boundaries do not increase, or an argument
            has the wrong type.
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
    values = getattr(environment, "values", None) if getattr(environment, "actions", None) else None
    people: Any = getattr(environment, "people", None)
    grid = getattr(getattr(policy, "menu", None), "actions", None)
    if grid is not None and (values is None or people is None):
        raise InvalidParameter(
            "the policy chooses among actions and the environment has none: expected a world with actions, "
            "such as TableBandit.from_rewards(..., actions=)"
        )
    name_users = bool(getattr(policy, "user_ids", False))
    rewards, seconds = np.empty(total), 0.0
    known: FloatArray | None = np.empty((3, total))
    with watched(environment.name, total=total, shown=progress) as moved, one_thread():
        for start, stop in pairwise(edges):
            candidates = environment.decision_sets(start, stop)
            users = _users(environment, start, stop) if name_users else None
            brought = candidates if grid is None else people(start, stop)
            began = time.perf_counter()
            decisions = policy.ask_batch(brought, users=users)
            seconds += time.perf_counter() - began
            indices = decisions.indices
            if (indices < 0).any():
                raise InvalidData(
                    "the policy refused a decision: the world has a context that it cannot read, or more "
                    "rounds of a user than rounds_per_user"
                )
            told = environment.rewards(start, stop, indices)
            rewards[start:stop] = told
            if values is not None:
                paid = values(np.repeat(told[:, None], candidates.shape[1], axis=1))
                rewards[start:stop] = paid[np.arange(stop - start), indices]
            if getattr(policy, "actions", None) is None:
                told = rewards[start:stop].copy()
            began = time.perf_counter()
            policy.tell_batch(decisions.ids, told)
            seconds += time.perf_counter() - began
            means = environment.mean_rewards(start, stop)
            if means is None or known is None:
                known = None
            else:
                means = means if values is None else values(means)
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
    """Run once for each seed, each time with a new environment and a new policy.

    Args:
        make_policy: Function (environment, seed) -> new policy. It may use only public properties of the
            environment: domain, reward range, horizon.
        make_environment: Function seed -> environment. Use the same function and seeds for all policies that
            you compare, as `summarise` pairs them.
        name: Name of the policy in reports.
        seeds: Distinct seeds; see `report_seeds`.
        jobs: Number of processes; see `in_processes`.
        rounds, boundaries, progress: See `run`. Progress counts seeds.

    Raises:
        InvalidParameter: There are no seeds, `jobs` is 0, or an argument has the wrong type.
        MissingExtra: `jobs` is not 1 and joblib is not installed.
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
    """Run the calls in processes, and yield their results. Calls must be picklable if `jobs` is not 1.

    Args:
        calls: Independent calls.
        jobs: Number of processes, through joblib; -1 for all cores. A joblib backend that is active around
            this call, such as a Dask cluster, is used.
        ordered: True yields results in the order of the calls; False as soon as each call ends.

    Raises:
        InvalidParameter: `jobs` is 0.
        MissingExtra: `jobs` is not 1 and joblib is not installed.
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
    """Make `in_processes` use a Dask cluster inside a `with` block.

    With None it uses this machine's processes.

    Raises:
        InvalidParameter: No scheduler answers at the address; see `dpbandits._dask.connected`.
        MissingExtra: Dask or joblib is not installed.
    """
    if address is None:
        yield
        return
    with needing("a cluster needs joblib: pip install 'dpbandits[cluster,report]'"):
        from joblib import parallel_config
    with connected(address), parallel_config("dask"):
        yield


def _placed(place: int, one: Callable[[Seed], RunResult], seed: Seed) -> tuple[int, RunResult]:
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
    given = getattr(policy, "batch_boundaries", None) if boundaries is None else boundaries
    if given is None:
        return list(range(total + 1))
    inner = [_checks.integer(edge, name="a batch boundary", minimum=0) for edge in given]
    if any(left >= right for left, right in pairwise(inner)):
        raise InvalidParameter("batch boundaries must increase")
    natural = [0, *(edge for edge in inner if 0 < edge < total), total]
    return [*(cut for left, right in pairwise(natural) for cut in range(left, right, _LARGEST_BATCH)), total]
