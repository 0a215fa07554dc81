"""Lets docstrings be plain text with Markdown habits, as they are read in the source.

Sphinx reads docstrings as reStructuredText, where |x| <= 1 is an undefined substitution, theta_ a broken
link, a code span must not touch its neighbours, and a Markdown table is a riddle. This extension escapes the
first two and rewrites the others. It also gives array types back their short names.
"""

import re
from typing import Any

from docutils import nodes
from numpy.typing import ArrayLike
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.typing import stringify_annotation

from dpbandits._typing import BoolArray, FloatArray, IntArray

_CODE_SPAN = re.compile(r"(``[^`]+``|:[\w:]+:`[^`]+`|`[^`]+`)")
_BOLD = re.compile(r"(?<![\w*])\*\*\S.*?\S\*\*(?![\w*])")
_TRAILING_UNDERSCORE = re.compile(r"(?<=\w)_(?!\w)")
_TABLE_RULE = re.compile(r"^\s*\|[\s:|-]+\|\s*$")
_SIMPLE_TABLE_RULE = re.compile(r"^\s*=+(\s+=+)+\s*$")
_SEVERAL = re.compile(r"^(\s+)(\w+(?:, \w+)+)(:.*)$")
_ALIASES = {"ArrayLike": ArrayLike, "BoolArray": BoolArray, "FloatArray": FloatArray, "IntArray": IntArray}
_BEFORE_NAPOLEON = 400  # default priority is 500


def escape(text: str) -> str:
    """Plain text as reStructuredText; what stands between single backticks is code."""
    parts = _CODE_SPAN.split(text)
    for position, part in enumerate(parts):
        if position % 2 == 0:
            escaped = _TRAILING_UNDERSCORE.sub(r"\\_", part.replace("|", r"\|"))
            parts[position] = escaped if _BOLD.search(part) else escaped.replace("**", r"\*\*")
        elif part.startswith("`") and not part.startswith("``"):
            before, after = parts[position - 1][-1:].strip(), parts[position + 1][:1].strip()
            parts[position] = ("\\ " if before else "") + f"`{part}`" + ("\\ " if after else "")
    return "".join(parts)


def table(rows: list[str]) -> list[str]:
    """A Markdown table (header, rule, rows) as a list-table."""
    indent = rows[0][: len(rows[0]) - len(rows[0].lstrip())]
    out = [f"{indent}.. list-table::", f"{indent}   :header-rows: 1", ""]
    for row in [rows[0], *rows[2:]]:
        for position, cell in enumerate(row.strip().strip("|").split(" | ")):
            out.append(f"{indent}   {'* -' if position == 0 else '  -'} {escape(cell.strip())}")
    return [*out, ""]


def one_by_one(lines: list[str]) -> list[str]:
    """`a, b: text` under "Attributes:" as one entry a name, which napoleon does for arguments only."""
    out: list[str] = []
    margin, position = None, 0
    while position < len(lines):
        line = lines[position]
        depth = len(line) - len(line.lstrip())
        position += 1
        if line.strip() == "Attributes:":
            margin = depth
        elif line.strip() and margin is not None and depth <= margin:
            margin = None
        several = _SEVERAL.match(line) if margin is not None else None
        if several is None:
            out.append(line)
            continue
        end = position
        while end < len(lines) and len(lines[end]) - len(lines[end].lstrip()) > depth:
            end += 1
        for name in several[2].split(", "):
            out += [f"{several[1]}{name}{several[3]}", *lines[position:end]]
        position = end
    return out


def convert(lines: list[str]) -> list[str]:
    """A docstring's lines as reStructuredText; doctests and reStructuredText tables are left alone."""
    out: list[str] = []
    in_doctest = False
    table_rules = 0
    position = 0
    while position < len(lines):
        line = lines[position]
        in_doctest = line.lstrip().startswith(">>>") or (in_doctest and bool(line.strip()))
        if _SIMPLE_TABLE_RULE.match(line):
            table_rules += 1
        elif not line.strip():
            table_rules = 0
        if in_doctest or table_rules:
            out.append(line)
        elif position + 1 < len(lines) and "|" in line and _TABLE_RULE.match(lines[position + 1]):
            end = position
            while end < len(lines) and lines[end].lstrip().startswith("|"):
                end += 1
            out += table(lines[position:end])
            position = end
            continue
        else:
            out.append(escape(line))
        position += 1
    return out


def _spelled_out() -> dict[str, str]:
    """What Sphinx makes of each alias, before and after it drops module names -> the alias."""
    names: dict[str, str] = {}
    for name, alias in _ALIASES.items():
        marked = stringify_annotation(alias, mode="smart")
        names[marked] = names[re.sub(r"~(\w+\.)*", "", marked)] = name
    return names


_SHORT = _spelled_out()


def short_types(text: str) -> str:
    """Array types under the names that the source uses."""
    for spelled_out, name in _SHORT.items():
        text = text.replace(spelled_out, name)
    return text


def _shorten_signature(
    _app: Sphinx,
    _what: str,
    _name: str,
    _obj: Any,
    _options: Any,
    signature: str | None,
    return_annotation: str | None,
) -> tuple[str | None, str | None]:
    return signature and short_types(signature), return_annotation and short_types(return_annotation)


def _shorten_properties(_app: Sphinx, doctree: nodes.document, _docname: str) -> None:
    for node in doctree.findall(addnodes.desc_annotation):
        if short_types(node.astext()) != node.astext():
            node.children = [nodes.Text(short_types(node.astext()))]


def _process(_app: Sphinx, what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    lines[:] = convert(one_by_one(lines))
    if lines and what in {"attribute", "data", "property"}:
        # napoleon takes the words before a colon for a type, unless there are none
        lines[0] = f": {lines[0]}"


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("autodoc-process-docstring", _process, priority=_BEFORE_NAPOLEON)
    app.connect("autodoc-process-signature", _shorten_signature)
    app.connect("doctree-resolved", _shorten_properties)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
