"""Explore then commit: learn from uniform actions, then answer or publish once (Pavlovic2025)."""
