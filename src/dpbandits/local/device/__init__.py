"""The device's side: NumPy and the standard library only."""
