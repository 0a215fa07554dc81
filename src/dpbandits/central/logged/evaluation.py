"""Private evaluation of published policies on a log with known propensities: values with intervals, once.

The log has contexts x, arms a, rewards and propensities p, the chances with which the arms were drawn. Let z
be the reward scaled to [0, 1], and w = min(1/p, M) with a public bound M. Let m(x, a) be the prediction of
the first policy, cut to [0, 1]. Suppose that a policy chooses arm c at x. Then a row has this term t:

| method | term t |
|---|---|
| `ips`, inverse propensity | 1/2 + w 1[a = c] (z - 1/2) |
| `doubly_robust` | m(x, c) + w 1[a = c] (z - m(x, a)) |

If 1/p <= M always, the mean of t is the policy's value, for any m. Rows with a larger 1/p count less, and the
mean moves to 1/2 or to m.

**Bounds.** w >= 1, and m and z lie in [0, 1]. So |t - 1/2| is at most M/2 by `ips`, and at most M - 1/2 by
`doubly_robust`. The difference of the terms of two policies is at most M/2 or M in size. If only one policy
chose c = a, it is m(x, c) + w (z - m(x, c)) - m(x, c'). This lies between -w and w.

**A person's numbers** are the means, over the person's rows that count, of the terms of a constant arm, of
each policy and of each difference, divided by twice their bounds. So they lie in [-1/2, 1/2] however many
rows there are, and `privacy.moments` has the sensitivity: a person is replaced. Rows count if all their cells
can be read, among k rows of the person that a secret chooses. `dpbandits.central.logged.terms` has the
integers, which NumPy computes for a `LoggedTable`, and an engine for a table that stays where it is.

**Estimates.** Values are means over persons. With S, W and n the released sums, squares and count, the mean
is S/n and its sampling variance (W/n - (S/n)^2)/n. Intervals are those of a normal sampling error plus noise
of the known law. Values and differences are made consistent by least squares with weights from the noise,
which costs no privacy.
"""

import hashlib
import json
import math
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Self, get_args

import numpy as np

from dpbandits import _checks
from dpbandits._reading import json_object, reading
from dpbandits._seen import Seen, said
from dpbandits._typing import FloatArray, IntArray
from dpbandits.budget import Cost, cost_of_guarantee
from dpbandits.central.logged.evaluation_statement import Evaluated, evaluation_guarantee
from dpbandits.central.logged.logged_table import LoggedTable
from dpbandits.central.logged.plan import MOST_PER_USER
from dpbandits.central.logged.rows import LARGEST_WEIGHT, digest_of_rows
from dpbandits.central.logged.source_log import SourceLog
from dpbandits.central.logged.terms import STEPS, Method, TermRules, bounds_of
from dpbandits.central.logged.terms_engine import moments_by, moments_statement
from dpbandits.central.published_function import PublishedFunction
from dpbandits.domains import RewardRange
from dpbandits.domains.arms import Label
from dpbandits.errors import CorruptState, InvalidParameter
from dpbandits.export.lookups import Lookups
from dpbandits.models.readout.tails import quantile
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.privacy.moments import MomentRelease, NoiseLaw, ReleasedMoments
from dpbandits.privacy.noise import NoiseSource, SecureNoise
from dpbandits.tables.owners import Owners

__all__ = ["Evaluation", "Method", "PrivateValue", "PrivateValues"]

RARER = 2.0
"""Default bound M over the number of arms, if rows have propensities; it is 1 without them.

With it an arm may have half its uniform chance before its rows count less (as `WEIGHTED_BOUND` in learning).
"""

SURE = 4.0
"""Least number of noise deviations by which the released count must exceed zero for values to be given."""

_FORMAT = 1
_FILE, _STATEMENT = "evaluation.json", "guarantee.txt"


class PrivateValue(NamedTuple):
    """Estimated value, or difference of values, with its interval; all of it is released.

    Attributes:
        name: Name of the value, such as "policy minus always mail".
        estimate: Mean reward, in reward units.
        low: Lower end of the interval.
        high: Upper end of the interval.
        noise: Standard deviation of the privacy noise in the estimate, in reward units.
    """

    name: str
    estimate: float
    low: float
    high: float
    noise: float

    def __str__(self) -> str:
        return f"{self.name}: {self.estimate:.4f} [{self.low:.4f}, {self.high:.4f}]"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PrivateValues(Seen):
    """Released values of policies. All of it is public.

    Attributes:
        policies: Names of the policies.
        against: Name of the constant arm with which they are compared.
        method: Estimator.
        largest_weight: Bound M of inverse propensities.
        reward_range: Public range (low, high).
        moments: Released sums, squares and count of persons.
        guarantee: Guarantee of this release.
    """

    policies: tuple[str, ...]
    against: str
    method: Method
    largest_weight: float
    reward_range: RewardRange
    moments: ReleasedMoments
    guarantee: Guarantee

    @property
    def hides_everything(self) -> bool:
        """True if too few persons count for the noise. Values are then the middles of their ranges."""
        return self.moments.people < max(1.0, SURE * self.moments.people_sd)

    def values(self, *, level: float = 0.95) -> tuple[PrivateValue, ...]:
        """Return the value of the constant arm, of each policy, and each policy's difference from the arm.

        Args:
            level: Nominal coverage of the intervals, which include sampling and privacy noise.
        """
        if not 0.0 < level < 1.0:
            raise InvalidParameter("level: expected a number in (0, 1)")
        size, found = len(self.policies), self.moments
        width, names = self.reward_range.width, _names(self.policies, self.against)
        values, differences = bounds_of(self.method, self.largest_weight)
        spans = width * 2.0 * np.array([values] * (1 + size) + [differences] * size)
        middles = np.array([self.reward_range.middle] * (1 + size) + [0.0] * size)
        ends = np.array([0.5 * width] * (1 + size) + [width] * size)  # no value is farther from its middle
        if self.hides_everything:
            rows = zip(names, middles, middles - ends, middles + ends, ends, strict=True)
            return tuple(PrivateValue(name, *map(float, row)) for name, *row in rows)
        means = np.array(found.sums) / found.people
        squares = np.array(found.squares) / found.people
        noise = spans * found.sum_sd / found.people
        # Entry (i, j): weight of observation j in the consistent estimate i; columns: arm, then policies.
        design = np.vstack([np.eye(1 + size), np.eye(1 + size)[1:] - np.eye(1 + size)[:1]])
        scaled = design / noise[:, None]
        weights = design @ np.linalg.pinv(scaled) / noise
        centred = weights @ (spans * means)
        sampling = spans**2 * np.maximum(squares - means**2, 0.0) / found.people
        # Deviations of the noise of each sum, and of the count, in each estimate.
        parts = np.column_stack([weights * noise, centred * found.people_sd / found.people])
        drawn = np.sqrt((parts**2).sum(axis=1))
        if found.law == "laplace":
            sd, scales = np.sqrt(sampling), np.abs(parts) / math.sqrt(2.0)
        else:
            sd, scales = np.hypot(np.sqrt(sampling), drawn), np.zeros((len(parts), 1))
        reach = quantile(0.5 * (1.0 - level), sd, scales)
        estimates = middles + centred
        three = np.clip([estimates, estimates - reach, estimates + reach], middles - ends, middles + ends)
        rows = zip(names, *three, drawn, strict=True)
        return tuple(PrivateValue(name, *map(float, row)) for name, *row in rows)

    def __str__(self) -> str:
        limit = f"{self.largest_weight:g}"
        head = (
            f"{self.method}, mean over about {self.moments.people:.0f} persons, 95% intervals with sampling "
            f"and privacy noise. Inverse propensities above {limit} count as {limit}."
        )
        if self.hides_everything:
            head += (
                " Too few persons count for this noise, so that nothing is known of the values: take a log "
                "with more readable rows, or a larger epsilon."
            )
        return "\n".join([head, *map(str, self.values())])

    def __repr__(self) -> str:
        promise = {"epsilon": self.guarantee.epsilon, "delta": self.guarantee.delta}
        return said(self, **promise, policies=len(self.policies))

    def under(self, guarantee: Guarantee) -> Self:
        """Return a copy with another guarantee."""
        return replace(self, guarantee=guarantee)

    def to_files(self) -> dict[str, bytes]:
        """Return `evaluation.json` and `guarantee.txt`, by name; both are public."""
        fields = {
            "format": _FORMAT,
            "policies": self.policies,
            "against": self.against,
            "method": self.method,
            "largest_weight": self.largest_weight,
            "reward_range": self.reward_range.to_config(),
            "moments": self.moments._asdict(),
            "guarantee": json.loads(self.guarantee.to_json()),
        }
        statement = f"{self.guarantee.explain()}\n\n\n{self.guarantee.annex()}\n"
        return {
            _FILE: f"{json.dumps(fields, allow_nan=False)}\n".encode(),
            _STATEMENT: statement.encode(),
        }

    @property
    def release_id(self) -> str:
        """Digest of `evaluation.json`."""
        return hashlib.sha256(self.to_files()[_FILE]).hexdigest()

    @classmethod
    def load(cls, directory: str | Path) -> Self:
        """Read a folder that `evaluate` wrote.

        Raises:
            CorruptState: The file is missing or damaged.
        """
        try:
            data = (Path(directory) / _FILE).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            raise CorruptState(f"the folder lacks {_FILE}: expected a folder written by evaluate") from None
        with reading(_FILE, CorruptState):
            fields = json_object(data.decode(), _FILE, CorruptState)
            if fields["format"] != _FORMAT:
                raise CorruptState("the evaluation was written in another version of the format")
            moments = fields["moments"]
            parts = {name: tuple(map(float, moments[name])) for name in ("sums", "squares")}
            read = cls(
                policies=tuple(map(str, fields["policies"])),
                against=str(fields["against"]),
                method=_checks.one_of(fields["method"], get_args(Method), name="method"),  # type: ignore[arg-type]
                largest_weight=_checks.number(fields["largest_weight"], name="largest_weight"),
                reward_range=RewardRange.from_config(fields["reward_range"]),
                moments=ReleasedMoments(**moments | parts),
                guarantee=Guarantee.from_json(json.dumps(fields["guarantee"])),
            )
            read.values()
        return read


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Evaluation:
    """Terms of a private evaluation, checked before anything is charged or drawn. It holds raw data.

    Args:
        policies: Published policies by name.
        log: Log with contexts and arms, of people from whom no policy was learned; in memory or in an engine.
        privacy: Promise. `rounds_per_user` is the number k of a person's rows that count.
        against: Label of the constant arm with which policies are compared.
        method: Estimator; see the module.
        largest_weight: Public bound M of inverse propensities. Default: K arms if the log has no column of
            propensities, else `RARER` times K.
        law: Law of the noise; None for the smaller noise. If an account pays for several releases, Gaussian
            noise may use much less of it.
        noise: Noise source.

    Raises:
        InvalidParameter: A policy has other contexts or arms than the log, or no form in SQL for a log in an
            engine, or arguments do not fit.
        InvalidData: The table lacks a column.
    """

    policies: Mapping[str, PublishedFunction]
    log: LoggedTable | SourceLog
    privacy: JointDP
    against: Label
    method: Method = "doubly_robust"
    largest_weight: float | None = None
    law: NoiseLaw | None = None
    noise: NoiseSource | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.log, SourceLog):
            _checks.an(self.log, LoggedTable, name="log", pass_="log=LoggedTable.of_people(...)")
        menu, privacy = self.log.menu, self.privacy
        _checks.an(privacy, JointDP, name="privacy", pass_="privacy=JointDP(epsilon=1, delta=1e-6)")
        _checks.one_of(self.method, get_args(Method), name="method")
        if self.law is not None:
            _checks.one_of(self.law, get_args(NoiseLaw), name="law")
        if menu is None or menu.actions is not None:
            raise InvalidParameter(
                "evaluate: expected a log with contexts= and arms=, not one of chosen numbers"
            )
        if isinstance(self.log, LoggedTable) and self.log.by_coins:
            raise InvalidParameter("evaluate: the log needs a column with the arms that were given")
        if not self.policies:
            raise InvalidParameter("policies: expected at least one")
        for name, policy in self.policies.items():
            own = _checks.an(policy, PublishedFunction, name=str(name), pass_="a published policy").menu
            if own is None or (own.contexts, own.arms.labels) != (menu.contexts, menu.arms.labels):
                raise InvalidParameter(f"policy {name}: its contexts or arms are not those of the log")
        if menu.cells([self.against])[0] < 0:
            raise InvalidParameter(f"against: expected one of the {menu.n_arms} arms")
        if self.log.columns.user is None and privacy.rounds_per_user > 1:
            raise InvalidParameter("several rows of a person need user=, the column with the persons' ids")
        if not 1.0 <= self.weight <= LARGEST_WEIGHT:
            raise InvalidParameter("largest_weight: expected a number of at least 1, and at most 2^80")
        self.mechanism  # noqa: B018 - raises before any data if no noise fits the promise
        if isinstance(self.log, SourceLog):
            moments_statement(self.log, self.rules, square_weight=1, key=b"")

    @property
    def weight(self) -> float:
        """Bound M of inverse propensities."""
        if self.largest_weight is not None:
            return _checks.number(self.largest_weight, name="largest_weight")
        arms = 0.0 if self.log.menu is None else float(self.log.menu.n_arms)
        return arms if self.log.columns.propensity is None else RARER * arms

    @cached_property
    def mechanism(self) -> MomentRelease:
        """Mechanism of the release."""
        source = SecureNoise() if self.noise is None else self.noise
        return MomentRelease.planned(
            self.privacy.epsilon,
            self.privacy.delta,
            source,
            numbers=1 + 2 * len(self.policies),
            law=self.law,
        )

    @cached_property
    def rules(self) -> TermRules:
        """Public rules that turn rows into integers."""
        menu, k = self.log.menu, self.privacy.rounds_per_user
        if menu is None:  # __post_init__ has raised; for type checkers
            raise InvalidParameter("the log has no contexts and arms")
        return TermRules(
            menu=menu,
            reward_range=RewardRange.of(self.log.reward_range),
            policies=[self._scores(name, policy) for name, policy in self.policies.items()],
            method=self.method,
            largest_weight=self.weight,
            against=int(menu.cells([self.against])[0]),
            rows_per_user=None if self.log.columns.user is None else min(k, MOST_PER_USER),
        )

    def _scores(self, name: str, policy: PublishedFunction) -> Lookups | PublishedFunction:
        """Return the policy as arrays, which an engine can look up; others only for a `LoggedTable`."""
        try:
            return Lookups.of(policy.rule())
        except InvalidParameter as error:
            if isinstance(self.log, LoggedTable):
                return policy
            raise InvalidParameter(
                f"policy {name} has no form in SQL, so no engine can evaluate it ({error}): pass "
                "log=LoggedTable.of_people(...), whose rows are loaded"
            ) from None

    @cached_property
    def _owners(self) -> Owners | None:
        users = self.log.rows["users"] if isinstance(self.log, LoggedTable) else None
        return None if users is None else Owners.of(users, count=len(users))

    @property
    def guarantee(self) -> Guarantee:
        """Guarantee of the release."""
        facts = Evaluated(
            user_ids=self.log.columns.user is not None,
            weighted=self.log.columns.propensity is not None,
            policies=len(self.policies),
            largest_weight=self.weight,
            engine=isinstance(self.log, SourceLog),
        )
        return evaluation_guarantee(self.privacy, self.mechanism, facts)

    def cost(self) -> Cost:
        """Return the cost of `release`, to be charged before noise is drawn."""
        return cost_of_guarantee(self.guarantee)

    def fingerprint(self, key: bytes, **told: object) -> str:
        """Return a digest, under a secret key, of all rows, policies and arguments; see `digest_of_rows`."""
        menu = self.log.menu
        public = {
            "policies": {
                name: {file: hashlib.sha256(data).hexdigest() for file, data in policy.to_files().items()}
                for name, policy in self.policies.items()
            },
            "privacy": self.privacy.to_config(),
            "terms": [self.against, self.method, self.weight, self.law, self.log.reward_range],
            "menu": None if menu is None else [menu.contexts.to_config(), menu.arms.to_config()],
            "told": told,
        }
        if isinstance(self.log, SourceLog):  # a run makes one release, of the table as it then is
            log = self.log
            return digest_of_rows(key, public | {"log": [log.address, asdict(log.columns), log.clip]}, {})
        return digest_of_rows(key, public, self.log.rows | {"users": self._owners})

    def release(self, key: bytes | None = None) -> PrivateValues:
        """Spend the promise and return the values; every call spends it again. Noise is added here.

        Args:
            key: Secret by which the rows of a person that count are chosen, at random by default.

        Raises:
            DataUnavailable: The engine failed, and nothing was released.
        """
        sums = self.unsafe_sums(secrets.token_bytes(32) if key is None else key)
        return PrivateValues(
            policies=tuple(self.policies),
            against=str(self.against),
            method=self.method,
            largest_weight=self.weight,
            reward_range=RewardRange.of(self.log.reward_range),
            moments=self.mechanism.release_sums(sums),
            guarantee=self.guarantee,
        )

    def unsafe_sums(self, key: bytes) -> IntArray:
        """Return the raw sums that are released, as `MomentRelease.summed` does."""
        if isinstance(self.log, SourceLog):
            weight = self.mechanism.square_weight
            return moments_by(self.log, self.rules, square_weight=weight, key=key)
        terms, rows = self.unsafe_terms(key)
        owners = rows if self._owners is None else self._owners.numbers[rows]
        return self.mechanism.summed(
            self.rules.of_people(np.rint(terms * STEPS).astype(np.int64), owners) / STEPS
        )

    def unsafe_terms(self, key: bytes = b"") -> tuple[FloatArray, IntArray]:
        """Return the numbers (c, J) of the c rows that count, in [-1/2, 1/2], and these rows' indices (c,).

        They are raw data. The columns are the constant arm, the policies, and their differences from it.

        Args:
            key: Secret by which the rows of a person that count are chosen.
        """
        if not isinstance(self.log, LoggedTable):
            raise InvalidParameter("a log in an engine has sums and no rows")
        held, rules = self.log.rows, self.rules
        chances = held["propensities"]
        terms, readable = rules.coded(
            np.asarray(held["contexts"]),
            np.asarray(held["actions"]),
            np.asarray(held["rewards"]),
            None if chances is None else np.asarray(chances),
        )
        owners = Owners(np.zeros(len(terms), dtype=np.int64), []) if self._owners is None else self._owners
        rows = np.flatnonzero(rules.kept(terms, readable, owners, key))
        return terms[rows] / STEPS, rows


def _names(policies: tuple[str, ...], against: str) -> list[str]:
    own = f"always {against}"
    return [own, *policies, *(f"{name} minus {own}" for name in policies)]
