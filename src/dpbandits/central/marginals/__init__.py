"""Marginal tables: `release` makes them, `learning` learns from them, `statement` has the guarantee."""
