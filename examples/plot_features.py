"""
How many features does a kernel need?
=====================================

A private policy releases a Gram matrix of m features, so every feature costs noise and m should be small.
The eigenfunctions of the kernel over the public domain do with few: here is how fast the error falls for
kernels of different smoothness.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

import dpbandits as dpb

# %%
# Everything here is public: the domain, the kernel, the seed. No data is involved. Maps that hold less than
# 80% of their kernel's variance warn when they are built; here they are what is looked at.

warnings.simplefilter("ignore", dpb.features.LittleVariance)

domain = dpb.Box(low=[0, 0], high=[1, 1])
points = domain.sample(400, np.random.default_rng(0))
sizes = [5, 10, 20, 40, 80, 160]
smoothness = {
    "squared exponential": dpb.kernels.SquaredExponential(lengthscale=0.5),
    "Matern 5/2": dpb.kernels.Matern(nu=2.5, lengthscale=0.5),
    "Matern 1/2": dpb.kernels.Matern(nu=0.5, lengthscale=0.5),
}


def largest_error(kernel, n_features):
    features = dpb.features.MercerFeatures(kernel=kernel, domain=domain, n_features=n_features)
    phi = features(points)
    return np.abs(phi @ phi.T - kernel(points)).max()


# %%
# The largest error of any kernel value among 400 random points. Smooth kernels need a few dozen features; a
# rough one (Matern 1/2) is still far off with 160.

figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
for name, kernel in smoothness.items():
    axes.loglog(sizes, [largest_error(kernel, size) for size in sizes], marker="o", label=name)
axes.set(xlabel="features", ylabel="largest error of the kernel", xticks=sizes, xticklabels=sizes)
axes.minorticks_off()
axes.legend()
plt.show()
