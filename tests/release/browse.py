"""Open a folder's `index.html` in Chromium, over the loopback, and print what its script found.

python tests/release/browse.py FOLDER CHROMIUM
"""

import functools
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

from playwright.sync_api import sync_playwright


class Quiet(SimpleHTTPRequestHandler):
    """Serve files, without a line for each request."""

    extensions_map = SimpleHTTPRequestHandler.extensions_map | {
        ".mjs": "text/javascript",
        ".js": "text/javascript",
    }

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def main() -> None:
    """Exit with status 1 where the page's script failed."""
    folder, chromium = sys.argv[1:]
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{server.server_port}/index.html")
        page.wait_for_function("window.found !== undefined", timeout=30_000)
        found = page.evaluate("window.found")
        version = browser.version
        browser.close()
    server.shutdown()
    if found.startswith("failed"):
        raise SystemExit(found)
    sys.stdout.write(f"{found}, Chromium {version}\n")


if __name__ == "__main__":
    main()
