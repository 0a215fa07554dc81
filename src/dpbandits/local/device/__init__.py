"""The client, which runs on the user's device and needs only NumPy and the standard library."""
