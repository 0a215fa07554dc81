"""Marginal tables: what is released (`release`), how it is read (`learning`), and what is promised."""
