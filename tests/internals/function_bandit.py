"""What a `FunctionBandit` keeps of the rounds that it drew."""

__all__ = ["kept_chunks"]


def kept_chunks(world):
    """How many chunks of rounds are in memory."""
    return len(world._kept)
