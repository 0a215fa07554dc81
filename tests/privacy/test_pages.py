"""Statements as HTML and PDF."""

import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from importlib.util import find_spec

import pytest

from dpbandits.errors import InvalidParameter
from dpbandits.privacy.certificates import PureDP
from dpbandits.privacy.definitions import LocalDP
from dpbandits.privacy.guarantee import Assumption, Guarantee, Observer
from dpbandits.privacy.pages import Page, Section, as_fragment, as_text

PROMISED = Guarantee(
    definition=LocalDP(epsilon=2.0),
    observers=(
        Observer(who="the server", sees="the report", protected=True),
        Observer(who="the device", sees="rewards < 3 & 'größe'", protected=False),
    ),
    mechanisms=(),
    assumptions=(Assumption(name="one report", text="There is one report. Not two.", enforced=False),),
    theorem="Ratios are enumerated.",
    status="enforced",
    certificate=PureDP(2.0),
)


class Reader(HTMLParser):
    """Names of elements, balanced; text; and addresses of other files."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.text, self.addresses = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href")]
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_the_document_is_whole_and_needs_no_other_file():
    written = PROMISED.to_html()
    read = Reader(written)
    assert written.startswith("<!doctype html>")
    assert (read.open, read.addresses) == ([], [])
    assert read.elements.count("h1") == 2  # the page to sign, and the annex
    shown = " ".join("".join(read.text).split())
    for page in PROMISED.pages():
        for section in page.sections:
            for text in (section.title, *section.texts, *section.items):
                assert " ".join(text.split()) in shown
    assert "rewards < 3 & 'größe'" in shown
    assert "url(" not in written
    assert "@page" in written
    assert "prefers-color-scheme: dark" in written


def test_a_box_is_drawn_for_each_assumption_to_check_and_no_line_for_an_enforced_one():
    fragment = as_fragment(PROMISED.pages()[0])
    boxes = fragment[fragment.index('<ul class="boxes">') :]
    assert boxes[: boxes.index("</ul>")].count("<li>") == 1
    enforced = replace(PROMISED, assumptions=(replace(PROMISED.assumptions[0], enforced=True),))
    assert "boxes" not in as_fragment(enforced.pages()[0])


def test_headings_begin_at_the_level_asked_for():
    fragment = as_fragment(PROMISED.pages()[1], level=2)
    assert {int(level) for level in re.findall(r"<h(\d)", fragment)} == {2, 3}


def test_text_has_titles_lists_and_boxes():
    page = Page(
        "A page",
        (
            Section("", ("No title.",)),
            Section("One", ("Text.",), ("a", "b")),
            Section("Two", (), ("c",), boxes=True),
        ),
        signed=True,
    )
    first, second, third, fourth, last = as_text(page).split("\n\n")
    assert (first, second, third, fourth) == ("A PAGE", "No title.", "One: Text.\n- a\n- b", "Two:\n[ ] c")
    assert last.startswith("Name and role: ____")


prints = pytest.mark.skipif(
    find_spec("reportlab") is None, reason="reportlab writes PDF: pip install 'dpbandits[dev]'"
)


@prints
@pytest.mark.parametrize(("paper", "size"), [("A4", (595, 842)), ("Letter", (612, 792))])
def test_a_pdf_has_a_page_to_sign_and_an_annex_and_is_the_same_each_time(paper, size):
    written = PROMISED.to_pdf(paper=paper)
    assert written.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type /Page\b", written)) == 2
    boxes = re.findall(rb"/MediaBox \[ 0 0 ([\d.]+) ([\d.]+) \]", written)
    assert {tuple(round(float(one)) for one in box) for box in boxes} == {size}
    assert written == PROMISED.to_pdf(paper=paper)


HOSTILE = {
    "markup": "</para><script>alert(1)</script>&#60;b&#62;",
    "direction": "\u202e)derevoc( \u2067",
    "terminal": "\x1b[2J\x1b[31m\x00\x07",
    "lines": "T.\n\n[ ] Another: box\u2028\x85\x0c",
    "surrogate": "\ud800",
}


def hostile(text):
    """Return a statement with this text in every field that a file can set."""
    return replace(
        PROMISED,
        observers=(replace(PROMISED.observers[0], who=text, sees=text),),
        assumptions=(Assumption(name=text, text=f"{text} is so.", enforced=False),),
        unit=text,
        limits=(text,),
        notes=(text,),
    )


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_texts_of_others_stay_text(text):
    stated = hostile(text)
    for written in (stated.explain(), stated.annex(), stated.to_html()):
        written.encode()
        assert all(one.isprintable() or one == "\n" for one in written)
    read = Reader(stated.to_html())
    assert set(read.elements) == set(Reader(PROMISED.to_html()).elements)
    assert stated.explain().count("\n[ ] ") == 1
    assert Guarantee.from_json(stated.to_json()) == stated


@prints
@pytest.mark.parametrize("text", [*HOSTILE.values(), "x" * 10_000, "word " * 1_500])
def test_a_pdf_takes_texts_of_others(text):
    assert hostile(text).to_pdf().startswith(b"%PDF-")


@prints
def test_a_pdf_takes_characters_that_its_font_lacks():
    odd = replace(PROMISED, notes=("Spalte '年齢' <b> & größe.",))
    assert odd.to_pdf() != PROMISED.to_pdf()


@prints
def test_another_size_of_paper_is_refused():
    with pytest.raises(InvalidParameter, match="A4"):
        PROMISED.to_pdf(paper="B5")


def test_without_reportlab_the_error_names_the_extra(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "reportlab"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "reportlab", None)
    with pytest.raises(InvalidParameter, match=re.escape("pip install 'dpbandits[pdf]'")):
        PROMISED.to_pdf()
