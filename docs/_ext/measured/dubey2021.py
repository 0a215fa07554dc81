"""Tables and pictures of the pages `dubey2021-formulas` and `evidence/dubey2021`, computed in the build."""

import numpy as np
from IPython.display import HTML, Markdown
from pages import draw, load, shown, table

from dpbandits.central.published import (
    correct_scale,
    printed_local_scales,
    printed_scale,
    real_epsilon,
    real_local_mu,
)
from dpbandits.lab.plot import PALETTE
from dpbandits.privacy.calibration import gaussian_mu, membership_bound

LEVELS, DELTA = 11, 1e-5
"""Levels of the tree at T = 1,024, and the delta of the pictures."""

FORMULAS = {"lemma-2": "blue", "lemma-2-statement": "green", "lemma-12": "orange", "lemma-12-proof": "sky"}
"""Printed formula -> the colour of its line."""


def _ratio(formula: str, epsilon: float) -> float:
    """Return printed over correct noise scale at T = 1,024."""
    at = {"epsilon": epsilon, "levels": LEVELS, "delta": DELTA}
    return printed_scale(formula, **at) / correct_scale(**at)


def ratios_picture() -> HTML:
    """Show printed over correct noise, by epsilon."""
    epsilons = np.geomspace(0.01, 10, 60)
    figure, (axes,) = draw(width=7.6, height=4.2)
    for formula, colour in FORMULAS.items():
        ratios = [_ratio(formula, epsilon) for epsilon in epsilons]
        axes.loglog(epsilons, ratios, color=PALETTE[colour], label=formula)
    axes.axhline(1.0, color=PALETTE["black"], linestyle="--", label="correct")
    axes.fill_between(epsilons, 1e-3, 1.0, color=PALETTE["orange"], alpha=0.12)
    axes.text(0.25, 3e-2, "too little noise: broken", color=PALETTE["orange"])
    axes.set(ylim=(3e-3, 1e6), xlabel="epsilon", ylabel="printed over correct noise")
    axes.set_title("T = 1,024, delta = 1e-5")
    axes.legend()
    alt = "Printed over correct noise by epsilon. The two formulas of Lemma 12 fall below 1 at small epsilon."
    return shown(figure, alt)


def ratios_table() -> Markdown:
    """Show printed over correct noise, and what the statement of Lemma 12 really keeps."""
    epsilons = (0.02, 0.05, 0.07, 0.1, 1, 10)
    lines = [[name, *(f"{_ratio(name, epsilon):.3g}" for epsilon in epsilons)] for name in FORMULAS]
    scales = [printed_scale("lemma-12", epsilon=one, levels=LEVELS, delta=DELTA) for one in epsilons[:4]]
    kept = [f"{real_epsilon(scale, levels=LEVELS, delta=DELTA):.3g}" for scale in scales]
    lines.append(["epsilon that lemma-12 keeps", *kept, "", ""])
    return table(["claimed epsilon", *(f"{epsilon:g}" for epsilon in epsilons)], lines)


def attack() -> Markdown:
    """Attack Lemma 12's noise at epsilon .02 by the likelihood-ratio test on all nodes of a user."""
    rng, draws, epsilon = np.random.default_rng(1), 400_000, 0.02
    scale = printed_scale("lemma-12", epsilon=epsilon, levels=LEVELS, delta=DELTA)
    side = rng.integers(2, size=draws)
    seen = (side - 0.5) * 2 * np.sqrt(2 * LEVELS) + scale * rng.standard_normal(draws)
    rate = np.mean((seen > 0) == side)
    allowed = membership_bound(epsilon, DELTA)
    return Markdown(
        f"At a claimed epsilon of {epsilon:g} it guesses right in {rate:.4f} ± {0.5 / draws**0.5:.4f} of "
        f"{draws:,} cases, and the claim allows {allowed:.4f}."
    )


def lemma_5_table() -> Markdown:
    """Show mu of the Gram, of the vector and of both under Lemma 5's scales, at (10, 1e-5)."""
    promise, lines = {"epsilon": 10, "delta": DELTA}, []
    logs = {
        "as printed, m = 64": {"n_features": 64, "failure_probability": DELTA},
        "bounded rewards, no log": {},
    }
    for words, tail in logs.items():
        for bound in (1, 20):
            found = printed_local_scales(**promise, **tail, reward_bound=bound)
            parts = (2**0.5 / found.gram, 2 * bound / found.vector, real_local_mu(found, reward_bound=bound))
            lines.append([words, bound, *(f"{mu:.3f}" for mu in parts)])
    half, whole = gaussian_mu(5, DELTA / 2), gaussian_mu(10, DELTA)
    lines.append(["allowed", "", f"{half:.3f}", f"{half:.3f}", f"{whole:.3f}"])
    return table(["scales", "B", "Gram", "vector", "both at once"], lines)


def lemma_5_picture() -> HTML:
    """Show allowed mu over kept mu of Lemma 5, by epsilon."""
    epsilons = np.geomspace(0.01, 50, 80)
    figure, (axes,) = draw(width=7.6, height=3.6)
    lines = (("B = 1", 1, True, "blue"), ("B = 20", 20, True, "orange"), ("no log", 1, False, "green"))
    for words, bound, log, colour in lines:
        tail = {"n_features": 64, "failure_probability": DELTA} if log else {}
        ratios = [
            gaussian_mu(epsilon, DELTA)
            / real_local_mu(
                printed_local_scales(epsilon=epsilon, delta=DELTA, reward_bound=bound, **tail),
                reward_bound=bound,
            )
            for epsilon in epsilons
        ]
        axes.semilogx(epsilons, ratios, color=PALETTE[colour], label=f"Lemma 5, {words}")
    axes.axhline(1.0, color=PALETTE["black"], linestyle="--", label="allowed")
    axes.fill_between(epsilons, 0.5, 1.0, color=PALETTE["orange"], alpha=0.12)
    axes.text(0.012, 0.72, "too little noise: broken", color=PALETTE["orange"])
    axes.set(ylim=(0.5, None), xlabel="epsilon", ylabel="allowed mu over kept mu")
    axes.set_title("local, delta = 1e-5")
    axes.legend()
    return shown(figure, "Allowed mu over kept mu of Lemma 5. It falls below 1 at large epsilon.")


def distributed() -> Markdown:
    """Show the regret of fresh noise in every block in the world of Figure 1."""
    lines = [
        [row["column"], f"{row['regret']:.0f} ± {row['standard_error']:.0f}"]
        for row in load("dubey2021-distributed")
    ]
    return table(["policy", "regret of 1,024 rounds"], lines)
