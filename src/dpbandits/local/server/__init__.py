"""The server: count reports, learn from them, publish versions."""
