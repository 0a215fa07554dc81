"""Marginal tables: their release (`release`), learning from it (`learning`), the promise (`statement`)."""
