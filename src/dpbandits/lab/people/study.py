"""`TableStudy`: cost of privacy on a table of users, for one private policy and reference policies.

It compares random choice, the best constant arm in hindsight, a non-private policy, the private policy at
several epsilons, two simple private policies at the same epsilons, and a supervised model that saw every
label. Then it runs the same membership attack on the non-private and on the private policy.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from dpbandits import _checks
from dpbandits._progress import watched
from dpbandits._typing import FloatArray, Seed
from dpbandits.audit import Guesses, attack_reward
from dpbandits.central import GPBandit, GPTuning
from dpbandits.domains import Arms, Product
from dpbandits.errors import InvalidParameter
from dpbandits.lab.baselines import (
    CellHistogram,
    ConstantArm,
    FeatureGPUCB,
    GPUCBTuning,
    PrivateRidge,
    Uniform,
)
from dpbandits.lab.comparing.rivals import asked_by
from dpbandits.lab.evaluation import Estimate, Repetitions, repeat, report_seeds
from dpbandits.lab.evaluation.runner import in_processes
from dpbandits.lab.evaluation.summary import Share, share_kept
from dpbandits.lab.worlds import TableBandit
from dpbandits.models.features import ArmFeatures
from dpbandits.models.features.people import (
    CATEGORY_CORRELATION,
    FEATURES_PER_ARM,
    LENGTHSCALE,
    arm_features,
    context_kernel,
    few_on_purpose,
)
from dpbandits.policy import Policy
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.privacy.noise import NoiseSource, SecureNoise, SimulatedNoise
from dpbandits.tables import Schema

__all__ = [
    "EPSILONS",
    "TableConstants",
    "TableStudy",
    "TableStudyResult",
    "non_private_policy",
    "private_policy",
    "table_features",
]

EPSILONS = (0.1, 0.3, 1.0, 3.0)
"""Default epsilons at which the study runs the private policies."""

_TRIALS_A_STEP = 10
"""Number of attack trials that one step of the progress bar counts.

A trial ends at the first release, so that this number takes about as long as a run of one seed.
"""


@dataclass(frozen=True, kw_only=True)
class TableConstants:
    """Constants of one policy in this study, private or non-private. They are the same for every table.

    `reproduction/tuning/table_study.py` chose them on the synthetic table `synthetic-income` and tuning
    seeds, never on a real table. The private and the non-private policy had the same grid of candidate
    values.

    Args:
        lengthscale: Lengthscale of the kernel, for columns scaled to [0, 1].
        category_correlation: Correlation between users who differ in one category.
        features_per_arm: Number of features of the context.
        prior_variance: Prior variance of feature weights.
        thompson_scale: Scale of exploration of the private policy.
        ucb_weight: Weight of exploration of the non-private policy.
    """

    lengthscale: float = LENGTHSCALE
    category_correlation: float = CATEGORY_CORRELATION
    features_per_arm: int = FEATURES_PER_ARM
    prior_variance: float = 0.5
    thompson_scale: float = 0.25
    ucb_weight: float = 0.5


PRIVATE_CONSTANTS = TableConstants(thompson_scale=0.0)
NON_PRIVATE_CONSTANTS = TableConstants(thompson_scale=0.0)

FEWEST_TRIALS = 20
"""Smallest number of guesses of an attack.

With 20, the true answers of all guesses are equal in one of 500,000 attacks.
"""

UPDATE_GROWTH = 0.02
"""Share of the rounds so far after which the non-private policy learns again.

Updates after every 2% more rounds are faster than updates in every round, and no worse.
"""

RANDOM, CONSTANT, NON_PRIVATE, PRIVATE = "random", "best constant arm", "non-private", "private"
CEILING = "supervised ceiling"

CRUDE: dict[str, type[PrivateRidge | CellHistogram]] = {
    "private ridge": PrivateRidge,
    "private histogram": CellHistogram,
}
"""Classes of the simple private baselines, by name in the report."""

Maker = Callable[..., Policy]
"""Function (table, seed, noise_seed=) -> policy.

`noise_seed`, by default `seed`, is the seed of simulated noise.
"""


def table_features(schema: Schema, n_arms: int, constants: TableConstants) -> ArmFeatures:
    """Return Mercer features of the context, a separate set of weights for every arm."""
    kernel = context_kernel(
        schema.domain, lengthscale=constants.lengthscale, correlation=constants.category_correlation
    )
    with few_on_purpose():
        return arm_features(
            Product(schema.domain, Arms(n_arms)), kernel=kernel, n_features=constants.features_per_arm
        )


def private_policy(
    table: TableBandit,
    seed: Seed,
    *,
    privacy: JointDP,
    noise: NoiseSource,
    constants: TableConstants | None = None,
    census: bool | None = None,
) -> GPBandit:
    """Create the private policy of this study.

    Args:
        table: Table that the policy decides on.
        seed: Seed of the policy.
        privacy: Guarantee of the policy.
        noise: Source of noise.
        constants: Settings of a policy that learns by features. None creates a policy that learns by
            marginal tables, the default of `GPBandit`.
        census: See `GPTuning`.
    """
    if constants is None:
        tuning = GPTuning(census=census)
        return GPBandit(**asked_by(table), privacy=privacy, noise=noise, seed=seed, tuning=tuning)
    return GPBandit(
        domain=table.domain,
        reward_range=table.reward_range,
        horizon=table.horizon,
        privacy=privacy,
        noise=noise,
        seed=seed,
        tuning=GPTuning(
            features=table_features(table.schema, table.n_arms, constants),
            prior_variance=constants.prior_variance,
            thompson_scale=constants.thompson_scale,
        ),
    )


def non_private_policy(
    table: TableBandit, seed: Seed, *, constants: TableConstants = NON_PRIVATE_CONSTANTS
) -> FeatureGPUCB:
    """Create the non-private policy of this study, which learns by features."""
    return FeatureGPUCB(
        features=table_features(table.schema, table.n_arms, constants),
        domain=table.domain,
        reward_range=table.reward_range,
        horizon=table.horizon,
        tuning=GPUCBTuning(prior_variance=constants.prior_variance, ucb_weight=constants.ucb_weight),
        update_growth=UPDATE_GROWTH,
        seed=seed,
    )


@dataclass(frozen=True)
class Compared:
    """Runs of one policy, and its retained uplift."""

    run: Repetitions
    share: Share

    @property
    def reward(self) -> Estimate:
        """Mean reward per round."""
        return Estimate.of(self.run.mean_rewards)


@dataclass(frozen=True, kw_only=True)
class TableStudyResult:
    """Results that the report shows. They are an evaluation, not a release.

    Attributes:
        table: Name of the table.
        horizon: Number of rounds of a run.
        reps: Number of runs of each policy.
        epsilon: Epsilon of the private policy in the main table.
        delta: Delta of all private policies.
        rounds_per_user: Largest number of rows of one user.
        policies: Reference policies by name, and private policies by epsilon, increasing.
        crude: Policies of `CRUDE` by name and epsilon.
        ceiling: Mean reward of the supervised model.
        attacks: Attacks on the non-private and on the private policy, by name.
        guarantee: Guarantee of the private policy.
    """

    table: str
    horizon: int
    reps: int
    epsilon: float
    delta: float
    rounds_per_user: int
    policies: dict[str | float, Compared]
    crude: dict[tuple[str, float], Compared]
    ceiling: Estimate
    attacks: dict[str, Guesses]
    guarantee: Guarantee

    @property
    def decisions(self) -> str:
        """Text with the number of decisions of a run, and the largest number about one person."""
        if self.rounds_per_user == 1:
            return f"{self.horizon:,} people, one decision each"
        return f"{self.horizon:,} decisions, at most {self.rounds_per_user} about one person"

    @property
    def private(self) -> dict[float, Compared]:
        """Runs of the private policy, by epsilon."""
        return {key: one for key, one in self.policies.items() if not isinstance(key, str)}


@dataclass(frozen=True, kw_only=True)
class TableStudy:
    """Study of one table: one private policy, reference policies, and an attack.

    Args:
        make_environment: Function from a seed to the table in that seed's order; picklable if jobs > 1.
        epsilon: Epsilon of the private policy in the main table and of the attack.
        delta: Delta of all private policies.
        epsilons: Other epsilons to show.
        reps: Number of runs of each policy, on consecutive seeds.
        seed: First seed; report seeds start at 1,000,000.
        noise: "secure" (guarantees hold) or "simulated" (repeatable).
        jobs: Number of processes.
        attack_trials: Number of guesses of the membership attack; at least 20.
    """

    make_environment: Callable[[Seed], TableBandit]
    epsilon: float = 1.0
    delta: float = 1e-6
    epsilons: Sequence[float] = EPSILONS
    reps: int = 3
    seed: Seed = 1_000_000
    noise: Literal["secure", "simulated"] = "secure"
    jobs: int = 1
    attack_trials: int = 500

    def __post_init__(self) -> None:
        _checks.one_of(self.noise, ("secure", "simulated"), name="noise")
        _checks.integer(self.attack_trials, name="attack_trials", minimum=FEWEST_TRIALS)
        in_processes([], jobs=self.jobs)  # raises an error for 0
        for epsilon in (self.epsilon, *self.epsilons):
            JointDP(epsilon=epsilon, delta=self.delta)  # raises an error for numbers out of range

    def run(
        self, *, progress: bool = False, attacked: Callable[[TableStudyResult], object] | None = None
    ) -> TableStudyResult:
        """Run the study.

        Args:
            progress: Show progress on standard error.
            attacked: Function that is called before the attacks, with all results except theirs.

        Raises:
            InvalidParameter: Seeds, jobs or the table's horizon are out of range. Nothing is run then.
        """
        policies = 3 + (1 + len(CRUDE)) * len({self.epsilon, *self.epsilons})
        total = 2 + self.reps * policies + self._attack_steps  # two steps: the ceiling and the first attack
        with watched("study", total=total, shown=progress) as moved:
            return self._run(moved, attacked or (lambda _: None), total)

    @property
    def _attack_steps(self) -> int:
        return -(-2 * self.attack_trials // _TRIALS_A_STEP)

    def _run(
        self, moved: Callable[..., None], attacked: Callable[[TableStudyResult], object], total: int
    ) -> TableStudyResult:
        seeds = report_seeds(self.seed, self.reps, tuning=self.seed < 1_000_000)
        first = self.make_environment(seeds[0])
        makers: dict[str | float, Maker] = {RANDOM: _uniform, CONSTANT: _constant, NON_PRIVATE: _non_private}
        crude: dict[tuple[str, float], Maker] = {}
        for epsilon in sorted({self.epsilon, *self.epsilons}):
            privacy = JointDP(epsilon=epsilon, delta=self.delta, rounds_per_user=first.rounds_per_user)
            made = partial(_private, privacy=privacy, secure=self.noise == "secure")
            makers[epsilon] = partial(made, private_policy)
            crude |= {(name, epsilon): partial(made, partial(_crude, name)) for name in CRUDE}
        promise = JointDP(epsilon=self.epsilon, delta=self.delta, rounds_per_user=first.rounds_per_user)
        policy = private_policy(
            first, self.seed, privacy=promise, noise=_noise(self.seed, secure=self.noise == "secure")
        )
        # The attack is on a reward, and a census contains none, so the attacked policy has no census.
        without = partial(private_policy, census=False)
        plain = partial(_private, without, privacy=promise, secure=self.noise == "secure")
        rounds = without(first, self.seed, privacy=promise, noise=policy.noise).batch_boundaries[0]
        if rounds >= first.horizon:
            raise InvalidParameter(
                f"horizon is {first.horizon}, but the attack needs a round after the first release: expected "
                f"at least {rounds + 1}"
            )
        moved(0, doing=CEILING)  # first, because it needs scikit-learn
        ceilings = [self.make_environment(seed).supervised_ceiling(seed) for seed in seeds[:1]]
        moved()
        over_seeds = partial(repeat, make_environment=self.make_environment, seeds=seeds, jobs=self.jobs)

        def lived(name: str, make: Maker) -> Repetitions:
            moved(0, doing=name)
            found = over_seeds(make, name=name)
            moved(self.reps)
            return found

        runs = {
            key: lived(key if isinstance(key, str) else f"{PRIVATE}, epsilon = {key:g}", make)
            for key, make in makers.items()
        }
        beside = {
            (name, epsilon): lived(f"{name}, epsilon = {epsilon:g}", make)
            for (name, epsilon), make in crude.items()
        }
        # All means of a table are known, so the mean reward of uniform choice is exact.
        reference, exact = runs[NON_PRIVATE].mean_rewards, runs[RANDOM].uniform_rewards
        uniform = runs[RANDOM].mean_rewards if exact is None else exact

        def compared(run: Repetitions) -> Compared:
            return Compared(run, share_kept(run.mean_rewards, reference, uniform))

        result = TableStudyResult(
            table=first.name,
            horizon=first.horizon,
            reps=self.reps,
            epsilon=self.epsilon,
            delta=self.delta,
            rounds_per_user=first.rounds_per_user,
            policies={key: compared(run) for key, run in runs.items()},
            crude={key: compared(run) for key, run in beside.items()},
            ceiling=Estimate.of(ceilings),
            attacks={},
            guarantee=policy.guarantee,
        )
        attacked(result)
        attacks = {}

        def counted(calls: Sequence[Callable[[], FloatArray]]) -> Iterator[FloatArray]:
            """Run an attack's trials; yield what the attacker sees in each, and show progress."""
            for rest, views in zip(
                reversed(range(len(calls))), in_processes(calls, jobs=self.jobs), strict=True
            ):
                moved(completed=total - self._attack_steps * rest // len(calls))
                yield views

        for name, maker in ((NON_PRIVATE, _non_private), (PRIVATE, plain)):
            moved(0, doing=f"attack on {name}")
            attacks[name] = self._attack(maker, first, rounds, counted)
            moved(completed=total - (self._attack_steps if name == NON_PRIVATE else 0))
        return replace(result, attacks=attacks)

    def _attack(self, maker: Maker, environment: TableBandit, rounds: int, run: Any) -> Guesses:
        """Guess the first user's reward from the policy's first release, many times; return the guesses."""
        return attack_reward(
            partial(_of_trial, maker, environment, self.seed),
            environment,
            rounds=rounds,
            trials=self.attack_trials,
            seed=self.seed,
            run=run,
        )


def _of_trial(maker: Maker, environment: TableBandit, seed: Seed, trial: int) -> Policy:
    return maker(environment, seed, noise_seed=seed + trial)


def _uniform(table: TableBandit, seed: Seed) -> Policy:
    return Uniform(domain=table.domain, reward_range=table.reward_range, seed=seed)


def _constant(table: TableBandit, seed: Seed) -> Policy:
    arm = table.best_constant_arm().index
    return ConstantArm(arm=arm, domain=table.domain, reward_range=table.reward_range, seed=seed)


def _non_private(table: TableBandit, seed: Seed, *, noise_seed: Seed | None = None) -> Policy:
    del noise_seed  # there is no noise
    return non_private_policy(table, seed)


def _crude(name: str, table: TableBandit, seed: Seed, *, privacy: JointDP, noise: NoiseSource) -> Policy:
    return CRUDE[name](**asked_by(table), privacy=privacy, noise=noise, seed=seed)


def _private(
    make: Callable[..., Policy],
    table: TableBandit,
    seed: Seed,
    *,
    noise_seed: Seed | None = None,
    privacy: JointDP,
    secure: bool,
) -> Policy:
    noise = _noise(seed if noise_seed is None else noise_seed, secure=secure)
    return make(table, seed, privacy=privacy, noise=noise)


def _noise(seed: Seed, *, secure: bool) -> NoiseSource:
    return SecureNoise() if secure else SimulatedNoise(seed)
