"""Puts the demonstration's page beside the docs, where it plays a recording: see `demo_pictures.py`."""

import sys
from pathlib import Path

from sphinx.application import Sphinx

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "demo"


def copied(app: Sphinx, error: Exception | None) -> None:
    if error is not None or app.builder.name != "html":
        return
    sys.path.insert(0, str(EXAMPLE))
    from files import files

    for name, contents in files().items():
        path = Path(app.outdir) / "_static" / "demo" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(contents)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", copied)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
