"""A scikit-learn estimator that learns a private policy from a log (`LoggedPolicy`).

    estimator = LoggedPolicy(contexts=people, arms=["mail", "call"], horizon=50_000, privacy=...)
    estimator.fit(frame, rewards, arms=given, users=ids)     # learns, and releases once
    estimator.predict(frame)                                 # labels, from the release

What becomes of raw data:

- `fit` and `partial_fit` read contexts, arms and rewards; `partial_fit` only adds them to secret sums.
- `publish`, which `fit` calls, releases what was learned, once. `predict`, `predict_proba` and
  `decision_function` come from the release alone: before there is one they are refused, as scikit-learn
  refuses an unfitted estimator. Afterwards no row is added.
- One promise is for one release: a second one of the same estimator, or of a clone of it (as cross-validation
  and grid search make them, over the same people), is refused. With an `account` every release is paid
  from it, and a second is made where it can pay.
- Nothing is copied or pickled (`joblib`, `n_jobs`): two copies would each release, and memory holds raw sums.
  `estimator.published_.save(folder)` keeps what was published.
- A step before it in a pipeline that learns from X, as `StandardScaler` does, shows what it learned; our
  promise does not cover that. The schema's bounds scale contexts here.

There is no `score`: it would be a statistic of raw rewards.
"""

from collections.abc import Sequence
from threading import Lock
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike

from dpbandits._cells import as_objects
from dpbandits._typing import FloatArray
from dpbandits.budget import Account
from dpbandits.central import ExploreThenCommit, ExploreTuning, PublishedFunction
from dpbandits.domains import RewardRange
from dpbandits.domains.arms import Label
from dpbandits.errors import BudgetExceeded, InvalidData, InvalidParameter, MissingExtra, ProtocolError
from dpbandits.models.kernels import Kernel
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.privacy.noise import NoiseSource
from dpbandits.tables import Schema

try:
    from sklearn.base import BaseEstimator
    from sklearn.exceptions import NotFittedError
except ImportError:
    raise MissingExtra("dpbandits.adapters.sklearn needs scikit-learn: pip install scikit-learn") from None

__all__ = ["LoggedPolicy", "NotReleased"]


class NotReleased(ProtocolError, NotFittedError):
    """There is no release to predict from: call `fit`, or `publish` after the last `partial_fit`."""


class _OneRelease:
    """State that an estimator and its clones share: the one policy that the promise was given to."""

    def __init__(self) -> None:
        self._lock, self._policy = Lock(), None

    def take(self, policy: Any) -> None:
        """For this policy; None only asks whether it is still to be had."""
        with self._lock:
            if self._policy is not None and self._policy is not policy:
                raise BudgetExceeded(
                    "this estimator, or the one it was cloned from, has made the release that its promise is "
                    "for: another one, as in cross-validation, needs an account, which pays for each"
                )
            self._policy = policy


class LoggedPolicy(BaseEstimator):
    """Learn which arm is best for whom from a log, privately; see the module.

    Arguments are kept as they are, as scikit-learn expects, and checked where learning begins.

    Args:
        contexts: public columns, a `Schema`; X is whatever `Schema` reads: a frame, or an array in its order.
        arms: labels.
        reward_range: public (low, high); rewards off it count zero, unless a `RewardRange` clips them.
        horizon: most rows that count, a public number chosen without looking at the log.
        privacy: `JointDP` with delta above 0; with its `user_ids`, fits name their `users`.
        kernel, tuning: as in `ExploreThenCommit`.
        seed, noise, account: as in `PolicyOptions`.

    Attributes:
        policy_: the `ExploreThenCommit` that learned: raw sums, secret.
        published_: the release, a `PublishedFunction`.
        classes_: (K,) labels.
        guarantee_: the promise.
        n_features_in_, feature_names_in_: of the schema.

    Example:
        >>> import dpbandits as dpb
        >>> people = dpb.Schema(age=dpb.Range(18, 90))
        >>> estimator = LoggedPolicy(
        ...     contexts=people, arms=["mail", "call"], horizon=20_000,
        ...     privacy=dpb.JointDP(epsilon=2, delta=1e-6, user_ids=False))
        >>> rng = np.random.default_rng(0)
        >>> X = rng.integers(18, 91, (20_000, 1))
        >>> given = rng.choice(["mail", "call"], 20_000)
        >>> y = rng.random(20_000) < 0.2 + 0.6 * ((given == "call") == (X[:, 0] > 54))
        >>> estimator.fit(X, y, arms=given).predict([[20], [88]]).tolist()
        ['mail', 'call']
    """

    def __init__(
        self,
        *,
        contexts: Schema | None = None,
        arms: Sequence[Label] | None = None,
        reward_range: RewardRange | tuple[float, float] = (0.0, 1.0),
        horizon: int | None = None,
        privacy: JointDP | None = None,
        kernel: Kernel | None = None,
        tuning: ExploreTuning | None = None,
        seed: int = 0,
        noise: NoiseSource | None = None,
        account: Account | None = None,
    ) -> None:
        self.contexts = contexts
        self.arms = arms
        self.reward_range = reward_range
        self.horizon = horizon
        self.privacy = privacy
        self.kernel = kernel
        self.tuning = tuning
        self.seed = seed
        self.noise = noise
        self.account = account

    def __sklearn_clone__(self) -> Self:
        """An estimator of the same arguments, which shares the one promise with this one."""
        copied = type(self)(**self.get_params(deep=False))
        copied.__dict__["_release"] = self._shared()
        return copied

    def _shared(self) -> _OneRelease:
        shared: _OneRelease = self.__dict__.setdefault("_release", _OneRelease())
        return shared

    def __sklearn_is_fitted__(self) -> bool:
        return "published_" in self.__dict__

    def __reduce__(self) -> NoReturn:
        raise ProtocolError(
            "a LoggedPolicy cannot be copied or pickled: two copies would each release, and its memory holds "
            "raw sums. Keep published_.save(folder); in this process, clone it"
        )

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        *,
        arms: Any = None,
        propensities: ArrayLike | None = None,
        users: Sequence[object] | None = None,
    ) -> Self:
        """Learn from a log, and release once.

        Args:
            X: contexts of n people.
            y: (n,) rewards.
            arms: n labels: which arm each was given.
            propensities: (n,) the chance that arm had; None where all arms were equally likely.
            users: n ids.

        Raises:
            InvalidParameter: the estimator's arguments do not fit together.
            InvalidData: what was passed is no table of one length. A cell that cannot be read is no error:
                its row counts zero.
            ProtocolError: it has learned and released.
            BudgetExceeded: a clone has had the promise, or the account cannot pay.
        """
        if self.__sklearn_is_fitted__():
            raise ProtocolError(
                "fit: the release was made, and a second one of the same people would spend the promise "
                "twice; clone the estimator, with an account that pays for another"
            )
        if self.account is None:
            self._shared().take(None)
        self.__dict__.pop("policy_", None)
        return self.partial_fit(X, y, arms=arms, propensities=propensities, users=users).publish()

    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        *,
        arms: Any = None,
        propensities: ArrayLike | None = None,
        users: Sequence[object] | None = None,
    ) -> Self:
        """Add rows; nothing is released. See `fit`.

        Raises:
            ProtocolError: the release was made.
        """
        if self.__sklearn_is_fitted__():
            raise ProtocolError(
                "partial_fit: the release was made and no row is added to it; learn from new people with a "
                "new estimator"
            )
        if arms is None:
            raise InvalidData("arms: expected one label a row, which arm that person was given")
        if "policy_" not in self.__dict__:
            self._begin()
        self.policy_.learn(X, arms, y, propensities=propensities, users=users)
        return self

    def publish(self) -> Self:
        """Release what was learned, once; every later call gives the same.

        Raises:
            BudgetExceeded: the promise had its release, or the account cannot pay.
            NotReleased: nothing was learned from.
        """
        if "policy_" not in self.__dict__:
            raise NotReleased("publish: learn from rows first, with partial_fit; fit does both")
        if self.account is None:
            self._shared().take(self.policy_)
        self.published_: PublishedFunction = self.policy_.publish()
        self.guarantee_: Guarantee = self.published_.guarantee
        return self

    def _begin(self) -> None:
        if self.contexts is None or self.arms is None or self.horizon is None or self.privacy is None:
            raise InvalidParameter(
                "expected contexts=, arms=, horizon= and privacy=: all are public, and none is read off "
                "the log"
            )
        self.policy_ = ExploreThenCommit(**self.get_params(deep=False))
        self.classes_ = np.array(self.arms)
        self.n_features_in_ = self.contexts.dim
        self.feature_names_in_ = np.array(self.contexts.names, dtype=object)

    def _released(self) -> PublishedFunction:
        if not self.__sklearn_is_fitted__():
            raise NotReleased(
                "this LoggedPolicy has no release to predict from, and predicts from nothing else: call fit, "
                "or publish after the last partial_fit"
            )
        return self.published_

    def predict(self, X: Any) -> Any:
        """(n,) labels of everybody's best arms, from the release; None for a row that cannot be read."""
        best = self._released().choose(X)
        if (best < 0).any():
            return as_objects([*self.classes_.tolist(), None])[best]
        return self.classes_[best]

    def predict_proba(self, X: Any) -> FloatArray:
        """(n, K) the chance of each arm: 1 for the best, as the policy draws nothing, and 0 in the row of a
        person who cannot be read.
        """
        arms = len(self._released().arms)
        return np.eye(arms + 1, arms)[self.published_.choose(X)]

    def decision_function(self, X: Any) -> FloatArray:
        """(n, K) expected rewards, from the release."""
        return self._released().predict(X)[0]
