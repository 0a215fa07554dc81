"""Constructors stay readable: at most ten parameters beside `tuning=`.

The options that policies share, `**options`, count one by one. Arguments that most people leave alone are one
value, `tuning=`, which does not count; nor do the classes of such values.
"""

import dataclasses
import importlib
import inspect
import typing

import pytest

ROOMS = (
    "dpbandits",
    "dpbandits.audit",
    "dpbandits.budget",
    "dpbandits.central",
    "dpbandits.central.published",
    "dpbandits.distributed",
    "dpbandits.lab",
    "dpbandits.lab.baselines",
    "dpbandits.local",
    "dpbandits.local.published",
    "dpbandits.outsourced",
    "dpbandits.outsourced.published",
    "dpbandits.state",
)

MOST = 10

FILLED_IN = {
    "AuditRow",
    "Guarantee",
    "LoggedTable",  # LoggedTable.of_people, LoggedTable.described
}
"""Records that the library fills in: nobody writes their constructors."""

MORE = {
    "Facts": 11,  # one for each thing that may be known without data
    "GPBandit": 12,  # contexts with arms, contexts with actions, or a domain; and a readout
    "Spec": 11,  # contexts with arms, or with actions
}
"""Constructors that have more, and how many: none may grow, and one that shrinks to ten leaves this list."""


def public_classes():
    found = {}
    for room in ROOMS:
        module = importlib.import_module(room)
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isclass(thing):
                found[thing.__name__] = thing
    return found


CLASSES = public_classes()


def arguments(kind):
    """Names of the arguments that the constructor takes, those of typed `**options` one by one."""
    names = []
    for parameter in inspect.signature(kind).parameters.values():
        options = [one for one in typing.get_args(parameter.annotation)[:1] if typing.is_typeddict(one)]
        if parameter.kind is inspect.Parameter.VAR_KEYWORD and options:
            names += options[0].__annotations__
        elif parameter.kind not in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL):
            names.append(parameter.name)
    return names


def test_typed_options_count_one_by_one_and_tuning_does_not():
    class Options(typing.TypedDict, total=False):
        left: int
        right: int

    class Policy:
        def __init__(self, first, *, tuning=None, **options: typing.Unpack[Options]):
            self.given = first, tuning, options

    assert arguments(Policy) == ["first", "tuning", "left", "right"]


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_a_constructor_has_at_most_ten_parameters_beside_tuning(name):
    if name in FILLED_IN or name.endswith("Tuning"):
        return
    try:
        count = len(set(arguments(CLASSES[name])) - {"tuning"})
    except ValueError:  # a class of the interpreter's own has no signature
        return
    assert count <= MORE.get(name, MOST), arguments(CLASSES[name])
    assert name not in MORE or count > MOST, f"{name} has {count}: take it out of MORE"


def test_a_tuning_is_a_value_of_fields_with_defaults():
    """So that whoever leaves it out leaves all of it out."""
    for name in (one for one in CLASSES if one.endswith("Tuning")):
        parameters = inspect.signature(CLASSES[name]).parameters.values()
        assert dataclasses.is_dataclass(CLASSES[name])
        assert all(one.default is not inspect.Parameter.empty for one in parameters)
