"""The server's side: count reports, learn from them, publish."""
