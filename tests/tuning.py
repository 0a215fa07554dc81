"""Building a policy from a flat table of arguments, so that a test changes one of its tuning as any other."""

from dataclasses import fields

from dpbandits.central import (
    ExploreThenCommit,
    ExploreTuning,
    GPBandit,
    GPTuning,
)

__all__ = ["built"]

TUNINGS = {GPBandit: GPTuning, ExploreThenCommit: ExploreTuning}


def built(policy_class, arguments):
    """The policy, with what belongs to its tuning handed over as such."""
    tuning_class = TUNINGS[policy_class]
    inside = {field.name for field in fields(tuning_class)}
    tuning = {name: value for name, value in arguments.items() if name in inside}
    rest = {name: value for name, value in arguments.items() if name not in inside}
    return policy_class(**rest, tuning=tuning_class(**tuning))
