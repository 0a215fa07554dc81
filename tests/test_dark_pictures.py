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


def test_a_release_of_actions_is_seen_on_a_dark_page_with_several_columns_and_a_window():
    from matplotlib.colors import to_rgb
    from matplotlib.lines import Line2D

    import dpbandits as dpb

    spec = importlib.util.spec_from_file_location("pages_of_documentation", PAGES)
    pages = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pages)
    grid = dpb.Schema(price=dpb.Range(1, 9, steps=9), channel=dpb.Categories(["mail", "call"]))
    policy = dpb.central.GPBandit(
        contexts=dpb.Schema(age=dpb.Range(18, 90)),
        actions=dpb.Actions(grid, value=dpb.values.Revenue(cost=1), explore={"price": dpb.Range(3, 5)}),
        reward_range=(0, 1),
        horizon=200,
        privacy=dpb.JointDP(epsilon=1, delta=1e-6),
        noise=dpb.SimulatedNoise(0),
    )
    figure = dpb.lab.plot.released(policy.publish(prior=True), "price", at={"channel": "call"})
    mark = figure.axes[1].lines[-1]
    assert 3 <= mark.get_xdata()[0] <= 5  # the recommended action is within the window
    assert figure.axes[1].get_title(loc="left") == "Value, best allowed marked"
    pages.shown(figure, "one line")
    found = [line for axes in figure.axes for line in axes.lines]
    assert len(found) == 3
    for line in found:
        assert isinstance(line, Line2D)
        assert max(to_rgb(line.get_color())) > 0.6  # on a page of (0.08, 0.1, 0.1)
        assert max(to_rgb(line.get_markeredgecolor())) > 0.6
