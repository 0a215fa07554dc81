"""Explore then commit: learn from uniform actions, then answer or publish once (from Pavlovic2025)."""
