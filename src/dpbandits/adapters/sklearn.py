"""A scikit-learn estimator that learns a private policy from a log (`LoggedPolicy`).

    estimator = LoggedPolicy(contexts=people, arms=["mail", "call"], horizon=50_000, privacy=...)
    estimator.fit(frame, rewards, arms=given, users=ids)     # learns, and releases once
    estimator.predict(frame)                                 # labels, from the release

How raw data is treated:

- `fit` and `partial_fit` read contexts, arms and rewards; `partial_fit` only adds them to secret sums.
- `publish`, which `fit` calls, makes one release. `predict`, `predict_proba` and `decision_function` use the
  release alone, and raise scikit-learn's `NotFittedError` before it. No row is added after the release.
- The guarantee covers one release. A second release by the same estimator, or by a clone, is refused:
  cross-validation and grid search clone an estimator and fit it on the same people. With an `account`, each
  release is charged to it, and further releases are made while its budget suffices.
- Copies and pickles (`joblib`, `n_jobs`) are refused: two copies would each release, and memory holds raw
  sums. `estimator.published_.save(folder)` saves the release.
- An earlier pipeline step that learns from X, such as `StandardScaler`, reveals what it learned. The
  guarantee
  does not cover it, and it is not needed: the schema's bounds scale contexts.

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
    """No release exists to predict from: call `fit`, or `publish` after the last `partial_fit`."""


class _OneRelease:
    """State shared by an estimator and its clones: the one policy that may release under the guarantee."""

    def __init__(self) -> None:
        self._lock, self._policy = Lock(), None

    def take(self, policy: Any) -> None:
        """Reserve the release for `policy`; with None, only check that it is not yet reserved."""
        with self._lock:
            if self._policy is not None and self._policy is not policy:
                raise BudgetExceeded(
                    "this estimator, or one that shares its guarantee by cloning, has made its one release: "
                    "further releases, as in cross-validation, need an account, which is charged for each"
                )
            self._policy = policy


class LoggedPolicy(BaseEstimator):
    """Learn privately from a log which arm is best for each person; see the module.

    As scikit-learn requires, the constructor stores its arguments unchanged. Learning checks them.

    Args:
        contexts: Public columns, a `Schema`; X is a frame, or an array in the schema's order.
        arms: Labels of the arms.
        reward_range: Public (low, high). A reward outside it contributes zero, unless a `RewardRange` clips
            it.
        horizon: Largest number of rows used, a public number chosen without looking at the log.
        privacy: `JointDP` with delta above 0. Unless `user_ids` is False, fits require `users`.
        kernel, tuning: As in `ExploreThenCommit`.
        seed, noise, account: As in `PolicyOptions`.

    Attributes:
        policy_: The `ExploreThenCommit` that learned; it holds raw sums, which are secret.
        published_: The release, a `PublishedFunction`.
        classes_: (K,) labels of the arms.
        guarantee_: Guarantee of the release.
        n_features_in_, feature_names_in_: Number and names of the schema's columns.

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
        """Return an estimator with the same arguments, which shares this estimator's one release."""
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
            X: Contexts of n people.
            y: (n,) rewards.
            arms: n labels: the arm that each person was given.
            propensities: (n,) probability with which that arm was chosen; None if all arms were equally
                likely.
            users: n user ids, if `privacy` requires them.

        Raises:
            InvalidParameter: the estimator's arguments do not fit together.
            InvalidData: the arguments are not tables of one length. An unreadable cell raises nothing: its
                row contributes zero.
            ProtocolError: the estimator has made its release.
            BudgetExceeded: a clone has made the release, or the account's budget does not suffice.
        """
        if self.__sklearn_is_fitted__():
            raise ProtocolError(
                "fit: the release was made, and a second one of the same people would spend the privacy "
                "budget twice; clone the estimator, with an account that is charged for another"
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
        """Add rows without releasing anything. See `fit`.

        Raises:
            ProtocolError: the release was made.
        """
        if self.__sklearn_is_fitted__():
            raise ProtocolError(
                "partial_fit: the release was made and no row is added to it; learn from new people with a "
                "new estimator"
            )
        if arms is None:
            raise InvalidData("arms: expected one label for each row: the arm that the person was given")
        if "policy_" not in self.__dict__:
            self._begin()
        self.policy_.learn(X, arms, y, propensities=propensities, users=users)
        return self

    def publish(self) -> Self:
        """Release what was learned; later calls return the same release.

        Raises:
            BudgetExceeded: a clone has made the release, or the account's budget does not suffice.
            NotReleased: no rows were added.
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
                "expected contexts=, arms=, horizon= and privacy=: all are public, and none is derived from "
                "the log"
            )
        self.policy_ = ExploreThenCommit(**self.get_params(deep=False))
        self.classes_ = np.array(self.arms)
        self.n_features_in_ = self.contexts.dim
        self.feature_names_in_ = np.array(self.contexts.names, dtype=object)

    def _released(self) -> PublishedFunction:
        if not self.__sklearn_is_fitted__():
            raise NotReleased(
                "this LoggedPolicy has no release, and predicts from nothing else: call fit, or publish "
                "after the last partial_fit"
            )
        return self.published_

    def predict(self, X: Any) -> Any:
        """Return (n,) labels of each person's best arm under the release; None for an unreadable row."""
        best = self._released().choose(X)
        if (best < 0).any():
            return as_objects([*self.classes_.tolist(), None])[best]
        return self.classes_[best]

    def predict_proba(self, X: Any) -> FloatArray:
        """Return (n, K) probabilities of the arms: 1 for the best arm and 0 for the others.

        The row of an unreadable context is all 0.
        """
        arms = len(self._released().arms)
        return np.eye(arms + 1, arms)[self.published_.choose(X)]

    def decision_function(self, X: Any) -> FloatArray:
        """Return (n, K) expected rewards under the release."""
        return self._released().predict(X)[0]
