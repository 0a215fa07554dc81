"""Outsourced optimisation: publish a table's noisy rows once, and let an untrusted party optimise over them.

The curator owns a table with one or more rows per person, and wants to find the row with the best answer,
which is costly to evaluate. The modeler searches for it and must not learn the rows' true positions (their
values in the published columns). The curator publishes noisy positions once, and the modeler asks for the
answers of rows.

- `Curator(table, contexts=, privacy=RowDP(...), objective=)`: `publish()` and `answer(row)`.
  `SecretDirectory` stores the curator's secret state, `CuratorTuning` chooses the noise on rows, and
  `AnswerLaplace` adds noise to answers.
- `PublishedRows`: the release, in memory and as a directory of two files (`save`, `load`).
- `Modeler(published, kernel=, horizon=)`: `ask`, `tell`, `ask_batch`, `recommend`, `replay`.
- `Command`: an objective that is a program. `serve` (with `request_lines`) and `PipeAnswers` are the two
  ends of a pipe of row numbers and answers.
- `PublicScaling`: the public coordinates in which distances are measured.

`outsourced.published.kharkovskii2020` is a published transformation that is not private.
"""

from typing import TYPE_CHECKING

from dpbandits._lazy import lazy

if TYPE_CHECKING:
    from dpbandits.outsourced.curator.curator import Curator, CuratorTuning
    from dpbandits.outsourced.curator.directory import SecretDirectory
    from dpbandits.outsourced.curator.objective import Command
    from dpbandits.outsourced.modeler.modeler import Modeler
    from dpbandits.outsourced.pipe import PipeAnswers, request_lines, serve
    from dpbandits.outsourced.publish import PublishedRows
    from dpbandits.outsourced.scaling import PublicScaling
    from dpbandits.privacy.rows import AnswerLaplace

__all__ = [
    "AnswerLaplace",
    "Command",
    "Curator",
    "CuratorTuning",
    "Modeler",
    "PipeAnswers",
    "PublicScaling",
    "PublishedRows",
    "SecretDirectory",
    "request_lines",
    "serve",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "dpbandits.outsourced.curator.curator": ("Curator", "CuratorTuning"),
        "dpbandits.outsourced.curator.directory": ("SecretDirectory",),
        "dpbandits.outsourced.curator.objective": ("Command",),
        "dpbandits.outsourced.modeler.modeler": ("Modeler",),
        "dpbandits.outsourced.pipe": ("PipeAnswers", "request_lines", "serve"),
        "dpbandits.outsourced.publish": ("PublishedRows",),
        "dpbandits.outsourced.scaling": ("PublicScaling",),
        "dpbandits.privacy.rows": ("AnswerLaplace",),
    },
)
