"""One way to write an object down as JSON and to build it anew: `Configured`.

A configured object is described by its constructor's parameters, which for a dataclass are its fields; of
`**shared: Unpack[Options]`, a `TypedDict`, they are the options. It keeps each under an attribute of the same
name; `to_config` writes them in the constructor's order, with arrays as lists and configured objects as their
own configurations, and `from_config` hands them back to the constructor, which checks them. What is not plain
JSON is parsed first, by `config_parsers`.

    @KERNELS.add("Scaled", kernel=KERNELS.read)  # {"type": "Scaled", "kernel": {...}, "variance": 2.0}
    @dataclass(frozen=True, kw_only=True)
    class ScaledKernel(Kernel):  # Kernel is Configured
        kernel: Kernel
        variance: float

A `Registry` knows the classes of one kind and reads whichever a configuration names. Where a class has no
`config_type` nothing is named: {"low": 0.0, "high": 1.0}. Types are written into files: renaming a class
leaves its type as it is.

Without a registry, as for policies, a class sets these itself: `config_label = "policy"`, `config_type` the
kind, `config_omits` what a configuration does not hold (`account`, parameters that another one has
replaced), `config_parsers` how the rest is read. `arguments` is the half of `from_config` before the
constructor.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from importlib import import_module
from typing import Any, ClassVar, Generic, Self, TypeVar, get_args

import numpy as np

from dpbandits._reading import config_type, reading
from dpbandits.errors import InvalidParameter

__all__ = ["Configured", "Registry", "Valued", "arguments_of", "config_of", "parse_fields", "plain"]

Parser = Callable[[Any], Any]


_JSON = frozenset({int, float, str, bool, type(None)})
"""Types whose objects stay as they are."""


def plain(value: object) -> Any:
    """A parameter as JSON values: arrays and tuples as lists, configured objects as configurations."""
    if hasattr(value, "to_config"):
        return value.to_config()
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, timedelta):
        return {"seconds": value.total_seconds()}
    if isinstance(value, (tuple, list)):
        return list(value) if _JSON.issuperset(map(type, value)) else [plain(part) for part in value]
    return value


def parse_fields(fields: Mapping[str, Any], parsers: Mapping[str, Parser]) -> dict[str, Any]:
    """The fields of a configuration, those that have a parser through it; None stays None.

    Example:
        >>> parse_fields({"low": [1, 2], "name": None, "n": 3}, {"low": tuple, "name": str})
        {'low': (1, 2), 'name': None, 'n': 3}
    """
    return {
        name: value if value is None or name not in parsers else parsers[name](value)
        for name, value in fields.items()
    }


_PARAMETERS: dict[type, tuple[str, ...]] = {}
"""What `inspect` found out about a class: asked once."""


def config_of(thing: Any) -> dict[str, Any]:
    """The configuration of an object whose class has the attributes of `Configured`."""
    label = {thing.config_label: thing.config_type} if thing.config_type else {}
    return label | {name: plain(getattr(thing, name)) for name in _parameters(type(thing))}


def arguments_of(cls: Any, config: Mapping[str, Any]) -> dict[str, Any]:
    """The parsed arguments of the constructor of a class that has the attributes of `Configured`."""
    fields = dict(config)
    if cls.config_type and fields.pop(cls.config_label, None) != cls.config_type:
        raise InvalidParameter(f"expected {cls.config_label} {cls.config_type!r}")
    return parse_fields(fields, cls.config_parsers)


class Configured:
    """Something that is described by its constructor's parameters; see the module.

    Attributes:
        config_type: what a configuration calls this class; empty where it names nothing.
        config_label: the field that holds `config_type`.
        config_parsers: parameter -> how it is read from JSON.
        config_omits: parameters that are not written.
    """

    config_type: ClassVar[str] = ""
    config_label: ClassVar[str] = "type"
    config_parsers: ClassVar[Mapping[str, Parser]] = {}
    config_omits: ClassVar[frozenset[str]] = frozenset()

    def to_config(self) -> dict[str, Any]:
        """A JSON-ready description that `from_config` turns back into an equal object."""
        return config_of(self)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Build what `to_config()` described.

        Raises:
            InvalidParameter: the configuration of something else, or values that do not fit.
        """
        with reading(f"the configuration of a {cls.__name__}"):
            return cls(**cls.arguments(config))

    @classmethod
    def arguments(cls, config: Mapping[str, Any]) -> dict[str, Any]:
        """The constructor's arguments that a configuration holds, parsed."""
        return arguments_of(cls, config)


class Valued(Configured):
    """Configured, and equal where all parameters are, arrays included."""

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(
            np.array_equal(mine, theirs) if isinstance(mine, np.ndarray) else mine == theirs
            for mine, theirs in zip(_values(self), _values(other), strict=True)
        )

    def __hash__(self) -> int:
        return hash((type(self), *(v.tobytes() if isinstance(v, np.ndarray) else v for v in _values(self))))


T = TypeVar("T")
C = TypeVar("C", bound=Configured)


class Registry(Generic[T]):
    """The classes of one kind, by the types that configurations name.

    Args:
        what: one of them, in words: "a kernel".
        label: the field that names the type.
        elsewhere: type -> module that registers it when it is first asked for.
    """

    def __init__(self, what: str, *, label: str = "type", elsewhere: Mapping[str, str] | None = None) -> None:
        self.what, self.label, self._elsewhere = what, label, dict(elsewhere or {})
        self._classes: dict[str, type[Configured]] = {}

    def add(self, kind: str, **parsers: Parser) -> Callable[[type[C]], type[C]]:
        """Class decorator: configurations of this type are written and read by the class.

        Args:
            kind: its type in configurations.
            **parsers: the class's `config_parsers`.
        """

        def register(cls: type[C]) -> type[C]:
            cls.config_type, cls.config_label, cls.config_parsers = kind, self.label, parsers
            self._classes[kind] = cls
            return cls

        return register

    def read(self, config: Mapping[str, Any]) -> T:
        """Build what the configuration describes.

        Raises:
            InvalidParameter: it names no known type, or its fields do not fit.
        """
        with reading(f"the configuration of {self.what}"):
            kind = config_type(config, self.label)
            if kind in self._elsewhere:
                import_module(self._elsewhere[kind])
            if kind not in self._classes:
                known = sorted({*self._classes, *self._elsewhere})
                raise InvalidParameter(f"expected {self.label!r} to be one of {', '.join(known)}")
            built: Any = self._classes[kind].from_config(config)
            return built  # type: ignore[no-any-return]

    def read_all(self, configs: Sequence[Mapping[str, Any]]) -> tuple[T, ...]:
        """`read` for each of several."""
        return tuple(self.read(config) for config in configs)


def _parameters(cls: type[Any]) -> tuple[str, ...]:
    if cls not in _PARAMETERS:
        names: list[str] = []
        for name, parameter in inspect.signature(cls.__init__).parameters.items():
            shared = get_args(parameter.annotation) if parameter.kind is parameter.VAR_KEYWORD else ()
            names += shared[0].__annotations__ if shared else [name]
        _PARAMETERS[cls] = tuple(name for name in names if name not in {"self", *cls.config_omits})
    return _PARAMETERS[cls]


def _values(thing: Configured) -> list[Any]:
    return [getattr(thing, name) for name in _parameters(type(thing))]
