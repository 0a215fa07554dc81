"""Diagrams of the documentation as SVG: who sees what in each trust model, and the steps of a decision.

Lines and text take the colour of the page, so a diagram is readable on light, dark and grey pages. A diagram
is a column of boxes with arrows between them, narrow enough for a phone.
"""

from dataclasses import dataclass
from html import escape

from IPython.display import HTML

__all__ = ["Arrow", "Box", "column", "life_of_a_decision", "who_sees_what"]

_WIDTH, _LINE, _PAD, _GAP = 340, 17, 9, 46
_HEAD = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    'orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="currentColor"/></marker></defs>'
)


@dataclass(frozen=True)
class Box:
    """A party or a step.

    Args:
        title: first line, in bold.
        lines: further lines.
        raw: True if it sees raw data; such a box is shaded.
    """

    title: str
    lines: tuple[str, ...] = ()
    raw: bool = False

    @property
    def height(self) -> int:
        """Height in units of the drawing."""
        return _LINE * (1 + len(self.lines)) + 2 * _PAD


@dataclass(frozen=True)
class Arrow:
    """Data that passes from one box to the next.

    Args:
        text: the data.
        covered: True if the guarantee covers the data; such an arrow is dashed.
        up: True if the arrow points to the box above.
    """

    text: str
    covered: bool = False
    up: bool = False


def column(parts: tuple[Box | tuple[Arrow, ...], ...], alt: str) -> HTML:
    """A diagram of boxes with arrows between them.

    Args:
        parts: a box, arrows, a box, and so on, from top to bottom.
        alt: description for readers who do not see it.
    """
    at, drawn = 2, [_HEAD]
    for part in parts:
        if isinstance(part, Box):
            drawn.append(_box(part, at))
            at += part.height
        else:
            for number, arrow in enumerate(part):
                drawn.append(_arrow(arrow, at, 30 + 320 // max(2, len(part)) * number))
            at += _GAP
    body = "".join(drawn)
    return HTML(
        f'<svg class="diagram" role="img" aria-label="{escape(alt)}" viewBox="0 0 {_WIDTH} {at + 2}" '
        f'width="{_WIDTH}" font-size="13" fill="currentColor" xmlns="http://www.w3.org/2000/svg">{body}</svg>'
    )


def _box(box: Box, at: int) -> str:
    shade = 0.13 if box.raw else 0.0
    rows = [f'<tspan x="12" dy="{_LINE}" font-weight="bold">{escape(box.title)}</tspan>']
    rows += [f'<tspan x="12" dy="{_LINE}">{escape(line)}</tspan>' for line in box.lines]
    return (
        f'<rect x="1" y="{at}" width="{_WIDTH - 2}" height="{box.height}" rx="6" '
        f'fill="currentColor" fill-opacity="{shade}" stroke="currentColor"/>'
        f'<text x="12" y="{at + _PAD - 4}">{"".join(rows)}</text>'
    )


def _arrow(arrow: Arrow, at: int, x: int) -> str:
    top, bottom = at + 3, at + _GAP - 3
    ends = (bottom, top) if arrow.up else (top, bottom)
    dash = ' stroke-dasharray="5 4"' if arrow.covered else ""
    return (
        f'<line x1="{x}" y1="{ends[0]}" x2="{x}" y2="{ends[1]}" stroke="currentColor" '
        f'stroke-width="1.5"{dash} marker-end="url(#tip)"/>'
        f'<text x="{x + 10}" y="{at + _GAP // 2 + 4}">{escape(arrow.text)}</text>'
    )


def who_sees_what(model: str) -> HTML:
    """Who sees what in a trust model: `central`, `local` or `outsourced`."""
    return column(*_MODELS[model])


def life_of_a_decision() -> HTML:
    """The steps of one decision of a central policy, from the ask to the publication."""
    return column(_LIFE, "Steps of a decision: ask, action, reward, release, publication.")


_MODELS: dict[str, tuple[tuple[Box | tuple[Arrow, ...], ...], str]] = {
    "central": (
        (
            Box("User", ("context, reward",), raw=True),
            (Arrow("context, reward"), Arrow("own action", up=True)),
            Box("Server", ("holds raw data; sums it by block;", "adds noise once per block"), raw=True),
            (Arrow("releases", covered=True), Arrow("their own actions", covered=True)),
            Box("Everybody else", ("readers of what is published,", "all other users")),
        ),
        "A user sends context and reward to the server and gets an action. Noise is added at the server. "
        "Everybody else sees releases and their own actions, which the guarantee covers.",
    ),
    "local": (
        (
            Box("User's device", ("context, reward, action;", "adds noise to each report"), raw=True),
            (Arrow("one noisy report", covered=True), Arrow("published version", up=True)),
            Box("Server", ("counts reports",)),
            (Arrow("published policy", covered=True),),
            Box("Everybody else"),
        ),
        "The device sends one noisy report to the server and reads what the server publishes. The guarantee "
        "covers the report, so also everything that the server publishes.",
    ),
    "outsourced": (
        (
            Box(
                "Curator",
                (
                    "owns the table; adds noise to the rows once;",
                    "evaluates the rows that are asked for",
                ),
                raw=True,
            ),
            (Arrow("noisy rows", covered=True), Arrow("outcomes"), Arrow("rows to try", up=True)),
            Box("Modeler", ("runs the optimisation",)),
        ),
        "The curator releases noisy rows to the modeler. The modeler asks for outcomes of rows by number. "
        "Outcomes are covered by the guarantee only if they are noised too.",
    ),
}

_LIFE: tuple[Box | tuple[Arrow, ...], ...] = (
    Box("1. Ask", ("a context and a user id arrive",), raw=True),
    (Arrow("the user's rounds are counted"),),
    Box(
        "2. Action",
        ("drawn from the last release and a public coin;", "stored before it is answered"),
        raw=True,
    ),
    (Arrow("the decision is pending"),),
    Box("3. Reward", ("told, abandoned, or missing at the deadline", "(then the public default)"), raw=True),
    (Arrow("added to the sums of its block"),),
    Box("4. Release", ("the block ends; noise is drawn once", "and stored with the release"), raw=True),
    (Arrow("everything below uses releases alone", covered=True),),
    Box("5. Later decisions, published policy", ("post-processing: no further privacy loss",)),
)
