"""Pavlovic2025: private kernel contextual bandits by uniform exploration."""
