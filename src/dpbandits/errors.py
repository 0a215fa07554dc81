"""The exception tree: everything the library raises on purpose is a `DPBanditsError`.

Messages say what came, what was expected and what to do. They never contain raw data: an
exception travels into logs and trackers, so it may name types, shapes, column names and public
bounds, but no reward, feature value, table cell or user id.
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
    """By public numbers alone, hardly anything will be learned."""


class NothingReleased(DPBanditsWarning):
    """What is published was computed from no release: it says nothing about anybody."""


class InvalidParameter(DPBanditsError, ValueError):
    """A constructor or command received an argument that it cannot work with."""


class InvalidCall(InvalidParameter, TypeError):
    """A call lacks an argument, names one that is not there, or gives one that has to be named."""


class InvalidData(DPBanditsError, ValueError):
    """Candidates, rewards or a table do not have the shape, type or range that was declared."""


class ProtocolError(DPBanditsError, RuntimeError):
    """A call came out of order; nothing was changed."""


class UnknownDecision(ProtocolError):
    """The decision id was not issued by this policy."""


class AlreadyTold(ProtocolError):
    """The decision's reward was told or abandoned before."""


class HorizonExceeded(ProtocolError):
    """More rounds were asked for than the policy's noise was calibrated to."""


class BudgetExceeded(DPBanditsError):
    """The request would spend more privacy budget than the account holds; nothing was computed."""


class ContributionExceeded(BudgetExceeded):
    """A user asked for more rounds than `rounds_per_user` covers; nothing was computed."""


class StateError(DPBanditsError):
    """Saved state cannot be used."""


class MissingState(StateError, FileNotFoundError):
    """There is no file or folder at the path that was given."""


class CorruptState(StateError):
    """The file is torn, altered or not a state file."""


class IncompatibleState(StateError):
    """The file is sound but written by another version or for another object."""


class ForkedState(StateError):
    """Another copy of this state has gone on; continuing here would release twice."""


class BrokenMechanism(DPBanditsError):
    """The mechanism does not keep its published promise and was not acknowledged as broken."""


class DataUnavailable(DPBanditsError):
    """A named dataset cannot be provided here."""


class MissingExtra(DPBanditsError, ImportError):
    """An optional dependency is not installed; the message names the extra."""


class ServiceUnavailable(DPBanditsError, ConnectionError):
    """The service was not reached, or did not answer: repeating the request with its id is safe."""
