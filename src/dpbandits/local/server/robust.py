"""`Robust`: what a server does where some of its reports may be forged.

Local privacy cannot tell a forged report from an honest one whose noise fell so, and nobody can who sees one
report (Cheu, Smith, Ullman, *Manipulation attacks in local differential privacy*, 2021). What a server can do
is to bound what forgers achieve together:

- **groups**: a secret of the server puts every report into one of a few groups, and an estimate is the median
  over groups. Whoever forges cannot choose a group: it is a keyed hash of all bytes of the report. So forgers
  who reach fewer than half of the groups of a version move its estimates no farther than honest noise does.
  The same secret groups equally everywhere: counts of shards and files add up to those of one process.
- **surprise**: a version whose sums lie more than so many deviations from what its learner believes has their
  variance raised until they lie there. A flood moves what is believed by so many of its deviations at most.

Neither changes what devices do or what is promised to them, and neither is in the spec or in what is
published. The secret is no part of anybody's privacy; who knows it can choose groups.
"""

import hashlib
import json
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dpbandits import _checks
from dpbandits._calls import worded
from dpbandits._reading import json_object, reading
from dpbandits.errors import CorruptState, InvalidParameter
from dpbandits.local.contract.reports import Records
from dpbandits.local.learners.base import PosteriorLearner
from dpbandits.local.learners.columns import ColumnLearner
from dpbandits.local.learners.questions import QuestionLearner

__all__ = ["Robust"]

SURPRISE = 2.5
"""Deviations: honest sums lie farther in one version of eighty."""

MOST_GROUPS = 15

_LEAST, _MOST = 16, hashlib.blake2b.MAX_KEY_SIZE


@worded
class Robust:
    """Bounds on what forged reports do to what a server learns; the secret is never printed.

    Args:
        secret: from 16 to 64 random bytes, such as `secrets.token_bytes(32)`, known to the server and to
            whoever counts for it.
        groups: odd; 1 for no median.
        surprise: in deviations.

    Raises:
        InvalidParameter: anything else.

    Example:
        >>> import dpbandits as dpb
        >>> spec = dpb.local.Spec(
        ...     contexts=dpb.Box([0], [1]), arms=range(2), privacy=dpb.LocalDP(epsilon=1))
        >>> server = dpb.local.Server(spec, robust=Robust(bytes(32), groups=3))
        >>> client = dpb.local.Client(spec)
        >>> arm = client.choose(server.publish(), [0.3])
        >>> server.absorb([client.report(1.0)]).accepted
        1
    """

    def __init__(self, secret: bytes, *, groups: int = 1, surprise: float = SURPRISE) -> None:
        given: object = secret
        if not isinstance(given, bytes) or not _LEAST <= len(given) <= _MOST:
            raise InvalidParameter(f"secret: expected {_LEAST} to {_MOST} random bytes")
        self._secret = given
        self.groups = _checks.integer(groups, name="groups", minimum=1)
        if self.groups > MOST_GROUPS or self.groups % 2 == 0:
            raise InvalidParameter(f"groups: expected an odd number up to {MOST_GROUPS}")
        self.surprise = _checks.number(surprise, name="surprise")

    def group_of(self, records: Records) -> NDArray[np.intp]:
        """(n,) groups of n reports of one length, without tags."""
        if self.groups == 1:
            return np.zeros(len(records), dtype=np.intp)
        begun = hashlib.blake2b(key=self._secret, digest_size=8)

        def keyed(record: Any) -> int:
            one = begun.copy()
            one.update(record.tobytes())
            return int.from_bytes(one.digest(), "little") % self.groups

        return np.fromiter(map(keyed, records), dtype=np.intp, count=len(records))

    def harden(self, learner: Any) -> None:
        """Have a learner expect forged reports, where it has beliefs that can be surprised."""
        if isinstance(learner, PosteriorLearner | QuestionLearner | ColumnLearner):
            learner.resist(self.surprise)

    @property
    def mark(self) -> str:
        """Equal for equal bounds only, and says nothing of the secret: 32 hexadecimal digits."""
        said = f"{self.groups}|{self.surprise!r}".encode()
        return hashlib.blake2b(said, key=self._secret, digest_size=16).hexdigest()

    @property
    def grouping(self) -> str | None:
        """The mark, where counts depend on it."""
        return None if self.groups == 1 else self.mark

    def to_json(self) -> bytes:
        """With the secret: for a file of the server's own."""
        numbers = {"groups": self.groups, "surprise": self.surprise}
        return json.dumps({"secret": self._secret.hex()} | numbers).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Self:
        """What `to_json` gave; CorruptState for anything else."""
        what = "a server's bounds on forged reports"
        with reading(what, CorruptState):
            fields = json_object(text.decode(), what, CorruptState)
            return cls(bytes.fromhex(fields.pop("secret")), **fields)

    def __repr__(self) -> str:
        return f"Robust(groups={self.groups}, surprise={self.surprise:g})"
