"""Other libraries' ways of asking, on top of ours, and theirs in our laboratory.

Ours in their words; each says which of its calls raw data enters by, and what may leave:

- `sklearn.LoggedPolicy`: a scikit-learn estimator over a log; needs scikit-learn.
- `mabwiser.MAB`: MABWiser's calls on a policy; needs nothing.
- `obp.learn`, `obp.action_dist`: Open Bandit Pipeline's feedback dict; needs nothing.
- `optuna.PolicySampler`: Optuna's sampler over a policy; needs optuna.
- `botorch.noisy_input_model`: the noisy-input kernel as a BoTorch model; needs torch and botorch.

Theirs in the laboratory, where nobody is protected:

- `gymnasium.GymWorld`: an environment as a world; needs gymnasium.

No package is imported before it is needed.
"""

from typing import TYPE_CHECKING

from dpbandits._lazy import lazy

if TYPE_CHECKING:
    from dpbandits.adapters import botorch, gymnasium, mabwiser, obp, optuna, sklearn

__all__ = ["botorch", "gymnasium", "mabwiser", "obp", "optuna", "sklearn"]

__getattr__, __dir__ = lazy(__name__)
