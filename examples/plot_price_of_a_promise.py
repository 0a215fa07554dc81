"""
What does an epsilon cost, and what does it buy?
================================================

Gaussian noise for a promise of (epsilon, delta): how wide it must be, and how well an attacker can then still
guess whether the data of one particular person was used.
"""

import matplotlib.pyplot as plt
import numpy as np

from dpbandits.privacy import SecureNoise, membership_bound

epsilons = np.geomspace(0.1, 10, 25)
delta = 1e-6
sensitivity = 2.0**24  # in steps of the lattice that statistics are rounded to: a fine one

# %%
# The cost. `SecureNoise` draws integers, which leave no gaps between floating-point numbers to attack. Two
# certificates prove the same promise for them. One knows how many draws a person can touch, and on a fine
# lattice it needs no more noise than real-valued noise would. The other knows nothing but sensitivity and
# scale, and asks for 5 to 9 percent more.


def scale_and_certificate(epsilon, draws):
    sigma, certificate = SecureNoise().gaussian_scale(sensitivity, epsilon, delta, draws=draws)
    return sigma / sensitivity, certificate


counted = [scale_and_certificate(epsilon, draws=1_000) for epsilon in epsilons]
concentrated = [scale_and_certificate(epsilon, draws=None) for epsilon in epsilons]

figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
axes.loglog(epsilons, [scale for scale, _ in counted], label="near-Gaussian")
axes.loglog(epsilons, [scale for scale, _ in concentrated], "--", label="zero-concentrated")
axes.set(xlabel="epsilon", ylabel="noise / sensitivity", title=f"delta = {delta:g}")
axes.legend()
plt.show()

# %%
# The benefit. With both answers equally likely, a coin guesses right half the time. The pair (epsilon, delta)
# allows the upper curve; the certificate of the noise that was in fact added proves the lower one.

allowed = [membership_bound(epsilon, delta) for epsilon in epsilons]
proved = [certificate.membership_bound() for _, certificate in counted]

figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
axes.semilogx(epsilons, allowed, label="allowed by the pair")
axes.semilogx(epsilons, proved, label="proved by the certificate")
axes.axhline(0.5, color="grey", linewidth=0.8)
axes.set(xlabel="epsilon", ylabel="best guess is right", ylim=(0.48, 1.02), title=f"delta = {delta:g}")
axes.legend()
plt.show()
