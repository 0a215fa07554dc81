"""`Configured`: objects that are written as JSON and rebuilt from it.

A configured object is described by its constructor's parameters, each of which is also an attribute. For a
dataclass these are its fields; `**shared: Unpack[Options]` stands for the options of that `TypedDict`.
`to_config` writes them in the constructor's order, with arrays as lists and configured objects as
configurations. `from_config` passes them to the constructor, which checks them. Values that are not plain
JSON are parsed first, by `config_parsers`.

    @KERNELS.add("Scaled", kernel=KERNELS.read)  # {"type": "Scaled", "kernel": {...}, "variance": 2.0}
    @dataclass(frozen=True, kw_only=True)
    class ScaledKernel(Kernel):  # Kernel is Configured
        kernel: Kernel
        variance: float

A `Registry` has the classes of one kind, and builds the class that a configuration names. A class without
`config_type` writes no name: {"low": 0.0, "high": 1.0}. Names are written into files, so renaming a class
must not change its `config_type`.

Policies have no registry. They set `config_label = "policy"`, `config_type`, `config_parsers`, and
`config_omits` for parameters that are not written (`account`, and parameters that others have replaced).
`arguments` is the part of `from_config` before the constructor.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from importlib import import_module
from typing import Any, ClassVar, Generic, Self, TypeVar, get_args

from dpbandits._numpy import is_numpy, np
from dpbandits._reading import config_type, reading
from dpbandits.errors import InvalidParameter

__all__ = ["Configured", "Registry", "Valued", "arguments_of", "config_of", "parse_fields", "plain"]

Parser = Callable[[Any], Any]


_JSON = frozenset({int, float, str, bool, type(None)})
"""Types of values that are JSON already."""


def plain(value: object) -> Any:
    """Return a parameter as JSON values: arrays and tuples as lists, configured objects as configurations."""
    if hasattr(value, "to_config"):
        return value.to_config()
    if is_numpy(value, "ndarray", "generic"):
        return value.tolist()  # type: ignore[attr-defined]
    if isinstance(value, timedelta):
        return {"seconds": value.total_seconds()}
    if isinstance(value, (tuple, list)):
        return list(value) if _JSON.issuperset(map(type, value)) else [plain(part) for part in value]
    return value


def parse_fields(fields: Mapping[str, Any], parsers: Mapping[str, Parser]) -> dict[str, Any]:
    """Return the fields of a configuration, parsed by their parser if they have one. None stays None.

    Example:
        >>> parse_fields({"low": [1, 2], "name": None, "n": 3}, {"low": tuple, "name": str})
        {'low': (1, 2), 'name': None, 'n': 3}
    """
    return {
        name: value if value is None or name not in parsers else parsers[name](value)
        for name, value in fields.items()
    }


_PARAMETERS: dict[type, tuple[str, ...]] = {}
"""Cache of the constructor parameters of each class, because `inspect.signature` is slow."""


def config_of(thing: Any) -> dict[str, Any]:
    """Return the configuration of an object whose class has the attributes of `Configured`."""
    label = {thing.config_label: thing.config_type} if thing.config_type else {}
    return label | {name: plain(getattr(thing, name)) for name in _parameters(type(thing))}


def arguments_of(cls: Any, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parsed constructor arguments for a class that has the attributes of `Configured`."""
    fields = dict(config)
    if cls.config_type and fields.pop(cls.config_label, None) != cls.config_type:
        raise InvalidParameter(f"expected {cls.config_label} {cls.config_type!r}")
    return parse_fields(fields, cls.config_parsers)


class Configured:
    """Base class of objects that are described by their constructor's parameters; see the module.

    Attributes:
        config_type: Name of this class in configurations; empty if configurations have no name.
        config_label: Name of the field with `config_type`.
        config_parsers: Functions that read parameters from JSON, by parameter.
        config_omits: Names of parameters that are not written.
    """

    config_type: ClassVar[str] = ""
    config_label: ClassVar[str] = "type"
    config_parsers: ClassVar[Mapping[str, Parser]] = {}
    config_omits: ClassVar[frozenset[str]] = frozenset()

    def to_config(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary, from which `from_config` builds an equal object."""
        return config_of(self)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Build an object from `to_config()`.

        Raises:
            InvalidParameter: The configuration belongs to another class, or its values do not fit.
        """
        with reading(f"the configuration of a {cls.__name__}"):
            given, known = cls.arguments(config), _parameters(cls)
            if not given.keys() <= {*known, *cls.config_omits}:  # `arguments` may compute omitted ones
                raise InvalidParameter(
                    f"not the configuration of a {cls.__name__}, which has {', '.join(known)}"
                )
            return cls(**given)

    @classmethod
    def arguments(cls, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the constructor's arguments in a configuration, parsed."""
        return arguments_of(cls, config)


class Valued(Configured):
    """Base class of configured objects that are equal if all parameters are equal, arrays included."""

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(
            np.array_equal(mine, theirs) if is_numpy(mine, "ndarray") else mine == theirs
            for mine, theirs in zip(_values(self), _values(other), strict=True)
        )

    def __hash__(self) -> int:
        return hash((type(self), *(v.tobytes() if is_numpy(v, "ndarray") else v for v in _values(self))))


T = TypeVar("T")
C = TypeVar("C", bound=Configured)


class Registry(Generic[T]):
    """The classes of one kind, by their names in configurations.

    Args:
        what: Noun phrase for an object of this kind, such as "a kernel".
        label: Name of the field with the class's name.
        elsewhere: Modules that register a class when they are imported, by the class's name. They are
            imported at the first use of the name.
    """

    def __init__(self, what: str, *, label: str = "type", elsewhere: Mapping[str, str] | None = None) -> None:
        self.what, self.label, self._elsewhere = what, label, dict(elsewhere or {})
        self._classes: dict[str, type[Configured]] = {}

    def add(self, kind: str, **parsers: Parser) -> Callable[[type[C]], type[C]]:
        """Return a class decorator that registers a class.

        Args:
            kind: Name of the class in configurations.
            **parsers: The class's `config_parsers`.
        """

        def register(cls: type[C]) -> type[C]:
            cls.config_type, cls.config_label, cls.config_parsers = kind, self.label, parsers
            self._classes[kind] = cls
            return cls

        return register

    def read(self, config: Mapping[str, Any]) -> T:
        """Build the object that a configuration describes.

        Raises:
            InvalidParameter: The configuration names no registered class, or its fields do not fit.
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
        """Build the objects of several configurations."""
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
