"""Explore then commit: learn from uniformly drawn actions, then answer or publish once (grown out of USCA,
Pavlovic2025).
"""
