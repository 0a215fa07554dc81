"""`Robust`: bounds on the effect of forged reports on a server's estimates.

Under local privacy, a single forged report cannot be told from an honest one whose noise happened to be the
same (Cheu, Smith, Ullman, *Manipulation attacks in local differential privacy*, 2021). A server can bound the
combined effect of all forged reports:

- **groups**: a secret of the server assigns every report to one of a few groups, and an estimate is the
  median over groups. The group is a keyed hash of all bytes of the report, so an attacker cannot choose it.
  Attackers who reach fewer than half of a version's groups move its estimates no farther than honest noise
  does. The same secret gives the same groups everywhere: counts of shards and files add up to those of one
  process.
- **surprise**: if a version's sums deviate from the learner's prediction by more than `surprise` standard
  deviations, their variance is raised until they do not. A flood of reports then moves an estimate by at most
  that many standard deviations.

Neither changes clients or their guarantee, and neither is part of the spec or of published versions. The
secret does not affect privacy. An attacker who knows it can choose groups.
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
"""Default bound on a version's deviation, in standard deviations.

Honest sums exceed it in one version of eighty.
"""

MOST_GROUPS = 15

_LEAST, _MOST = 16, hashlib.blake2b.MAX_KEY_SIZE


@worded
class Robust:
    """Bounds on the effect of forged reports; the secret is never printed.

    Args:
        secret: 16 to 64 random bytes, such as `secrets.token_bytes(32)`, known to the server and to processes
            that count for it.
        groups: Number of groups, odd; 1 for no median.
        surprise: Largest deviation from the prediction, in standard deviations.

    Raises:
        InvalidParameter: an argument is out of range or of another kind.

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
        """Return the group of each of n reports of one length, without tags, shape (n,)."""
        if self.groups == 1:
            return np.zeros(len(records), dtype=np.intp)
        begun = hashlib.blake2b(key=self._secret, digest_size=8)

        def keyed(record: Any) -> int:
            one = begun.copy()
            one.update(record.tobytes())
            return int.from_bytes(one.digest(), "little") % self.groups

        return np.fromiter(map(keyed, records), dtype=np.intp, count=len(records))

    def harden(self, learner: Any) -> None:
        """Enable the bound `surprise` in a learner that makes predictions."""
        if isinstance(learner, PosteriorLearner | QuestionLearner | ColumnLearner):
            learner.resist(self.surprise)

    @property
    def mark(self) -> str:
        """Digest of 32 hexadecimal digits, equal only for equal bounds. It hides the secret."""
        said = f"{self.groups}|{self.surprise!r}".encode()
        return hashlib.blake2b(said, key=self._secret, digest_size=16).hexdigest()

    @property
    def grouping(self) -> str | None:
        """Digest `mark` if there are several groups, so that counts depend on the secret; else None."""
        return None if self.groups == 1 else self.mark

    def to_json(self) -> bytes:
        """Return JSON that contains the secret, for the server's own file."""
        numbers = {"groups": self.groups, "surprise": self.surprise}
        return json.dumps({"secret": self._secret.hex()} | numbers).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Self:
        """Rebuild bounds from the text of `to_json`. Raise CorruptState for any other text."""
        what = "a server's bounds on forged reports"
        with reading(what, CorruptState):
            fields = json_object(text.decode(), what, CorruptState)
            return cls(bytes.fromhex(fields.pop("secret")), **fields)

    def __repr__(self) -> str:
        return f"Robust(groups={self.groups}, surprise={self.surprise:g})"
