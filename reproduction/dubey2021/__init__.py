"""Dubey2021: private Gaussian-process bandits, central and local."""
