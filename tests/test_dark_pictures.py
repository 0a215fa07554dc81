"""Pictures of the documentation's dark pages: nothing keeps a colour that is too dark for them."""

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("IPython", reason="the documentation's pages need the extra docs")

PAGES = Path(__file__).resolve().parents[1] / "docs" / "_ext" / "pages.py"


def test_error_bars_and_legends_are_seen_on_a_dark_page():
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_hex
    from matplotlib.lines import Line2D

    spec = importlib.util.spec_from_file_location("pages_of_documentation", PAGES)
    pages = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pages)
    dark = pages.plot.PALETTE["black"]
    figure, (axes,) = pages.draw(height=2.0)
    axes.errorbar([0, 1], [0, 1], yerr=[0.1, 0.1], color=dark, marker="o", capsize=3, label="one")
    axes.legend()
    pages.shown(figure, "one line")
    seen = [bars.get_edgecolor() for bars in figure.findobj(LineCollection)]
    seen = [to_hex(colour) for colours in seen for colour in colours]
    for line in figure.findobj(Line2D):
        if line.get_label() != "_nolegend_" or line.get_marker() not in ("", "None", None):
            seen += [to_hex(line.get_color()), to_hex(line.get_markeredgecolor())]
    assert seen
    assert to_hex(dark) not in seen
