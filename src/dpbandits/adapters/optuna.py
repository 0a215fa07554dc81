"""Optuna's sampler over a policy (`PolicySampler`): a study asks, and a private policy decides.

One trial is one person, whose arm is a categorical parameter; or, of a policy over a domain without arms, a
point of it, whose columns are the floats `x0`, `x1`, ...

    sampler = PolicySampler(policy)
    study = optuna.create_study(sampler=sampler, direction="maximize")
    trial = study.ask()
    sampler.meet(trial, {"age": 44, "region": "west"}, user="u-17")
    offer = trial.suggest_categorical("offer", ["mail", "call"])    # takes a round
    study.tell(trial, reward)                                       # tells the policy

What becomes of raw data:

- A context is given to `meet` and kept out of the study: do not put it into `user_attrs`.
- The study keeps every person's arm and raw reward as long as it lives, and shows them: `trials`,
  `best_value`, `trials_dataframe`, plots, and the log lines of `optimize`. None of it is a release; it is for
  those who may see the data. So `meet` refuses a study whose storage is not in memory, and Optuna's log at
  level INFO, which prints every reward, or WARNING, which prints arm and value of a trial that failed.
- What was learned leaves through the policy's `publish`.
- A trial that fails or is pruned has no reward; its round is taken all the same.

Nothing of Optuna is imported here.
"""

import logging
from threading import Lock
from typing import Any, NoReturn

from dpbandits import _checks
from dpbandits._typing import FloatArray
from dpbandits.errors import InvalidParameter, ProtocolError
from dpbandits.policy import RoundPolicy

__all__ = ["PolicySampler"]


_Key = tuple[str, int]
"""A study's name and a trial's number: several studies may share a policy."""


def _refuse_leaks(trial: Any) -> None:
    """ProtocolError where raw rewards would be written down beside the policy."""
    if type(trial.storage).__name__ != "InMemoryStorage":
        raise ProtocolError(
            "the study's storage would keep everybody's raw rewards in plain text: create the study without "
            "storage=, and keep the policy with save"
        )
    if logging.getLogger("optuna").isEnabledFor(logging.WARNING):
        raise ProtocolError(
            "Optuna's log prints raw rewards at level INFO, and those of failed trials at WARNING: call "
            "optuna.logging.set_verbosity(optuna.logging.ERROR) first"
        )


class PolicySampler:
    """One person a trial, decided by a policy; see the module.

    Args:
        policy: with `contexts` and `arms`, or with a domain that can be asked without candidates.
    """

    def __init__(self, policy: RoundPolicy) -> None:
        self.policy: Any = _checks.an(policy, RoundPolicy, name="policy", pass_="GPBandit(...)")
        self._lock = Lock()
        self._points: dict[_Key, FloatArray] = {}
        self._people: dict[_Key, tuple[Any, object]] = {}  # raw data, until they are decided for
        self._open: dict[_Key, str] = {}

    def __str__(self) -> str:
        return type(self).__name__

    def __reduce__(self) -> NoReturn:
        raise ProtocolError("a sampler cannot be copied or pickled: it stands for one policy")

    def meet(self, trial: Any, context: Any = None, *, user: object | None = None) -> None:
        """Say whose trial it is.

        Args:
            trial: what `study.ask()` gave, or the objective's argument.
            context: as `ask` takes it; it is read when the arm is suggested. None where there are no arms.
            user: as `ask` takes it.

        Raises:
            ProtocolError: the study keeps raw rewards on disk, or prints them; nothing was taken.
        """
        _refuse_leaks(trial)
        with self._lock:
            self._people[trial.study.study_name, trial.number] = context, user

    def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, Any]:
        """Nothing is sampled before it is known whose trial it is."""
        return {}

    def sample_relative(self, study: Any, trial: Any, search_space: dict[str, Any]) -> dict[str, Any]:
        """Nothing."""
        return {}

    def sample_independent(self, study: Any, trial: Any, param_name: str, param_distribution: Any) -> Any:
        """Decide."""
        with self._lock:
            key = study.study_name, trial.number
            menu, labels = self.policy.menu, list(getattr(param_distribution, "choices", ()))
            if menu is None:
                return self._coordinate(key, param_name)
            if not labels or any(menu.arms.code(label) < 0 for label in labels):
                raise InvalidParameter(
                    f"{param_name}: expected a categorical parameter whose choices are arms"
                )
            context, user = self._met(key, param_name)
            available = None if len(labels) == menu.n_arms else labels
            decision = self.policy.ask(context, user=user, available=available)
            self._open[key] = decision.id
            return decision.arm

    def before_trial(self, study: Any, trial: Any) -> None:
        """Refuse a study of several objectives, or of the other direction."""
        if [direction.name.lower() for direction in study.directions] != ["maximize"]:
            raise InvalidParameter('expected a study of one objective, direction="maximize"')

    def after_trial(self, study: Any, trial: Any, state: Any, values: Any) -> None:
        """Tell what came."""
        key, reward = (study.study_name, trial.number), float(values[0]) if state.name == "COMPLETE" else None
        with self._lock:
            self._people.pop(key, None)
            self._points.pop(key, None)
            decision = self._open.pop(key, None)
            if decision is not None and reward is None:
                self.policy.abandon(decision)
            elif decision is not None and reward is not None:
                self.policy.tell(decision, reward)

    def reseed_rng(self) -> None:
        """Nothing to do: public coins are keyed by their round."""

    def _met(self, key: _Key, name: str) -> tuple[Any, object]:
        if key not in self._people:
            raise ProtocolError(f"{name}: a trial has one decision, and first needs sampler.meet(trial, ...)")
        return self._people.pop(key)

    def _coordinate(self, key: _Key, name: str) -> float:
        """A column of the trial's point, which is asked for once."""
        names = [f"x{column}" for column in range(self.policy.domain.dim)]
        if name not in names:
            raise InvalidParameter(f"{name}: expected a column of the domain, from x0 to {names[-1]}")
        if key not in self._points:
            context, user = self._met(key, name)
            if context is not None:
                raise InvalidParameter("context: this policy chooses among points: leave it out")
            decision = self.policy.ask(user=user)
            self._open[key], self._points[key] = decision.id, decision.action
        return float(self._points[key][names.index(name)])
