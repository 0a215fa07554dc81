"""What the demonstration's page is made of: this folder, the device in `js/`, and the desk's style."""

from pathlib import Path

__all__ = ["KINDS", "files"]

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}


def files() -> dict[str, bytes]:
    """Path -> contents."""
    found = {path.name: path.read_bytes() for path in HERE.iterdir() if path.suffix in KINDS}
    found["desk.css"] = (ROOT / "src" / "dpbandits" / "service" / "desk" / "desk.css").read_bytes()
    for path in (*sorted((ROOT / "js" / "src").glob("*.js")), ROOT / "js" / "test" / "memory.js"):
        found[path.relative_to(ROOT).as_posix()] = path.read_bytes()
    return found
