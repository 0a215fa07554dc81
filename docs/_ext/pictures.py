"""Lets the gallery take pictures of `dpbandits.lab.plot`, which belong to no window of pyplot."""

from typing import Any

from sphinx_gallery.scrapers import figure_rst

_TAKEN: set[int] = set()


def take(_block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save every figure that a block has left under a name and that was not taken before."""
    import matplotlib.pyplot as plt
    from matplotlib.figure import Figure

    windows = {id(plt.figure(number)) for number in plt.get_fignums()}
    paths = []
    for value in list(block_vars["example_globals"].values()):
        if isinstance(value, Figure) and id(value) not in _TAKEN | windows:
            _TAKEN.add(id(value))
            paths.append(next(block_vars["image_path_iterator"]))
            value.savefig(paths[-1], dpi=120)
    return figure_rst(paths, gallery_conf["src_dir"])


def _get_sg_image_scraper() -> Any:
    return take
