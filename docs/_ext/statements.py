"""Printed guarantees as prose: the same words, which a narrow screen wraps by itself.

`Guarantee.explain()` breaks its lines for a terminal. Where a cell's output is such a text, its
paragraphs and lists become paragraphs and lists of the page; every word stays.
"""

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

_MARK = "Who sees what:"
_LONGEST_LABEL = 40
_ITEMS = ("- ", "[ ] ")


def is_statement(text: str) -> bool:
    """Return whether this is the text of `explain()`, or of a command that prints it."""
    return f"\n{_MARK}\n" in text


def logical_lines(block: str) -> list[str]:
    """Return the lines of a paragraph before they were wrapped; items begin with a dash or a box."""
    lines: list[str] = []
    for line in block.splitlines():
        if line.startswith(_ITEMS) or not lines or lines[-1].endswith(":"):
            lines.append(line.strip())
        else:
            lines[-1] += " " + line.strip()
    return lines


def paragraph(text: str) -> nodes.paragraph:
    """A paragraph; what stands before its first colon, if that is short, is its label."""
    label, colon, rest = text.partition(":")
    if not colon or len(label) > _LONGEST_LABEL:
        return nodes.paragraph(text, text)
    return nodes.paragraph("", "", nodes.strong(label + colon, label + colon), nodes.Text(rest))


def prose(text: str) -> nodes.container:
    """A printed statement as paragraphs and lists."""
    box = nodes.container(classes=["statement"])
    for block in text.strip().split("\n\n"):
        items = nodes.bullet_list()
        for line in filter(None, logical_lines(block)):
            if line.startswith(_ITEMS):
                said = line[2:] if line.startswith("- ") else f"\N{BALLOT BOX}{line[3:]}"
                items += nodes.list_item("", nodes.paragraph(said, said))
            else:
                box += paragraph(line)
        if items.children:
            box += items
    return box


def _replace(_app: Sphinx, doctree: nodes.document) -> None:
    for block in list(doctree.findall(nodes.literal_block)):
        text = block.astext().replace("\r\n", "\n")  # as a shell's output comes
        if is_statement(text) and "output" in " ".join(block.get("classes", [])):
            block.parent.replace(block, prose(text))


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("doctree-read", _replace)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
