"""A private policy as a sampler for Optuna (`PolicySampler`).

One trial is one person. The arm is a categorical parameter. A policy over a domain without arms suggests a
point instead, whose columns are the floats `x0`, `x1`, ...

    sampler = PolicySampler(policy)
    study = optuna.create_study(sampler=sampler, direction="maximize")
    trial = study.ask()
    sampler.meet(trial, {"age": 44, "region": "west"}, user="u-17")
    offer = trial.suggest_categorical("offer", ["mail", "call"])    # uses one round
    study.tell(trial, reward)                                       # tells the policy

How raw data is treated:

- `meet` takes the context and does not store it in the study: do not put it into `user_attrs`.
- The study stores each person's arm and raw reward and shows them: `trials`, `best_value`,
  `trials_dataframe`, plots, and the log lines of `optimize`. None of it is a release; show it only to people
  who may see the data.
- `meet` refuses a study whose storage is not in memory. It also refuses Optuna's log levels INFO, which
  prints every reward, and WARNING, which prints arm and value of a failed trial.
- Only the policy's `publish` releases what was learned.
- A trial that fails or is pruned has no reward, but its round is used.

This module imports nothing from Optuna.
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
"""A study's name and a trial's number; the name is part of the key as several studies may share a policy."""


def _refuse_leaks(trial: Any) -> None:
    """Raise ProtocolError if raw rewards would be stored on disk or printed to a log."""
    if type(trial.storage).__name__ != "InMemoryStorage":
        raise ProtocolError(
            "the study's storage would store raw rewards in plain text: create the study without storage=, "
            "and save the policy with save"
        )
    if logging.getLogger("optuna").isEnabledFor(logging.WARNING):
        raise ProtocolError(
            "Optuna's log prints raw rewards at level INFO, and those of failed trials at WARNING: call "
            "optuna.logging.set_verbosity(optuna.logging.ERROR) first"
        )


class PolicySampler:
    """An Optuna sampler that lets a private policy decide each trial; see the module.

    Args:
        policy: Policy with `contexts` and `arms`, or with a domain that needs no candidates.
    """

    def __init__(self, policy: RoundPolicy) -> None:
        self.policy: Any = _checks.an(policy, RoundPolicy, name="policy", pass_="GPBandit(...)")
        self._lock = Lock()
        self._points: dict[_Key, FloatArray] = {}
        self._people: dict[_Key, tuple[Any, object]] = {}  # raw data, removed at the decision
        self._open: dict[_Key, str] = {}

    def __str__(self) -> str:
        return type(self).__name__

    def __reduce__(self) -> NoReturn:
        raise ProtocolError("a sampler cannot be copied or pickled: save its policy instead")

    def meet(self, trial: Any, context: Any = None, *, user: object | None = None) -> None:
        """Set the context and the user of a trial, before the trial suggests an arm.

        Args:
            trial: Result of `study.ask()`, or the objective's argument.
            context: Context as for `ask`, read when the arm is suggested; None for a policy without arms.
            user: User id as for `ask`.

        Raises:
            ProtocolError: the study stores raw rewards on disk or prints them; nothing was changed.
        """
        _refuse_leaks(trial)
        with self._lock:
            self._people[trial.study.study_name, trial.number] = context, user

    def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, Any]:
        """Return no parameters: the decision needs the trial's context."""
        return {}

    def sample_relative(self, study: Any, trial: Any, search_space: dict[str, Any]) -> dict[str, Any]:
        """Return no values."""
        return {}

    def sample_independent(self, study: Any, trial: Any, param_name: str, param_distribution: Any) -> Any:
        """Return the arm, or the point's coordinate, that the policy decides for this trial."""
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
        """Raise InvalidParameter unless the study has one objective, which it maximises."""
        if [direction.name.lower() for direction in study.directions] != ["maximize"]:
            raise InvalidParameter('expected a study of one objective, direction="maximize"')

    def after_trial(self, study: Any, trial: Any, state: Any, values: Any) -> None:
        """Tell the policy the trial's reward, or abandon the decision if the trial did not complete."""
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
        """Do nothing: public coins depend on the round alone."""

    def _met(self, key: _Key, name: str) -> tuple[Any, object]:
        if key not in self._people:
            raise ProtocolError(f"{name}: call sampler.meet(trial, ...) first; a trial has one decision")
        return self._people.pop(key)

    def _coordinate(self, key: _Key, name: str) -> float:
        """Return a column of the trial's point; the first call for a trial asks the policy for the point."""
        names = [f"x{column}" for column in range(self.policy.domain.dim)]
        if name not in names:
            raise InvalidParameter(f"{name}: expected a column of the domain, from x0 to {names[-1]}")
        if key not in self._points:
            context, user = self._met(key, name)
            if context is not None:
                raise InvalidParameter("context: this policy chooses among points: pass no context")
            decision = self.policy.ask(user=user)
            self._open[key], self._points[key] = decision.id, decision.action
        return float(self._points[key][names.index(name)])
