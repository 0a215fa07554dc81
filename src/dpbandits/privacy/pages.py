"""Pages of a statement as plain text, HTML and PDF.

`Guarantee` makes the pages from sections of paragraphs, lists and boxes to tick. The functions here format
them: `as_text` for a terminal, `as_fragment` for use within an HTML page, `as_document` as an HTML document
that prints, `as_pdf` as a PDF file (extra `pdf`). Texts may come from untrusted files. So all formats show
white space as one blank, and characters that do not print, such as marks of direction, as escapes.
"""

import html
import io
import textwrap
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from dpbandits.errors import InvalidParameter

__all__ = ["Page", "Paper", "Section", "as_document", "as_fragment", "as_pdf", "as_text"]

Paper = Literal["A4", "Letter"]

SIGNATURE = ("Name and role", "Date", "Signature")
"""Names of the fields at the end of a page to sign."""

_WIDTH = 100
_BLANK = 20


class Section(NamedTuple):
    """Part of a page: a title, paragraphs and a list.

    Args:
        title: a few words; empty for none.
        texts: paragraphs.
        items: entries of the list that follows the paragraphs.
        names: True if each entry begins with a name and a colon.
        boxes: True if each entry has a box to tick.
    """

    title: str
    texts: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    names: bool = False
    boxes: bool = False


class Page(NamedTuple):
    """A title with sections.

    Args:
        title: heading of the page.
        sections: sections in their order.
        signed: True if the page ends with a line for a signature.
    """

    title: str
    sections: tuple[Section, ...]
    signed: bool = False


def _printable(text: str) -> str:
    """Return the text with unprintable characters escaped, so that it can change neither terminal nor text
    order.
    """
    escaped = (one if one.isprintable() else ascii(one)[1:-1] for one in " ".join(text.split()))
    return "".join(escaped)


def _cleaned(page: Page) -> Page:
    sections = tuple(
        one._replace(
            title=_printable(one.title),
            texts=tuple(map(_printable, one.texts)),
            items=tuple(map(_printable, one.items)),
        )
        for one in page.sections
    )
    return Page(_printable(page.title), sections, page.signed)


def as_text(page: Page) -> str:
    """Return the page as plain text in lines of at most 100 characters."""
    page = _cleaned(page)
    parts = [page.title.upper()]
    for section in page.sections:
        head, *rest = section.texts or ("",)
        lines = [f"{section.title}: {head}".strip() if section.title else head, *rest]
        mark = "[ ] " if section.boxes else "- "
        parts.append("\n".join([_filled(line) for line in lines] + [_filled(i, mark) for i in section.items]))
    if page.signed:
        parts.append("   ".join(f"{field}: {'_' * _BLANK}" for field in SIGNATURE))
    return "\n\n".join(parts)


def _filled(line: str, mark: str = "") -> str:
    return textwrap.fill(mark + line, _WIDTH, subsequent_indent=" " * len(mark), break_on_hyphens=False)


def as_fragment(page: Page, *, level: int = 1) -> str:
    """Return the page as an HTML element `section`, without a style sheet.

    Args:
        page: the page.
        level: level of the page's heading; headings of sections are one level below.
    """
    page = _cleaned(page)
    lines = ['<section class="statement">', f"<h{level}>{html.escape(page.title)}</h{level}>"]
    for section in page.sections:
        if section.title:
            lines.append(f"<h{level + 1}>{html.escape(section.title)}</h{level + 1}>")
        lines += [f"<p>{html.escape(text)}</p>" for text in section.texts]
        if section.items:
            lines += ['<ul class="boxes">' if section.boxes else "<ul>", *_entries(section), "</ul>"]
    if page.signed:
        fields = "".join(f"<p><span>{field}</span></p>" for field in SIGNATURE)
        lines.append(f'<div class="sign" role="group" aria-label="Signature">{fields}</div>')
    return "\n".join([*lines, "</section>"])


def _entries(section: Section) -> Iterable[str]:
    return (f"<li>{one}</li>" for one in _marked(section, "strong"))


def _marked(section: Section, tag: str) -> list[str]:
    """Return the entries of a section as HTML, with their names, if they have any, inside the tag."""
    items = [html.escape(item, quote=False) for item in section.items]
    if not section.names:
        return items
    return [f"<{tag}>{name}</{tag}>: {rest}" for name, _, rest in (item.partition(": ") for item in items)]


_STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --paper: #fff; --rule: #777; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --paper: #161616; --rule: #999; } }
body { font: 10.5pt/1.38 system-ui, "Segoe UI", Helvetica, Arial, sans-serif; color: var(--ink);
  background: var(--paper); max-width: 44rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.45rem; margin: 0 0 .6rem; border-bottom: 2px solid var(--ink); }
h2 { font-size: 1rem; margin: .75rem 0 .15rem; }
p, ul { margin: .2rem 0; }
li, p { overflow-wrap: anywhere; }
ul { padding-left: 1.2rem; }
.boxes { list-style: none; padding-left: 0; }
.boxes li { padding-left: 1.5rem; position: relative; margin: .2rem 0; }
.boxes li::before { content: ""; position: absolute; left: 0; top: .2em; width: .75em; height: .75em;
  border: 1.5px solid var(--ink); }
.sign { display: flex; gap: 1.5rem; margin-top: 2.6rem; break-inside: avoid; }
.sign p { flex: 1; border-top: 1px solid var(--rule); padding-top: .2rem; font-size: .85rem; }
.statement + .statement { margin-top: 3rem; }
@page { margin: 16mm 18mm; }
@media print {
  :root { --ink: #000; --paper: #fff; --rule: #000; }
  body { margin: 0; padding: 0; max-width: none; font-size: 10pt; line-height: 1.3; }
  .statement + .statement { break-before: page; margin-top: 0; }
  li { break-inside: avoid; }
  h2 { break-after: avoid; }
}
"""


def as_document(pages: Sequence[Page]) -> str:
    """Return one self-contained HTML document, in which each page begins a new sheet of paper."""
    body = "\n".join(as_fragment(page) for page in pages)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(pages[0].title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def as_pdf(pages: Sequence[Page], *, paper: Paper = "A4") -> bytes:
    """Return a PDF; each page begins a new sheet of paper. Equal pages give equal bytes.

    The font has the characters of Latin-1. Other characters, for example in column names, appear as escapes.

    Args:
        pages: pages to print, in their order.
        paper: "A4" or "Letter".

    Raises:
        InvalidParameter: reportlab is not installed, or the paper size is unknown.
    """
    try:
        from reportlab.graphics.shapes import Drawing, Rect
        from reportlab.lib import pagesizes, units
        from reportlab.lib.styles import ParagraphStyle
        from reportlab.platypus import PageBreak, Paragraph, SimpleDocTemplate, Spacer, Table
    except ImportError as error:
        raise InvalidParameter("a PDF needs reportlab: pip install 'dpbandits[pdf]'") from error
    if paper not in ("A4", "Letter"):
        raise InvalidParameter("paper: expected 'A4' or 'Letter'")
    body = ParagraphStyle("body", fontName="Helvetica", fontSize=9.5, leading=12, spaceAfter=2)
    title = ParagraphStyle("title", fontName="Helvetica-Bold", fontSize=16, leading=20, spaceAfter=4)
    head = ParagraphStyle("head", fontName="Helvetica-Bold", fontSize=10.5, leading=13, spaceBefore=6)
    head.keepWithNext = 1
    entry = ParagraphStyle("entry", body, leftIndent=14, bulletIndent=3)
    plain = [("VALIGN", (0, 0), (-1, -1), "TOP"), ("LEFTPADDING", (0, 0), (-1, -1), 0)]
    plain += [(f"{side}PADDING", (0, 0), (-1, -1), 0) for side in ("TOP", "BOTTOM")]
    box = Drawing(10, 10)
    box.add(Rect(0.5, 0, 8, 8, fillColor=None, strokeWidth=0.8))
    story: list[object] = []
    for page in map(_cleaned, pages):
        story += [PageBreak()] if story else []
        story.append(Paragraph(_escaped(page.title), title))
        for section in page.sections:
            story += [Paragraph(_escaped(section.title), head)] if section.title else []
            story += [Paragraph(_escaped(text), body) for text in section.texts]
            items = [_latin(item) for item in _marked(section, "b")]
            if section.boxes and items:
                boxed = [[box, Paragraph(item, body)] for item in items]
                story.append(Table(boxed, colWidths=[14, "*"], style=plain, splitInRow=1))
            else:
                story += [Paragraph(item, entry, bulletText="-") for item in items]
        if page.signed:
            fields = [cell for field in SIGNATURE for cell in (field, "")][:-1]
            lines = [("LINEABOVE", (column, 0), (column, 0), 0.7, "black") for column in (0, 2, 4)]
            small = [("FONTSIZE", (0, 0), (-1, -1), 8.5), ("LEFTPADDING", (0, 0), (-1, -1), 0)]
            widths = ["*", 14, "*", 14, "*"]
            story += [Spacer(1, 34), Table([fields], colWidths=widths, style=[*lines, *small])]
    file, margin = io.BytesIO(), 17 * units.mm
    SimpleDocTemplate(
        file,
        pagesize=pagesizes.A4 if paper == "A4" else pagesizes.LETTER,
        title=pages[0].title,
        invariant=1,
        **dict.fromkeys(("leftMargin", "rightMargin", "topMargin", "bottomMargin"), margin),
    ).build(story)
    return file.getvalue()


def _latin(text: str) -> str:
    """Return text with escapes for characters that the font of the PDF lacks."""
    return text.encode("latin-1", "backslashreplace").decode("latin-1")


def _escaped(text: str) -> str:
    return html.escape(_latin(text), quote=False)
