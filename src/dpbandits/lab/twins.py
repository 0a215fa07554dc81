"""`twin`: create a policy's counterpart without privacy or in another trust model, from its configuration.

Examples::

    twin(policy)                     # without privacy, for the same users
    twin(policy, room="local")       # same users, arms and epsilon, simulated with local privacy
    twin(spec, room="central")       # a spec's users and epsilon, with a trusted server

A twin starts without data: it does not get what the policy learned, and no account is charged for it. It has
the same methods `ask`, `tell` and `predict`.
"""

import warnings
from dataclasses import replace
from typing import Any, Literal

from dpbandits import _checks
from dpbandits.central import ExploreThenCommit, GPBandit, NothingToLearn
from dpbandits.errors import InvalidParameter
from dpbandits.lab.baselines.fixed import ConstantArm, Uniform
from dpbandits.lab.baselines.gp_ucb import ExactGPUCB, FeatureGPUCB
from dpbandits.lab.baselines.local_crowd import LocalCrowd
from dpbandits.lab.baselines.open_explore import OpenExploreThenCommit
from dpbandits.local import Spec
from dpbandits.policy import RoundPolicy
from dpbandits.privacy import noise as noise_sources
from dpbandits.privacy.calibration import LARGEST_EPSILON
from dpbandits.privacy.definitions import JointDP, LocalDP
from dpbandits.privacy.noise import SimulatedNoise
from dpbandits.tables import Schema

__all__ = ["twin"]

DELTA = 1e-6
"""Delta of the central guarantee of a twin, if the policy's guarantee has no delta."""

_CRUMB = 1.0 - 1e-9
"""Factor on parts of an epsilon, so that rounded parts do not add up to more than the whole."""


def twin(policy: Any, *, room: Literal["lab", "central", "local"] = "lab", **changes: Any) -> Any:
    """Create a fresh policy with the same contexts, arms, reward range and seed.

    Args:
        policy: A `GPBandit` or another policy with `ask` and `tell`, an `ExploreThenCommit`, or a
            `local.Spec`.
        room: Trust model of the twin; see below.
        **changes: Arguments of the twin that differ, such as horizon=, privacy= or seed=. A spec has no
            horizon: without one, the central twin has noise for any number of rounds.

    The twins are:

    - "lab", without privacy: `FeatureGPUCB` on the same features. The twin of explore-then-commit is the same
      class with almost no noise, as is that of a `GPBandit` with actions. The twin of a baseline is the
      baseline.
    - "central": a `GPBandit` at the same epsilon, per round.
    - "local": a `LocalCrowd` at the same epsilon, per report.

    The last two exist for policies with contexts, and arms or actions.

    Returns:
        A fresh policy; see its `guarantee`.

    Raises:
        InvalidParameter: There is no such twin, or it does not accept the changes.

    Example:
        >>> import dpbandits as dpb
        >>> policy = dpb.central.GPBandit(
        ...     contexts=dpb.Schema(age=dpb.Range(18, 90)), arms=["mail", "call"], reward_range=(0, 1),
        ...     horizon=1000, privacy=JointDP(epsilon=1, delta=1e-6))
        >>> [twin(policy, room=room).guarantee.status for room in ("lab", "central", "local")]
        ['none', 'enforced', 'simulated']
    """
    _checks.one_of(room, ("lab", "central", "local"), name="room")
    if room == "lab" and isinstance(policy, ExploreThenCommit):
        return _without_noise(policy, changes)
    if room == "lab" and isinstance(policy, ConstantArm | Uniform | ExactGPUCB | FeatureGPUCB):
        return type(policy)(**(policy.arguments(policy.to_config()) | changes))
    if not isinstance(policy, RoundPolicy | ExploreThenCommit | Spec):
        raise InvalidParameter(f"a {type(policy).__name__} has no twin: expected a policy or a local Spec")
    if getattr(policy, "actions", None) is not None:
        return _with_actions(policy, room, changes)
    if room == "lab":
        learns_on = getattr(policy, "features", None) if isinstance(policy, RoundPolicy) else None
        forget = policy.tuning.forget if isinstance(policy, GPBandit) else None
        return FeatureGPUCB(**(_asked(policy) | {"features": learns_on, "forget": forget} | changes))
    if room == "central" and isinstance(policy, GPBandit):
        return GPBandit(**(policy.arguments(policy.to_config()) | changes))
    if "domain" in (asked := _asked(policy)):
        raise InvalidParameter(f"only policies with contexts= and arms= have a {room} twin")
    if room == "central":
        return GPBandit(**(asked | {"privacy": _joint(policy)} | changes))
    own = {name: asked.pop(name) for name in ("contexts", "arms", "reward_range")}
    of_spec = {name: changes.pop(name) for name in list(changes) if name not in asked}
    return LocalCrowd(spec=_spec(policy, own, of_spec), **(asked | changes))


def _with_actions(policy: Any, room: str, changes: dict[str, Any]) -> GPBandit | LocalCrowd:
    """Return the twin of a policy or a spec with actions, with the same actions and value function."""
    if room == "local" or not isinstance(policy, GPBandit):
        asked = _asked(policy) | {"actions": policy.actions}
        del asked["arms"]
        if room != "local":
            central = GPBandit(**(asked | {"privacy": _joint(policy)} | changes))
            return central if room == "central" else _with_actions(central, room, {})
        own = {name: asked.pop(name) for name in ("contexts", "actions", "reward_range")}
        of_spec = {name: changes.pop(name) for name in list(changes) if name not in asked}
        return LocalCrowd(spec=_spec(policy, own, of_spec), **(asked | changes))
    given = {name: getattr(policy, name) for name in ("actions", "reward_range", "privacy", "tuning", "seed")}
    given["contexts"] = None if policy.menu is None else policy.menu.contexts
    given["horizon"] = None if policy.open_ended else policy.horizon
    given["noise"] = noise_sources.from_config(policy.noise.to_config())
    if room == "lab":
        privacy = replace(policy.privacy, epsilon=LARGEST_EPSILON)
        given |= {"noise": SimulatedNoise(policy.seed), "privacy": privacy, "tuning": None}
    return GPBandit(**(given | changes))


def _asked(policy: Any) -> dict[str, Any]:
    """Return the policy's arguments: contexts and arms, or a domain; reward range, seed and horizon."""
    if isinstance(policy, Spec):
        if not isinstance(policy.contexts, Schema):
            raise InvalidParameter("only specs with contexts=Schema(...) have a twin")
        clipped = replace(policy.reward_range, clip=True)  # clients clip rewards too
        said = {"reward_range": clipped, "seed": policy.seed, "horizon": None}
        return {"contexts": policy.contexts, "arms": tuple(policy.arms)} | said
    menu = policy.menu
    if menu is None and not isinstance(policy, RoundPolicy):
        raise InvalidParameter("only explore-then-commit with contexts=Schema(...) and arms= has such a twin")
    people: dict[str, Any] = {"domain": policy.domain}
    if menu is not None:
        people = {"contexts": menu.contexts, "arms": tuple(menu.arms.labels)}
    horizon = None if policy.open_ended else policy.horizon
    return people | {"reward_range": policy.reward_range, "seed": policy.seed, "horizon": horizon}


def _joint(policy: Any) -> JointDP | None:
    """Return the guarantee of the central twin."""
    privacy = policy.spec.privacy if isinstance(policy, LocalCrowd) else policy.privacy
    if isinstance(privacy, JointDP):
        return privacy if privacy.delta else replace(privacy, delta=DELTA)
    if privacy is None:
        return None
    return JointDP(epsilon=privacy.epsilon, delta=DELTA, user_ids=False)  # local reports have no user id


def _spec(policy: Any, own: dict[str, Any], changes: dict[str, Any]) -> Spec:
    """Return the spec of a local crowd with the same users, arms and epsilon."""
    if isinstance(policy, Spec):
        return replace(policy, **({"reward_range": own["reward_range"]} | changes))
    if isinstance(policy, LocalCrowd):
        return replace(policy.spec, **changes) if changes else policy.spec
    if policy.privacy is not None:
        own["privacy"] = LocalDP(epsilon=policy.privacy.epsilon)
    return Spec(**(own | changes))


def _without_noise(policy: ExploreThenCommit, changes: dict[str, Any]) -> Any:
    """Return explore-then-commit with almost no noise."""
    given = policy.arguments(policy.to_config()) | {"noise": SimulatedNoise(policy.seed)}
    given["privacy"] = replace(policy.privacy, epsilon=LARGEST_EPSILON)
    if policy.tuning.release == "marginals":
        return OpenExploreThenCommit(**(given | changes))
    spent, budget = policy.contexts.epsilon, policy.calibration.budget
    left = LARGEST_EPSILON - spent
    kept = budget.publish_epsilon * _CRUMB * left / (policy.privacy.epsilon - spent)
    each = (left - kept) * _CRUMB / budget.answers if budget.answers else None
    given["tuning"] = replace(policy.tuning, publish_epsilon=kept, answer_epsilon=each)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NothingToLearn)
        return OpenExploreThenCommit(**(given | changes))
