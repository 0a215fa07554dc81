"""A reference server of the witness protocol, for the loopback only: see `dpbandits.state.witness_http`."""

import json
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

from dpbandits.errors import ForkedState, InvalidParameter
from dpbandits.state import FileWitness

TOKEN = "a token of the tests"


@contextmanager
def served(folder):
    """A server on a port of its own that keeps its witnesses in `folder`; yields its address and itself.

    `server.script` is a list of what the next requests shall meet in place of the protocol: a function of
    the handler each, returning whether to go on as usual.
    """
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.witness, server.lock, server.script, server.seen = FileWitness(folder), threading.Lock(), [], []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/witness", server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self._serve(lambda lineage: None)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._serve(lambda lineage: self.server.witness.advance(lineage, **body))

    def _serve(self, act):
        self.server.seen.append((self.command, self.path, dict(self.headers)))
        if self.server.script and not self.server.script.pop(0)(self):
            return
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            self.answer(401, {})
            return
        lineage = unquote(self.path.removeprefix("/witness/"))
        with self.server.lock:
            try:
                act(lineage)
                status = 200
            except ForkedState:
                status = 409
            except (InvalidParameter, TypeError):
                self.answer(400, {})
                return
            last = self.server.witness.last(lineage)
        self.answer(status, {"last": None if last is None else last._asdict()})

    def answer(self, status, body, headers=()):
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        with suppress(BrokenPipeError, ConnectionResetError):  # nobody waits for it any more
            self.end_headers()
            self.wfile.write(text)

    def log_message(self, *arguments):
        pass
