"""Ma2025: locally private contextual bandits, with and without sources."""
