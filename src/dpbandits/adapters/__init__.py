"""Other libraries' ways of asking, on top of ours.

- `optuna_style`: trials and studies over published rows, in Optuna's words; needs nothing.
- `botorch`: the noisy-input kernel as a BoTorch model; needs torch and botorch.
"""

__all__ = ["botorch", "optuna_style"]
