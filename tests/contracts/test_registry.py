import importlib
import pkgutil

import dpbandits
from contracts.cases import CASES, every_policy
from dpbandits.policy import KeptPolicy, Policy, RoundPolicy

ROOMS = ("central", "local", "outsourced", "baselines")


ELSEWHERE = {"baselines.LocalCrowd", "baselines.DistributedCrowd"}
"""Wraps what cannot be saved or configured: `tests/adapters`; is asked about people alone:
`tests/lab/test_twins.py`."""


def import_rooms():
    for package in pkgutil.iter_modules(dpbandits.__path__, "dpbandits."):
        if package.name.removeprefix("dpbandits.") not in ROOMS:
            continue
        room = importlib.import_module(package.name)
        for module in pkgutil.walk_packages(room.__path__, room.__name__ + "."):
            importlib.import_module(module.name)


def test_every_policy_of_every_room_is_under_contract():
    import_rooms()
    shipped = {
        policy.kind
        for policy in subclasses(RoundPolicy)
        if "kind" in policy.__dict__ and policy.__module__.startswith("dpbandits.")
    }
    covered = {case.make().kind for case in CASES}
    assert covered == shipped - ELSEWHERE


MOST_CLASSES = 5
"""Classes in the method resolution order of a policy, itself counted and `object` not."""


def subclasses(cls):
    for one in cls.__subclasses__():
        yield one
        yield from subclasses(one)


def test_the_method_resolution_order_of_a_policy_is_short():
    import_rooms()
    import dpbandits.lab.baselines

    shipped = {cls for cls in subclasses(KeptPolicy) if cls.__module__.startswith("dpbandits.")}
    assert {cls.__name__ for cls in shipped} >= {"GPBandit", "ExploreThenCommit", "Uniform"}
    counted = {cls.__name__: len(cls.__mro__) - 1 for cls in (*shipped, dpbandits.central.published.USCA)}
    assert {name: count for name, count in counted.items() if count > MOST_CLASSES} == {}


WITHOUT_CANDIDATES = {"ExploreThenCommit"}
"""Policies that are given contexts and no candidates: their contracts are in
`test_contexts_instead_of_candidates`."""


def test_whatever_central_exports_with_a_guarantee_is_under_a_contract():
    import dpbandits.central

    exported = {name: getattr(dpbandits.central, name) for name in dpbandits.central.__all__}
    promising = {
        name for name, thing in exported.items() if isinstance(getattr(thing, "guarantee", None), property)
    }
    policies = {name for name in promising if issubclass(exported[name], RoundPolicy)}
    assert promising - policies == WITHOUT_CANDIDATES


@every_policy
def test_every_policy_answers_to_the_protocol(case):
    policy = case.make()
    assert isinstance(policy, Policy)
    assert policy.kind.split(".")[-1] == type(policy).__name__
