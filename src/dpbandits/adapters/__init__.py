"""Adapters to the interfaces of other libraries.

Five adapters offer a private policy or release through another library's interface. Each module says which
calls take raw data and which outputs may be published:

- `sklearn.LoggedPolicy`: a scikit-learn estimator over a log; needs scikit-learn.
- `mabwiser.MAB`: MABWiser's calls on a policy; needs nothing.
- `obp.learn_from`, `obp.action_dist`: Open Bandit Pipeline's feedback dict; needs nothing.
- `optuna.PolicySampler`: Optuna's sampler over a policy; needs optuna.
- `botorch.noisy_input_model`: the noisy-input kernel as a BoTorch model; needs torch and botorch.

One adapter makes another library's environment a simulated world. It protects nobody:

- `gymnasium.GymWorld`: an environment as a world; needs gymnasium.

Importing this package imports none of these libraries.
"""

from typing import TYPE_CHECKING

from dpbandits._lazy import lazy

if TYPE_CHECKING:
    from dpbandits.adapters import botorch, gymnasium, mabwiser, obp, optuna, sklearn

__all__ = ["botorch", "gymnasium", "mabwiser", "obp", "optuna", "sklearn"]

__getattr__, __dir__ = lazy(__name__)
