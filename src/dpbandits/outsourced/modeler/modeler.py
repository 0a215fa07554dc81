"""The modeler: an untrusted party that optimises over published rows by asking for their answers.

It uses GP-UCB over rows. The next row maximises

    mean + sqrt(weight * signal variance),

under the posterior of `dpbandits.outsourced.modeler.posterior`, whose kernel includes the noise of the rows.
The signal variance is the variance of the part of a row's value that is correlated with other rows. The rest
of the variance, the nugget, is no reason to explore, because only that row's own answer depends on it. No
row is asked for twice.

With a known kernel the weight is `exploration`. With a fitted kernel it is

    exploration * share^2,    share = signal variance / (signal variance + nugget + fitted noise variance),

as only this share of the uncertainty about a row's answer is informative about other rows. On a smooth
function with exact positions the share is near 1. If positions explain a tenth of the answers, it is a
tenth. One row then reveals little, and the rows with the best means are asked for.

The modeler computes with the release and the answers only, so it is post-processing of both and does not
change the curator's guarantee. Choices are a function of (rows, configuration, answers in order).
`Modeler.replay` rebuilds them from these, bit for bit on one machine. Other linear algebra libraries may
round differently, which matters only for near ties between rows. Scores are compared in units of the prior
standard deviation (see `ties.TIE`).

`exploration` was tuned on the seeds below 1,000,000 of the synthetic study. The share's form was chosen on
the tuning tables and worlds of `reproduction/studies/outsourced_worlds.py` and on these seeds.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any, ClassVar, Literal

import numpy as np

from dpbandits import _checks
from dpbandits._calls import worded
from dpbandits._config import Configured, Parser
from dpbandits._reading import reading
from dpbandits._seen import Seen, said
from dpbandits._threads import one_thread
from dpbandits._typing import FloatArray, Seed
from dpbandits.errors import AlreadyTold, HorizonExceeded, InvalidData, InvalidParameter, UnknownDecision
from dpbandits.models import kernels
from dpbandits.models.kernels.base import Kernel
from dpbandits.models.ties import first_best
from dpbandits.outsourced.modeler import fitting
from dpbandits.outsourced.modeler.posterior import PosteriorKind, RowPosterior
from dpbandits.outsourced.publish import PublishedRows
from dpbandits.policy.coins import PublicCoins, best_row

__all__ = ["DEFAULT_EXPLORATION", "Modeler"]

DEFAULT_EXPLORATION = 12.0
"""Default of `exploration`, the weight of the variance; see the module."""
_FIRST_ROWS = 5
"""Number of rows chosen at random before hyperparameters are fitted for the first time."""
_REFIT_GROWTH = 1.3
"""Factor by which the number of answers grows until hyperparameters are fitted again."""
_LARGEST_ANSWER = 1e100
"""Largest absolute value of an answer; sums of squares of larger ones could overflow."""
_KNOWN_NOISE = 1e-3
"""Noise assumed for exact answers, as a share of the kernel's standard deviation, for numerical stability."""


@worded
class Modeler(Seen, Configured):
    """Optimiser over published rows, by ask and tell.

    Args:
        published: The rows; `PublishedRows.load` reads a directory.
        kernel: Covariance of the objective in public coordinates (see `PublishedRows.transform`). None fits
            a squared-exponential kernel to the answers by marginal likelihood.
        horizon: Largest number of rows to ask for.
        maximise: False to search for the smallest answer.
        mean: Prior mean, for a known kernel.
        noise_sd: Standard deviation of an answer around the objective at the row's true position, for a
            known kernel. It excludes the noise that the curator adds to answers; the release describes that
            noise.
        posterior: Treatment of a row's unknown position: "flat", "box" or "plugin", as described in
            `dpbandits.outsourced.modeler.posterior`. "auto" chooses flat or box from public numbers.
        exploration: Weight of the variance; see the module's docstring.
        per_column: With kernel=None, True for one lengthscale per column (the default), False for one
            lengthscale for all columns.
        seed: Public seed of the first rows and of ties.

    Raises:
        InvalidParameter: the horizon exceeds the number of rows or the release's cap, the posterior does not
            support the kernel, or `mean`, `noise_sd` or `per_column` do not fit the kernel argument.

    Example:
        >>> from dpbandits.outsourced.publish import PublishedRows
        >>> from dpbandits.models.kernels import SquaredExponential
        >>> rows = PublishedRows.public(np.linspace(-9.0, 9.0, 19)[:, None], half_width=9.0)
        >>> modeler = Modeler(rows, kernel=SquaredExponential(lengthscale=3.0), horizon=6)
        >>> for _ in range(6):
        ...     row = modeler.ask()
        ...     modeler.tell(row, -abs(float(rows.inputs[row, 0]) - 4.0) / 5)
        >>> float(rows.inputs[modeler.recommend(), 0])
        4.0
    """

    config_type = "outsourced.Modeler"
    config_parsers: ClassVar[Mapping[str, Parser]] = {"kernel": kernels.from_config}
    config_omits = frozenset({"published"})

    def __init__(
        self,
        published: PublishedRows,
        *,
        kernel: Kernel | None = None,
        horizon: int = 50,
        maximise: bool = True,
        mean: float = 0.0,
        noise_sd: float | None = None,
        posterior: PosteriorKind | Literal["auto"] = "auto",
        exploration: float = DEFAULT_EXPLORATION,
        per_column: bool | None = None,
        seed: Seed = 0,
    ) -> None:
        _checks.an(published, PublishedRows, name="published", pass_="PublishedRows.load(directory)")
        _checks.an(kernel, Kernel, name="kernel", pass_="SquaredExponential(lengthscale=8)", optional=True)
        _checks.an(maximise, bool, name="maximise", pass_="maximise=False to look for the smallest answer")
        _checks.an(per_column, bool, name="per_column", pass_="per_column=False", optional=True)
        n, cap = published.n, published.cap
        if _checks.integer(horizon, name="horizon") > n:
            raise InvalidParameter(
                f"horizon is {horizon}, expected an integer from 1 to the {n} rows of the release"
            )
        if cap is not None and horizon > cap:
            raise InvalidParameter(f"horizon is {horizon}, expected at most {cap}, the curator's cap")
        self.exploration = _checks.number(exploration, name="exploration", exclusive=False)
        self.mean = _checks.number(mean, name="mean", minimum=-1e100)
        if noise_sd is not None:
            _checks.number(noise_sd, name="noise_sd", exclusive=False)
        _checks.one_of(posterior, ("auto", "flat", "box", "plugin"), name="posterior")
        self.seed = _checks.integer(seed, name="seed", minimum=0)
        if kernel is None and (mean != 0.0 or noise_sd is not None):
            raise InvalidParameter(
                "mean, noise_sd: these belong to a known kernel: pass it too, or leave both out"
            )
        if kernel is not None and per_column:
            raise InvalidParameter("per_column: pass either this, to fit lengthscales, or a known kernel")
        self.published, self.kernel, self.horizon = published, kernel, horizon
        self.maximise, self.per_column = maximise, per_column
        self.noise_sd, self.posterior = noise_sd, posterior
        self._coins = PublicCoins(seed)
        self._sign = 1.0 if maximise else -1.0
        self._asked: list[int] = []
        self._answers: dict[int, float] = {}
        self._taken = np.zeros(n, dtype=np.bool_)
        self._fitted_at = 0
        self._hyperparameters: fitting.Hyperparameters | None = None
        self._posterior: RowPosterior | None = None
        if kernel is not None:
            scatter = max(noise_sd or 0.0, _KNOWN_NOISE * math.sqrt(kernel.max_variance))
            self._start(kernel, self._sign * self.mean, math.hypot(scatter, published.answer_noise_sd))

    # -- ask and tell ------------------------------------------------------------------------------

    @worded
    def ask(self) -> int:
        """Return the next row to ask for; answers of earlier rows may still be pending.

        Raises:
            HorizonExceeded: `horizon` rows were asked for.
        """
        return self.ask_batch(1)[0]

    def ask_batch(self, size: int) -> list[int]:
        """Return `size` different rows, each chosen as if all pending answers were equal to their means."""
        size = _checks.integer(size, name="size")
        if len(self._asked) + size > self.horizon:
            raise HorizonExceeded(
                f"{len(self._asked)} of {self.horizon} rows were asked for, {size} more exceed the horizon"
            )
        with one_thread():
            self._refit()
            posterior, unseen = self._posterior, self.pending
            # Treat pending answers as equal to their means.
            with nullcontext() if posterior is None or size == 1 > len(unseen) else posterior.imagining():
                for _ in range(size):
                    if posterior is not None and unseen:
                        posterior.imagine(unseen)
                    row = self._next(posterior, len(self._asked))
                    self._asked.append(row)
                    self._taken[row] = True
                    unseen = [row]
        return self._asked[-size:]

    @worded
    def tell(self, row: int, answer: float) -> None:
        """Add the curator's answer of a row; the order of rows is free.

        Raises:
            UnknownDecision: the row was not asked for.
            AlreadyTold: the row's answer was told before.
            InvalidData: the answer is not a finite number.
        """
        self.tell_batch([row], [answer])

    def tell_batch(self, rows: Sequence[int], answers: Sequence[float]) -> None:
        """Add answers (k,) of rows (k,); all answers are checked before any is used."""
        with reading("rows and their answers, one each", InvalidData):
            pairs = list(zip(rows, answers, strict=True))
        told: dict[int, float] = {}
        for row, answer in pairs:
            number = self.published.number(row)
            if number in told:
                raise AlreadyTold("this batch holds a row twice: expected one answer for each row")
            if not self._taken[number]:
                raise UnknownDecision("row: it was not asked for; tell answers of asked rows only")
            if number in self._answers:
                raise AlreadyTold("row: its answer was told before")
            try:
                value = float(answer)
            except (TypeError, ValueError, OverflowError):
                raise InvalidData(f"an answer is a {type(answer).__name__}, expected a number") from None
            if not abs(value) <= _LARGEST_ANSWER:  # also NaN
                raise InvalidData(
                    f"an answer is NaN, infinite or beyond {_LARGEST_ANSWER:g}: ask again, or in another unit"
                )
            told[number] = value
        self._answers |= told
        if self._posterior is not None:
            for number, value in told.items():
                self._posterior.add(number, self._sign * value)

    # -- results -----------------------------------------------------------------------------------

    @property
    def pending(self) -> list[int]:
        """Rows that were asked for and whose answers were not told, in the order of asking."""
        if len(self._answers) == len(self._asked):  # always the case if one row is asked for at a time
            return []
        return [row for row in self._asked if row not in self._answers]

    @property
    def answered(self) -> list[tuple[int, float]]:
        """Pairs (row, answer) in the order in which answers were told."""
        return list(self._answers.items())

    def recommend(self) -> int:
        """Return the best answered row.

        If answers are exact it is the row with the best answer. If the curator adds noise to them it is the
        row with the best posterior mean, since the largest of many noisy answers is mostly chance.

        Raises:
            UnknownDecision: no row was answered.
        """
        if not self._answers:
            raise UnknownDecision("no row was answered: tell an answer first")
        if self.published.answer_noise_sd > 0.0:
            self._refit()
        if self.published.answer_noise_sd > 0.0 and self._posterior is not None:
            rows, posterior = list(self._answers), self._posterior
            return rows[int(first_best(posterior.centred_mean[rows], unit=posterior.scale))]
        return max(self._answers, key=lambda row: self._sign * self._answers[row])

    def predict(self) -> tuple[FloatArray, FloatArray]:
        """Return posterior mean and standard deviation (n,) of each row's value, in the answers' unit.

        Raises:
            UnknownDecision: hyperparameters are not fitted yet, as there are too few answers.
        """
        self._refit()
        if self._posterior is None:
            raise UnknownDecision("no model yet: tell more answers, or pass a kernel")
        return self._sign * self._posterior.mean, np.sqrt(self._posterior.variance)

    def diagnostics(self) -> dict[str, Any]:
        """Return the current model, which depends on public numbers and answers."""
        fitted = self._hyperparameters
        kernel = self.kernel if fitted is None else fitted.kernel
        return {
            "posterior": None if self._posterior is None else self._posterior.kind,
            "kernel": None if kernel is None else kernel.to_config(),
            "mean": self.mean if fitted is None else self._sign * fitted.mean,
            "noise_sd": None if fitted is None else fitted.noise_sd,
            "asked": len(self._asked),
            "answered": len(self._answers),
        }

    # -- rebuilding --------------------------------------------------------------------------------

    def to_config(self) -> dict[str, Any]:
        """Return the configuration for JSON; together with rows and answers it determines every choice."""
        return super().to_config() | {"release": self.published.release_id}

    @classmethod
    def from_config(  # type: ignore[override]  # rows are no configuration
        cls, config: Mapping[str, Any], published: PublishedRows
    ) -> "Modeler":
        """Return a fresh modeler with this configuration.

        Raises:
            InvalidParameter: the configuration is not a modeler's, or was made for another release.
        """
        with reading("the configuration of an outsourced.Modeler"):
            fields = dict(config)
            if fields.pop("release", None) != published.release_id:
                raise InvalidParameter("this configuration was made for another release")
            return cls(published, **cls.arguments(fields))

    @classmethod
    def replay(
        cls, config: Mapping[str, Any], published: PublishedRows, answers: Sequence[tuple[int, float]]
    ) -> "Modeler":
        """Rebuild a modeler from its answers, and check each of its choices.

        The modeler must have asked for one row at a time.

        Raises:
            InvalidData: a row in `answers` is not the row that the modeler would have asked for.
        """
        modeler = cls.from_config(config, published)
        for position, (row, answer) in enumerate(answers):
            if modeler.ask() != row:
                raise InvalidData(
                    f"answer {position} of the log is for another row than this configuration asks for"
                )
            modeler.tell(row, answer)
        return modeler

    def __repr__(self) -> str:
        promised = self.published.guarantee
        promise = {"epsilon": promised.epsilon, "delta": promised.delta}
        return said(self, **promise, rows=self.published.n, horizon=self.horizon, asked=len(self._asked))

    # -- inside ------------------------------------------------------------------------------------

    def _start(self, kernel: Kernel, mean: float, noise_sd: float) -> None:
        self._posterior = RowPosterior(
            self.published,
            kernel=kernel,
            noise_sd=noise_sd,
            mean=mean,
            kind=self.posterior,
            capacity=self.horizon,
            weights=None if self._posterior is None else self._posterior.weights,
        )
        for row, answer in self._answers.items():
            self._posterior.add(row, self._sign * answer)

    def _refit(self) -> None:
        """Fit hyperparameters if there are enough new answers; the result depends on the answers alone."""
        t = len(self._answers)
        if self.kernel is not None or t < min(_FIRST_ROWS, self.horizon) or t < 2:
            return
        if self._fitted_at and t < _REFIT_GROWTH * self._fitted_at:
            return
        fitted = fitting.fit(
            self.published.inputs[list(self._answers)],
            self._sign * np.array(list(self._answers.values())),
            law=self.published.law,
            half_width=self.published.half_width,
            known_noise_sd=self.published.answer_noise_sd,
            per_column=self.per_column is not False,
        )
        self._hyperparameters, self._fitted_at = fitted, t
        least = _KNOWN_NOISE * math.sqrt(fitted.kernel.max_variance)
        self._start(fitted.kernel, fitted.mean, max(fitted.noise_sd, least))

    def _weights(self, posterior: RowPosterior, signal: FloatArray) -> FloatArray | float:
        """Return the weight of the variance, one number for all rows or an array (n,); see the module."""
        if self._hyperparameters is None:
            return self.exploration
        share: FloatArray = signal / (signal + posterior.nugget + posterior.noise_sd**2)
        return self.exploration * share**2

    def _next(self, posterior: RowPosterior | None, position: int) -> int:
        if posterior is None or posterior.is_empty:  # without answers every row is equally good
            score = np.zeros(self.published.n)
        else:
            score = posterior.signal_variance
            score *= self._weights(posterior, score)
            np.sqrt(score, out=score)
            score += posterior.centred_mean
            score /= posterior.scale  # makes ties independent of the answers' unit
        score[self._taken] = -np.inf
        return best_row(
            score, lambda: self._coins.uniform("outsourced-tie", position, position + 1, 1).item()
        )
