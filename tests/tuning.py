"""Building a policy from a flat table of arguments, so that a test changes one of its tuning as any other."""

from dataclasses import fields, replace

from dpbandits import RewardRange
from dpbandits.central import (
    ExploreThenCommit,
    ExploreTuning,
    GPBandit,
    GPTuning,
)
from dpbandits.central.published import Dubey2021, Dubey2021Tuning

__all__ = ["built", "placed"]

TUNINGS = {Dubey2021: Dubey2021Tuning, GPBandit: GPTuning, ExploreThenCommit: ExploreTuning}


def placed(arguments):
    """The same arguments; `user_ids` and `clip` go to the promise and to the reward range."""
    found = dict(arguments)
    if "user_ids" in found:
        found["privacy"] = replace(found["privacy"], user_ids=found.pop("user_ids"))
    if "clip" in found:
        found["reward_range"] = replace(RewardRange.of(found["reward_range"]), clip=found.pop("clip"))
    return found


def built(policy_class, arguments):
    """The policy, with what belongs to its tuning handed over as such."""
    rest, tuning_class = placed(arguments), TUNINGS[policy_class]
    tuning = {field.name: rest.pop(field.name) for field in fields(tuning_class) if field.name in rest}
    return policy_class(**rest | {"tuning": replace(rest.get("tuning") or tuning_class(), **tuning)})
