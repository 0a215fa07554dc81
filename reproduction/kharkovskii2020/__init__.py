"""Kharkovskii2020: outsourced Bayesian optimisation."""
