"""The exceptions of the library. All of them are subclasses of `DPBanditsError`.

Messages say what was passed, what was expected and what to do. They never contain raw data, because
exceptions are written to logs and trackers. They may name types, shapes, columns and public bounds, but no
reward, feature value, table cell or user id.
"""

__all__ = [
    "AlreadyTold",
    "BrokenMechanism",
    "BudgetExceeded",
    "ContributionExceeded",
    "CorruptState",
    "DPBanditsError",
    "DPBanditsWarning",
    "DataUnavailable",
    "ForkedState",
    "HorizonExceeded",
    "IncompatibleState",
    "InvalidCall",
    "InvalidData",
    "InvalidParameter",
    "MissingExtra",
    "MissingState",
    "NothingReleased",
    "NothingToLearn",
    "ProtocolError",
    "ServiceUnavailable",
    "StateError",
    "UnknownDecision",
]


class DPBanditsError(Exception):
    """Root of all errors raised by dpbandits."""


class DPBanditsWarning(UserWarning):
    """Root of all warnings raised by dpbandits."""


class NothingToLearn(DPBanditsWarning):
    """The public parameters show that the policy will learn hardly anything."""


class NothingReleased(DPBanditsWarning):
    """A published object was computed from no release, so it has no information from the data."""


class InvalidParameter(DPBanditsError, ValueError):
    """An argument of a constructor or command is invalid."""


class InvalidCall(InvalidParameter, TypeError):
    """A call lacks an argument, has an unknown one, or passes one by position that needs its name."""


class InvalidData(DPBanditsError, ValueError):
    """Candidates, rewards or a table do not have the declared shape, type or range."""


class ProtocolError(DPBanditsError, RuntimeError):
    """A call is not allowed now; nothing was changed."""


class UnknownDecision(ProtocolError):
    """The decision id was not issued by this policy."""


class AlreadyTold(ProtocolError):
    """The decision was told or abandoned before."""


class HorizonExceeded(ProtocolError):
    """The rounds would exceed the horizon to which the policy's noise is calibrated."""


class BudgetExceeded(DPBanditsError):
    """The request would spend more privacy budget than the account has; nothing was computed."""


class ContributionExceeded(BudgetExceeded):
    """A user's rounds would exceed the contribution bound `rounds_per_user`; nothing was computed."""


class StateError(DPBanditsError):
    """A saved state cannot be used."""


class MissingState(StateError, FileNotFoundError):
    """There is no file or folder at the path."""


class CorruptState(StateError):
    """The file is torn, altered or not a state file."""


class IncompatibleState(StateError):
    """The file is intact but belongs to another version or another object."""


class ForkedState(StateError):
    """Another copy of this state has continued; continuing here would release twice."""


class BrokenMechanism(DPBanditsError):
    """The mechanism does not have its published guarantee, and `acknowledge_broken=True` was not passed."""


class DataUnavailable(DPBanditsError):
    """A data set or file is missing or cannot be read."""


class MissingExtra(DPBanditsError, ImportError):
    """An optional dependency is not installed; the message names the extra."""


class ServiceUnavailable(DPBanditsError, ConnectionError):
    """The service was not reached or did not answer. Repeating the request with its id is safe."""
