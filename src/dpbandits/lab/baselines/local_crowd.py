"""`LocalCrowd`: a local policy behind the calls of a central one, with clients and server in one process.

The server publishes versions of its policy. The users of a version choose by the published version and send
reports. The server's learning rule gets the sum of these reports, which is sampled directly from its
distribution, as in `lab.evaluation.crowds`. A user who has no reward when the version ends, or who got
another arm than the published one, sends a report without data.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from dpbandits import _checks
from dpbandits._typing import BoolArray, FloatArray, IntArray, Seed
from dpbandits.errors import CorruptState, InvalidParameter
from dpbandits.lab.baselines.base import defaults
from dpbandits.lab.evaluation.crowds import answers, signs_by_cell
from dpbandits.local import PublishedArms, Spec
from dpbandits.local.contract.statement import weakest
from dpbandits.local.learners.base import Learner
from dpbandits.local.learners.table import learner_for
from dpbandits.policy import RoundPolicy, best_choice
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.tables import Actions, Schema

__all__ = ["LocalCrowd"]

_NO_DEVICE = (
    "No device made these reports: whoever runs this sees every context and every reward. What stands above "
    "is what each report would promise that a device made."
)


class LocalCrowd(RoundPolicy):
    """A simulation of a `Spec` with `contexts` and `arms` or `actions`, with the calls of any policy.

    With actions, decisions are labels of actions, and you tell outcomes.

    A version ends at the first ask after `reports_per_version` of its rounds.

    Args:
        spec: Spec with arms that the server assigns, and a single epsilon.
        horizon: Largest number of rounds; None for no bound.
        seed: Seed of the public randomness and of the simulated clients.

    Privacy: None, as one process sees all data and the noise is simulated. `guarantee` is that of a report
    from a real client, with status `simulated`.

    Raises:
        InvalidParameter: The spec is of another kind.

    Example:
        >>> import dpbandits as dpb
        >>> crowd = LocalCrowd(spec=dpb.local.Spec(
        ...     contexts=dpb.Schema(age=dpb.Range(18, 90)), arms=["mail", "call"],
        ...     privacy=dpb.LocalDP(epsilon=1)))
        >>> decision = crowd.ask({"age": 44})
        >>> crowd.tell(decision.id, True).value
        'counted'
        >>> crowd.guarantee.status
        'simulated'
    """

    kind = "baselines.LocalCrowd"
    config_parsers: ClassVar[Mapping[str, Any]] = {**RoundPolicy.config_parsers, "spec": Spec.from_config}

    def __init__(self, *, spec: Spec, horizon: int | None = None, seed: Seed = 0) -> None:
        self.spec = _checks.an(spec, Spec, name="spec", pass_="spec=Spec(contexts=..., arms=[...])")
        if not isinstance(spec.contexts, Schema) or spec.chooser != "server" or spec.epsilons:
            raise InvalidParameter('spec: expected contexts=Schema(...), chooser="server" and one epsilon')
        super().__init__(
            **defaults(
                contexts=spec.contexts,
                arms=spec.arms,
                reward_range=spec.reward_range,
                horizon=horizon,
                seed=seed,
            ),
            privacy=None,
        )
        self._begin(learner_for(spec), 0, 0)

    def _begin(self, rule: "Learner[PublishedArms]", version: int, start: int) -> None:
        self._rule, self._version, self._start = rule, version, start
        self._published: PublishedArms = rule.publish(self.spec, version, self._coins)

    @property
    def actions(self) -> Actions | None:
        """Grid of actions of the spec; None for plain arms."""
        return self.spec.actions

    @property
    def guarantee(self) -> Guarantee:
        """Guarantee of a report from a real client, with status `simulated`."""
        found = weakest(self.spec, None, (), status="simulated")
        return replace(found, notes=(*found.notes, _NO_DEVICE))

    @property
    def batch_boundaries(self) -> tuple[int, ...] | None:
        """Rounds at which versions end if every batch has one round; None without a horizon."""
        return None if self.horizon is None else tuple(range(self._size, self.horizon, self._size))

    @property
    def _size(self) -> int:
        return self.spec.protocol.reports_per_version

    def _leaves(self, points: FloatArray) -> IntArray:
        menu = self.spec.protocol.menu
        if menu is None:  # the constructor refuses this; the test is for type checkers
            return np.zeros(len(points), dtype=np.int64)
        return self.spec.protocol.layout.locate(self._published, menu.in_cube(points))

    def _choose(
        self, candidates: FloatArray, available: BoolArray | None, start: int
    ) -> tuple[IntArray, FloatArray | None]:
        arms = np.asarray(self._published.arms)[self._leaves(candidates[:, 0, :-1])]
        scores = (candidates[:, :, -1] == arms[:, None]).astype(np.float64)
        ties = self._coins.uniform("ties", start, start + len(candidates), 1)[:, 0]
        return best_choice(scores, ties, available), None

    @property
    def _rounds_out(self) -> int:
        return self._start

    def _is_due(self) -> bool:
        return self._book.asked - self._start >= self._size

    def _release(self) -> None:
        spec, rule, stop = self.spec, self._rule, self._book.asked
        points, rewards, told, refused = self._book.block(self._start, stop)
        (mechanism,) = spec.protocol.counted_by(self._published)
        places = self._leaves(points[:, :-1])
        nobody = ~told | refused | (points[:, -1] != np.asarray(self._published.arms)[places])
        devices = np.random.default_rng([self.seed, 3, self._version])
        share = np.where(nobody, 0.5, (rewards - self.reward_range.low) / self.reward_range.width)
        positive = devices.random(len(places)) < share
        cells, asked = answers(self._published, places, positive)
        positive = np.where(nobody, positive, asked)
        cells = np.where(nobody, devices.integers(mechanism.n_cells, size=len(places)), cells)
        sums = mechanism.simulate(*signs_by_cell(cells, positive, mechanism.n_cells), devices)
        rule.count(spec, self._published, [[(mechanism, sums, len(places))]])
        rule.refine()
        self._begin(rule, self._version + 1, stop)

    def _predict(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation of the reward in each point's bin."""
        law = self._rule.estimate(self.spec, self._published)
        at = self._leaves(points[:, :-1]), points[:, -1].astype(np.int64)
        return np.asarray(law.mean)[at], np.asarray(law.sd)[at]

    def publish(self) -> PublishedArms:
        """Return the version of the policy that the server published last."""
        return self._published

    def _own_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        rule = {f"rule_{name}": array for name, array in self._rule.to_arrays().items()}
        return {**rule, "version": np.array([self._version, self._start])}

    def _restore_own(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        version, start = (int(number) for number in arrays["version"])
        if version < 0 or start < 0:
            raise CorruptState("the saved version contradicts the saved configuration")
        rule: Learner[PublishedArms] = learner_for(self.spec)
        own = (name for name in arrays if name.startswith("rule_"))
        rule.restore({name.removeprefix("rule_"): arrays[name] for name in own})
        self._begin(rule, version, start)
