"""The nginx and Caddy of `deploy/` before a service, with TLS, as clients and a browser's forms use them."""

import json
import os
import re
import shutil
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpx
import pytest

from dpbandits.service.settings import Settings
from service.conftest import AGNES, CUSTOMERS, OFFERS
from service.processes import ServerProcess, free_port

FOLDER = Path(__file__).parents[2] / "deploy"
KINDS = ("nginx", "caddy")


def with_certificate(folder: Path) -> ssl.SSLContext:
    """A certificate for the loopback address, in the folder's cert.pem and key.pem; who trusts it."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now, address = datetime.now(UTC), x509.IPAddress(ip_address("127.0.0.1"))
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(days=1))
    made = made.add_extension(x509.SubjectAlternativeName([address]), critical=True)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    pem = serialization.Encoding.PEM
    (folder / "cert.pem").write_bytes(made.sign(key, hashes.SHA256()).public_bytes(pem))
    written = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "key.pem").write_bytes(written)
    return ssl.create_default_context(cafile=folder / "cert.pem")


def changed(file: str, places: dict[str, str]) -> str:
    """A file of `deploy/`, each text in it that names a place replaced."""
    text = (FOLDER / file).read_text()
    for known, here in places.items():
        assert known in text
        text = text.replace(known, here)
    return text


def as_nginx(folder: Path, port: int, upstream: int) -> list[str]:
    places = {
        "127.0.0.1:8080": f"127.0.0.1:{upstream}",
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "/etc/ssl/dpbandits/chain.pem": str(folder / "cert.pem"),
        "/etc/ssl/dpbandits/key.pem": str(folder / "key.pem"),
        "/var/log/nginx/dpbandits.log": str(folder / "own.log"),
    }
    (folder / "site.conf").write_text(changed("nginx.conf", places))
    kept = "".join(
        f"{name}_temp_path {folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root;" if os.getuid() == 0 else ""
    (folder / "nginx.conf").write_text(
        f"daemon off; pid {folder}/pid; {user} error_log {folder}/log; events {{}} "
        f"http {{ access_log {folder}/access; {kept} include {folder}/site.conf; }}"
    )
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    return [str(program), "-p", str(folder), "-e", str(folder / "log"), "-c", str(folder / "nginx.conf")]


def as_caddy(folder: Path, port: int, upstream: int) -> list[str]:
    places = {
        "127.0.0.1:8080": f"127.0.0.1:{upstream}",
        "decisions.example.org {": f"https://127.0.0.1:{port} {{\n"
        f"\tbind 127.0.0.1\n\ttls {folder}/cert.pem {folder}/key.pem",
        "auto_https": f"admin off\n\tstorage file_system {folder}\n\tauto_https",
    }
    (folder / "Caddyfile").write_text(changed("Caddyfile", places))
    return [str(shutil.which("caddy")), "run", "--config", str(folder / "Caddyfile")]


@contextmanager
def proxied(kind: str, folder: Path, upstream: int) -> Iterator[httpx.Client]:
    """A client of a proxy that has begun, before whatever listens at a port of this machine."""
    if shutil.which(kind, path=f"{os.environ['PATH']}:/usr/sbin") is None:
        pytest.skip(f"{kind} is not installed")
    folder.mkdir()
    trusting, port = with_certificate(folder), free_port()
    command = (as_nginx if kind == "nginx" else as_caddy)(folder, port, upstream)
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(command, env=environment, stdout=said, stderr=said)
    try:
        with httpx.Client(verify=trusting, base_url=f"https://127.0.0.1:{port}", timeout=60) as client:
            until = time.monotonic() + 60.0
            while True:
                try:
                    client.get("/", timeout=5)
                    break
                except httpx.TransportError:
                    assert process.poll() is None, (folder / "said").read_text()
                    assert time.monotonic() < until
                    time.sleep(0.05)
            yield client
    finally:
        process.terminate()
        process.wait(60.0)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    begun = ServerProcess(tmp_path / "data")
    yield begun
    begun.stop()


def port_of(server: ServerProcess) -> int:
    return int(server.url.rpartition(":")[2])


@pytest.mark.parametrize("kind", KINDS)
def test_decisions_rewards_exports_and_the_desk_pass_through(
    kind: str, server: ServerProcess, tmp_path: Path
) -> None:
    with proxied(kind, tmp_path / kind, port_of(server)) as client:
        client.headers["Authorization"] = f"Bearer {server.token}"
        assert client.post("/v1/populations", json=CUSTOMERS).status_code == 201
        assert client.post("/v1/policies", json=OFFERS).status_code == 201
        asked = {"id": "visit-1", "user": "u-17", "context": AGNES}
        decision = client.post("/v1/policies/offers/decisions", json=asked).json()
        told = client.put(f"/v1/policies/offers/decisions/{decision['id']}/reward", json={"reward": 1})
        assert told.json() == {"outcome": "counted"}
        export = client.get("/v1/policies/offers/raw")
        lines = [json.loads(line) for line in export.text.splitlines()]
        assert export.headers["X-Not-A-Private-Release"] == lines[0]["warning"]
        assert decision["id"] in export.text

        del client.headers["Authorization"]
        form = client.get("/").text
        assert "offers" not in form
        [field] = re.findall(r'name="form" value="([^"]+)"', form)
        browser = {"Origin": str(client.base_url), "Sec-Fetch-Site": "same-origin"}
        entered = client.post("/login", data={"token": server.token, "form": field}, headers=browser)
        assert entered.status_code == 303
        assert "Secure" in entered.headers["Set-Cookie"]  # the service was told that this is https
        assert "offers" in client.get("/").text

        client.headers["Authorization"] = f"Bearer {server.token}"
        largest = Settings().largest_body
        fits = client.post("/v1/policies", content=b" " * largest)
        assert fits.headers["Content-Type"] == "application/problem+json"  # the service's own answer
        assert fits.status_code in (400, 422)
        larger = client.post("/v1/policies", content=iter([b" " * (largest + 1)]))  # in chunks
        assert larger.status_code == 413
        assert "problem" not in larger.headers.get("Content-Type", "")  # the proxy's own: it went no further

        server.stop()
        name = decision["id"]
        gone = client.put(f"/v1/policies/offers/decisions/{name}/reward?secret", json={"reward": 1})
        assert gone.status_code == 502
    kept = "".join(
        path.read_text(errors="replace") for path in (tmp_path / kind).rglob("*") if path.is_file()
    )
    assert kept
    assert not any(text in kept for text in (name, "/decisions", "secret", server.token))


@pytest.mark.parametrize(("proxies", "believed"), [("127.0.0.1", True), ("10.0.0.0/8", False)])
def test_only_proxies_that_are_named_say_how_a_client_came(
    proxies: str, believed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPBANDITS_PROXIES", proxies)
    server = ServerProcess(tmp_path / "data")
    try:
        shown = httpx.get(server.url, headers={"X-Forwarded-Proto": "https"}, timeout=60)
        assert ("Secure" in shown.headers["Set-Cookie"]) is believed
    finally:
        server.stop()


class Stub(BaseHTTPRequestHandler):
    """Gives back the headers that came; a download of two pieces, the second after `more` is set."""

    protocol_version = "HTTP/1.1"
    more = threading.Event()

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self._piece(json.dumps(self.headers.items()).encode() + b"\n")
        if self.path.endswith("/raw"):
            self._piece(b"the end\n" if self.more.wait(60.0) else b"nobody had the first piece\n")
        self._piece(b"")

    def _piece(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.mark.parametrize("kind", KINDS)
def test_a_client_does_not_choose_its_address_and_downloads_are_passed_on(kind: str, tmp_path: Path) -> None:
    stub = ThreadingHTTPServer(("127.0.0.1", 0), Stub)
    threading.Thread(target=stub.serve_forever, daemon=True).start()
    Stub.more.clear()
    try:
        with proxied(kind, tmp_path / kind, stub.server_address[1]) as client:
            forged = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "http", "Connection": "close"}
            came = {name.lower(): value for name, value in client.get("/x", headers=forged).json()}
            assert came["x-forwarded-for"] == "127.0.0.1"
            assert came["x-forwarded-proto"] == "https"
            assert came["host"] == client.base_url.netloc.decode()
            with client.stream("GET", "/v1/policies/offers/raw") as download:
                lines = download.iter_lines()
                assert "host" in next(lines).lower()  # while the second piece is not sent
                Stub.more.set()
                assert next(lines) == "the end"
    finally:
        Stub.more.set()
        stub.shutdown()
        stub.server_close()


def test_limits_of_the_proxies_are_those_of_the_service() -> None:
    settings = Settings()
    nginx, caddy = (FOLDER / "nginx.conf").read_text(), (FOLDER / "Caddyfile").read_text()
    sizes = [
        re.findall(r"client_max_body_size (\d+)m;", nginx),
        re.findall(r"max_size (\d+)MiB", caddy),
    ]
    assert sizes == [[f"{settings.largest_body >> 20}"]] * 2
    times = [re.findall(r"client_body_timeout (\d+)s;", nginx), re.findall(r"read_body (\d+)s", caddy)]
    assert times == [[f"{settings.longest_request:g}"]] * 2
