"""The files of `deploy/`: tools that know their formats read them; what they name agrees with the package.

No image is built here: there is no registry of images. What the Dockerfile runs is run in an empty
environment instead, and the command that it starts as its user, on a file system where only /tmp and the
volume can be written to.
"""

import configparser
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from typer.testing import CliRunner

from dpbandits.cli import app
from dpbandits.errors import CorruptState, InvalidParameter, StateError
from dpbandits.service.core import Service
from dpbandits.service.keys import Keys
from dpbandits.service.settings import Settings
from service import databases
from service.conftest import Caller
from service.processes import ServerProcess, free_port

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy"
WRITTEN = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = WRITTEN["project"]
README = {
    part["path"] for part in WRITTEN["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["fragments"]
}
EXTRAS = ("service", "postgres")
USER = "10001"
SHELL = "/bin/sh"


def program(name: str) -> str:
    """A program on the path, or beside this Python."""
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def instructions() -> list[tuple[str, str]]:
    """Word and rest of each instruction of the Dockerfile, continued lines joined, comments left out."""
    text = re.sub(r"\\\n\s*", "", (FOLDER / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines]


def every(word: str) -> list[str]:
    return [rest for name, rest in instructions() if name == word]


def one(word: str) -> str:
    [found] = every(word)
    return found


def served_with(command: list[str]) -> dict[str, str]:
    """Options of a `dpbandits serve`, all of which the command knows."""
    assert command[0] == "serve"
    given = dict(zip(command[1::2], command[2::2], strict=True))
    known = CliRunner().invoke(app, ["serve", "--help"], terminal_width=200).stdout
    assert all(option in known for option in given)
    return given


def pinned() -> dict[str, str]:
    lines = (FOLDER / "constraints.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


# -- the image -------------------------------------------------------------------------------------


def test_hadolint_has_nothing_to_say_about_the_dockerfile() -> None:
    done = subprocess.run(
        [program("hadolint"), str(FOLDER / "Dockerfile")], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_the_base_image_is_named_by_its_digest_when_it_is_built() -> None:
    assert every("FROM") == ["${PYTHON_IMAGE} AS build", "${PYTHON_IMAGE}"]
    assert every("ARG") == ["PYTHON_IMAGE"] * 2  # no default that grows old
    named = re.search(r"PYTHON_IMAGE=python:(\d+\.\d+)-", (FOLDER / "Dockerfile").read_text())
    assert named
    assert SpecifierSet(PROJECT["requires-python"]).contains(named[1])
    [check] = [line for line in every("RUN") if line.startswith("case")]
    for image, accepted in (
        ("python:3.11-slim@sha256:" + "0" * 64, True),
        ("python:3.11-slim", False),
        ("", False),
    ):
        environment = {"PATH": os.environ["PATH"], "PYTHON_IMAGE": image}
        done = subprocess.run([SHELL, "-c", check], env=environment, capture_output=True, check=False)
        assert (done.returncode == 0) is accepted


def test_the_image_takes_what_the_package_is_built_from_and_no_data() -> None:
    """A clone that served holds raw data in dpbandits-data: it is not even sent to the builder."""
    taken = {part for rest in every("COPY") if "--from" not in rest for part in rest.split()[:-1]}
    assert taken == {
        "pyproject.toml", "src", *README, *PROJECT["license-files"], "deploy/constraints.txt"
    }  # fmt: skip
    assert all((ROOT / part).exists() for part in taken)
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if not line.startswith("#")]
    assert rules[0] == "*"
    assert {rule[1:] for rule in rules if rule.startswith("!")} == taken


def test_versions_in_the_image_are_fixed_and_fit_the_package() -> None:
    versions = {name.lower().replace("_", "-"): version for name, version in pinned().items()}
    wanted = PROJECT["dependencies"] + [
        one for extra in EXTRAS for one in PROJECT["optional-dependencies"][extra]
    ]
    for requirement in map(Requirement, wanted):
        assert requirement.specifier.contains(versions[requirement.name.lower()]), requirement
    assert f"'/src[{','.join(EXTRAS)}]'" in " ".join(every("RUN"))


def test_the_image_serves_as_a_numbered_user_who_owns_the_volume() -> None:
    assert one("USER") == f"{USER}:{USER}"
    [made] = [line for line in every("RUN") if "useradd" in line]
    assert f"groupadd --gid {USER} " in made
    assert f"useradd --uid {USER} --gid {USER} " in made
    assert f"install -d -m 0700 -o {USER} -g {USER} {one('VOLUME')} /witness" in made
    words = [name for name, _ in instructions()]
    assert max(at for at, word in enumerate(words) if word == "RUN") < words.index("USER")
    assert json.loads(one("ENTRYPOINT")) == [next(iter(PROJECT["scripts"]))]
    assert served_with(json.loads(one("CMD"))) == {"--data": one("VOLUME")}
    assert one("EXPOSE") == str(Settings().port)
    variables = dict(pair.split("=") for pair in one("ENV").split())
    settings = {name: value for name, value in variables.items() if name.startswith("DPBANDITS_")}
    assert Settings.read(environ=settings) == Settings(host="0.0.0.0")  # noqa: S104 - inside the container


def health(port: int) -> int:
    """Exit status of the image's health check, with this Python, for a service at a port."""
    command = json.loads(one("HEALTHCHECK").partition("CMD ")[2])
    assert command[:2] == ["python", "-c"]
    done = subprocess.run(
        [sys.executable, *command[1:]],
        env={"DPBANDITS_PORT": str(port)},
        capture_output=True,
        timeout=60,
        check=False,
    )
    return done.returncode


def soon_healthy(port: int) -> bool:
    """Whether it is healthy within a minute."""
    ends = time.monotonic() + 60.0
    while not (healthy := health(port) == 0) and time.monotonic() < ends:
        time.sleep(0.1)
    return healthy


def test_the_health_check_is_that_of_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is not ready is healthy all the same: no restart mends a full disk or a clock that jumped."""
    monkeypatch.setenv("DPBANDITS_DISK_FLOOR", str(1 << 60))
    server = ServerProcess(tmp_path / "data")
    try:
        assert soon_healthy(int(server.url.rpartition(":")[2]))
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(f"{server.url}/v1/ready", timeout=60)  # noqa: S310 - loopback
    finally:
        server.stop()
    assert health(free_port()) == 1


CONFINED = """
mount --bind "$PLACE" "$PLACE" && mount -o remount,bind,ro "$PLACE"
mount -t tmpfs -o noexec,nosuid,nodev,mode=1777 tmpfs "$PLACE/tmp"
for at in "$PLACE/data" "$PLACE/witness"; do mount --bind "$at" "$at" && mount -o remount,bind,rw "$at"; done
mount -o remount,bind,ro /
if touch /written "$PLACE/opt/written" 2>/dev/null; then exit 9; fi
set -- --no-new-privs --inh-caps=-all --bounding-set=-all "$@"
exec setpriv --reuid=$USER --regid=$USER --clear-groups "$@"
"""
"""What a container's read-only file system, user and lost capabilities are without one."""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_commands_of_the_image_make_a_service_that_writes_to_its_volumes_alone() -> None:
    """The image's own command with a folder; that of the compose file with a database and a witness."""
    if os.getuid() != 0 or not all(map(shutil.which, ("unshare", "setpriv", "mount"))):
        pytest.skip("only root can mount a file system read-only, with what util-linux has")
    place = Path(tempfile.mkdtemp(dir="/var/tmp"))
    try:
        for name, mode in {"": 0o755, "src": 0o755, "tmp": 0o700}.items():
            (place / name).mkdir(exist_ok=True)
            (place / name).chmod(mode)
        installed(place)
        served_confined(place, json.loads(one("CMD")), {})
        assert (place / "data" / "service.db").exists()
        address = databases.fresh("debian")
        Path(unquote(address.partition("?host=")[2].partition("&")[0])).chmod(0o755)
        (place / "address").write_text(address)
        own = composed()["services"]["service"]
        served_confined(place, own["command"], own["environment"])
        assert not (place / "data" / "service.db").exists()
        assert any((place / "witness").glob("*.witness"))
    finally:
        shutil.rmtree(place)


def installed(place: Path) -> None:
    """Run what the Dockerfile runs to install, below a folder, and compare the versions that came."""
    for part in {part for rest in every("COPY") if "--from" not in rest for part in rest.split()[:-1]}:
        target = place / "src" / Path(part).name
        (shutil.copytree if (ROOT / part).is_dir() else shutil.copy)(ROOT / part, target)
    [install] = [line for line in every("RUN") if line.startswith("python -m venv")]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    for known, here in (
        ("/opt/dpbandits", f"{place}/opt"),
        ("/src/", f"{place}/src/"),
        ("/src[", f"{place}/src["),
        ("python -m", f"{sys.executable} -m"),
    ):
        install = install.replace(known, here)
    subprocess.run([SHELL, "-ec", install], env=environment, check=True, capture_output=True)
    pip = [sys.executable, "-m", "pip", "--python", f"{place}/opt/bin/python"]
    frozen = subprocess.run(
        [*pip, "freeze", "--exclude", "dpbandits"],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    assert dict(line.split("==") for line in frozen.stdout.splitlines()) == pinned()


def served_confined(place: Path, command: list[str], settings: dict[str, str]) -> None:
    """Serve as the image's user from empty volumes, where only these and /tmp can be written to."""
    for name in ("data", "witness"):
        shutil.rmtree(place / name, ignore_errors=True)
        (place / name).mkdir(mode=0o700)
        os.chown(place / name, int(USER), int(USER))
    places = {one("VOLUME"): f"{place}/data", "/witness": f"{place}/witness"}
    places["/run/secrets/address"] = f"{place}/address"
    [begun] = json.loads(one("ENTRYPOINT"))
    command = [f"{place}/opt/bin/{begun}", *(places.get(part, part) for part in command)]
    variables = dict(pair.split("=") for pair in one("ENV").split())
    variables |= {name: places.get(value, value) for name, value in settings.items()}
    port = free_port()
    variables |= {
        "PATH": os.environ["PATH"],
        "DPBANDITS_PORT": str(port),
        "DPBANDITS_HOST": "127.0.0.1",
        "TMPDIR": f"{place}/tmp",  # noqa: S108
        "PLACE": str(place),
        "USER": USER,
    }
    process = subprocess.Popen(
        [program("unshare"), "-m", SHELL, "-ec", CONFINED, "sh", *command],
        cwd="/",
        env=variables,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == f"http://127.0.0.1:{port}"
        token = process.stdout.readline().rpartition(" ")[2].strip()
        assert token.startswith("dpb_")
        status = Path(f"/proc/{process.pid}/status").read_text()
        assert re.search(rf"^Uid:(\s+{USER}){{4}}$", status, re.MULTILINE)
        assert re.search(r"^CapEff:\s+0+$", status, re.MULTILINE)
        assert soon_healthy(port)
    finally:
        process.terminate()
        process.wait(60.0)
        if process.stdout is not None:
            process.stdout.close()
    assert (place / "data" / "service.key").exists()


# -- compose ---------------------------------------------------------------------------------------


def composed() -> dict[str, Any]:
    """The compose file, images named by a digest, as a library that knows the format reads it."""
    from compose_spec import PyCompose

    text = (FOLDER / "compose.yaml").read_text()
    digest = f"example@sha256:{'0' * 64}"
    text, named = re.subn(r"\$\{(?:POSTGRES|SERVICE)_IMAGE:\?[^}]*\}", digest, text)
    assert named == 2  # neither has a default, which would grow old
    text, named = re.subn(r"\$\{SERVICE_INSTANCE:\?[^}]*\}", "here", text)
    assert named == 1  # a copy of the file does not take the name along
    read = PyCompose.from_yaml(text)
    read.validate()
    found: dict[str, Any] = read.to_dict()
    return found


def test_the_compose_file_is_one_and_names_what_it_has() -> None:
    found = composed()
    mounted = {one.split(":")[0] for each in found["services"].values() for one in each["volumes"]}
    assert {one for one in mounted if not one.startswith("./")} == set(found["volumes"])
    assert all((FOLDER / one).exists() for one in mounted if one.startswith("./"))
    own = found["services"]["service"]
    assert own["depends_on"]["database"]["condition"] == "service_healthy"
    assert found["services"]["database"]["healthcheck"]["test"][:2] == ["CMD", "pg_isready"]
    assert found["networks"]["inside"] == {"internal": True}
    assert found["services"]["database"]["networks"] == ["inside"]


def test_the_service_of_the_compose_file_is_confined_and_has_its_settings() -> None:
    own = composed()["services"]["service"]
    assert own["read_only"] is True
    assert own["cap_drop"] == ["ALL"]
    assert own["security_opt"] == ["no-new-privileges:true"]
    assert own["ports"] == [f"127.0.0.1:{Settings().port}:{Settings().port}"]
    assert served_with(own["command"])["--data"] == one("VOLUME")
    [network] = composed()["networks"]["outside"]["ipam"]["config"]
    kept = {part.partition(":")[2] for part in own["volumes"]} | {"/run/secrets/address"}
    in_bounds(own["environment"], 2 << 30, workers=int(served_with(own["command"])["--workers"]), kept=kept)
    assert own["mem_limit"] == "2gb"
    assert own["environment"]["DPBANDITS_PROXIES"] == network["gateway"]


def in_bounds(environment: dict[str, str], memory: int, *, workers: int, kept: set[str]) -> None:
    """Settings are known; folders and files that they name are mounted; policies take half of the memory."""
    named = {name: value for name, value in environment.items() if name.endswith("_FILE")}
    settings = Settings.read(
        environ={name: value for name, value in environment.items() if name not in named}
    )
    assert named.keys() <= {"DPBANDITS_DATABASE_FILE"}
    assert settings.instance
    assert settings.behind_tls
    for path in [settings.witness, *named.values()]:
        assert any(Path(path).is_relative_to(one) for one in kept), path
    assert workers * settings.policy_memory <= memory // 2


def test_the_database_of_the_compose_file_lets_its_role_keep_statements_out_of_logs(tmp_path: Path) -> None:
    """What the image of PostgreSQL runs when it is empty, on Debian's; then a service begins there."""
    import psycopg

    admin = databases.encoded("UTF8")
    secret = tmp_path / "password"
    secret.write_text("only 'here'\n")
    text = (FOLDER / "database.sql").read_text()
    assert "/run/secrets/password" in text
    (tmp_path / "database.sql").write_text(text.replace("/run/secrets/password", str(secret)))
    psql = [program("psql"), "--no-psqlrc", admin, "--file", str(tmp_path / "database.sql")]
    address = re.sub(r"//postgres@/[^?]*", "//dpbandits@/dpbandits", admin)
    try:
        done = subprocess.run(psql, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        with psycopg.connect(address) as connection:
            connection.execute("SET LOCAL log_min_error_statement = panic")
            superuser = connection.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
            assert superuser.fetchone() == (False,)
        service = Service(tmp_path / "data", settings=Settings(database=address))
        assert service.first_token is not None
        service.close()
    finally:
        with psycopg.connect(admin, autocommit=True) as connection:
            row = connection.execute(
                "SELECT rolpassword FROM pg_authid WHERE rolname = 'dpbandits'"
            ).fetchone()
            connection.execute("DROP DATABASE IF EXISTS dpbandits WITH (FORCE)")
            connection.execute("DROP OWNED BY dpbandits")
            connection.execute("DROP ROLE IF EXISTS dpbandits")
    assert row is not None
    assert row[0].startswith("SCRAM-SHA-256$")


# -- Kubernetes ------------------------------------------------------------------------------------

MANIFESTS = sorted((FOLDER / "kubernetes").glob("*.yaml"))
WORKLOADS = {"database": "Deployment", "folder": "StatefulSet"}


def objects(name: str) -> list[dict[str, Any]]:
    import yaml

    return list(yaml.safe_load_all((FOLDER / "kubernetes" / f"{name}.yaml").read_text()))


def of_kind(name: str, kind: str) -> dict[str, Any]:
    [found] = [each for each in objects(name) if each["kind"] == kind]
    return found


@pytest.mark.parametrize("version", ["1.30", "1.37"])
def test_manifests_fit_the_schemas_of_kubernetes(version: str) -> None:
    import kubernetes_validate

    assert [path.stem for path in MANIFESTS] == ["database", "folder", "namespace", "secret"]
    for path in MANIFESTS:
        for each in objects(path.stem):
            kubernetes_validate.validate(each, version, strict=True)


@pytest.mark.parametrize(("name", "kind"), WORKLOADS.items())
def test_pods_are_confined_as_kubernetes_standard_restricted_asks(name: str, kind: str) -> None:
    pod = of_kind(name, kind)["spec"]["template"]["spec"]
    assert not pod["automountServiceAccountToken"]
    user = int(USER)
    expected = {"runAsNonRoot": True, "runAsUser": user, "runAsGroup": user, "fsGroup": user}
    assert pod["securityContext"].items() >= expected.items()
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod["initContainers"] + pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
    labels = of_kind("namespace", "Namespace")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


@pytest.mark.parametrize(("name", "kind"), WORKLOADS.items())
def test_pods_have_probes_settings_and_room(name: str, kind: str) -> None:
    whole = of_kind(name, kind)["spec"]
    pod = whole["template"]["spec"]
    [container] = pod["containers"]
    probes = {name: each["httpGet"] for name, each in container.items() if name.endswith("Probe")}
    assert probes == {
        "startupProbe": {"path": "/v1/live", "port": "http"},
        "livenessProbe": {"path": "/v1/live", "port": "http"},
        "readinessProbe": {"path": "/v1/ready", "port": "http"},
    }
    assert container["ports"] == [{"name": "http", "containerPort": Settings().port}]
    served_with(container["args"])
    mounted = {each["mountPath"] for each in container["volumeMounts"]}
    environment = {each["name"]: each["value"] for each in container["env"]}
    assert container["resources"]["limits"]["memory"] == "2Gi"
    in_bounds(environment, 2 << 30, workers=1, kept=mounted)
    assert Path(container["args"][-1]).is_relative_to("/data")
    assert {"/data", "/tmp"} <= mounted  # noqa: S108 - in the container
    claims = [each["metadata"]["name"] for each in whole.get("volumeClaimTemplates", [])]
    known = {each["name"] for each in pod["volumes"]} | set(claims)
    assert {each["name"] for each in container["volumeMounts"]} <= known
    # A Service named dpbandits would otherwise set DPBANDITS_PORT to tcp://10.0.0.1:80.
    assert not pod["enableServiceLinks"]
    with pytest.raises(InvalidParameter, match="DPBANDITS_PORT"):
        Settings.read(environ={"DPBANDITS_PORT": "tcp://10.0.0.1:80"})


@pytest.mark.parametrize(("name", "kind"), WORKLOADS.items())
def test_services_budgets_and_policies_select_the_pods(name: str, kind: str) -> None:
    whole = of_kind(name, kind)
    labels = whole["spec"]["template"]["metadata"]["labels"]
    assert whole["spec"]["selector"]["matchLabels"] == labels
    assert of_kind(name, "Service")["spec"]["selector"] == labels
    policy = of_kind(name, "NetworkPolicy")["spec"]
    assert policy["podSelector"] == {"matchLabels": labels}
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    if name == "folder":
        assert whole["spec"]["replicas"] == 1
        assert policy["egress"] == []
    else:
        budget = of_kind(name, "PodDisruptionBudget")["spec"]
        assert budget["selector"] == {"matchLabels": labels}
        assert budget["minAvailable"] < whole["spec"]["replicas"] == 2
        # Versions before 0.1.0 are not tested together.
        assert whole["spec"]["strategy"] == {"type": "Recreate"}


@pytest.mark.parametrize(("name", "kind"), WORKLOADS.items())
def test_folders_of_a_pod_are_the_services_own_in_volumes_of_its_group(
    name: str, kind: str, tmp_path: Path
) -> None:
    """Kubernetes gives volumes to a group, which may write there (fsGroup): the service refuses that."""
    pod = of_kind(name, kind)["spec"]["template"]["spec"]
    [init], [container] = pod["initContainers"], pod["containers"]
    assert init["image"] == container["image"]
    for volume in ("data", "witness", "run/secrets/dpbandits"):
        (tmp_path / volume).mkdir(parents=True)
        (tmp_path / volume).chmod(0o2775)
    key = tmp_path / "run/secrets/dpbandits/service.key"
    key.write_bytes(bytes(range(32)))

    def here(text: str) -> str:
        return re.sub(r"/(data|witness|run/secrets)\b", rf"{tmp_path}/\1", text)

    for _ in range(2):  # a pod that starts again has its volumes
        subprocess.run([*map(here, init["command"])], check=True)
    data = Path(here(container["args"][-1]))
    environment = {each["name"]: here(each["value"]) for each in container["env"]}
    environment.pop("DPBANDITS_DATABASE_FILE", "")
    Service(data, settings=Settings.read(environ=environment)).close()
    if name == "database":
        assert (data / "service.key").read_bytes() == key.read_bytes()
    with pytest.raises(StateError, match="can be written by others"):
        Service(tmp_path / "data", settings=Settings())


def test_the_secret_as_it_stands_is_refused(tmp_path: Path) -> None:
    values = of_kind("secret", "Secret")["stringData"]
    assert values.keys() == {"database", "service.key"}
    (tmp_path / "service.key").write_text(values["service.key"])
    with pytest.raises(CorruptState, match=r"restore it from a backup"):
        Keys(tmp_path / "service.key")
    with pytest.raises(InvalidParameter, match="expected an address"):
        Service(tmp_path / "data", settings=Settings(database=values["database"]))


# -- alerts ----------------------------------------------------------------------------------------

DECIDING = "/v1/policies/{policy}/decisions"

SERIES = """
rule_files: [{rules}]
evaluation_interval: 30s
tests:
  - interval: 30s
    input_series:
      - {{series: 'up{{job="dpbandits", instance="a"}}', values: '1x30 0x30'}}
      - {{series: 'dpbandits_not_ready{{instance="a", process="1", reason="clock"}}', values: '0x30 1x30'}}
      - {{series: 'dpbandits_errors_total{{instance="a", route="/x", status="500"}}', values: '_x30 1x30'}}
      - {{series: 'dpbandits_errors_total{{instance="a", route="/y", status="500"}}', values: '3x60'}}
      - {{series: 'dpbandits_errors_total{{instance="a", route="/x", status="503"}}', values: '0x30 1+1x30'}}
      - {{series: 'dpbandits_queue_seconds_sum{{instance="a"}}', values: '0+1x30 31+15x30'}}
      - {{series: 'dpbandits_queue_seconds_count{{instance="a"}}', values: '0+15x60'}}
      - series: 'dpbandits_request_seconds_bucket{{instance="a", route="{route}", le="0.5"}}'
        values: '0+9x30 270x30'
      - series: 'dpbandits_request_seconds_bucket{{instance="a", route="{route}", le="2.0"}}'
        values: '0+9x60'
      - series: 'dpbandits_request_seconds_bucket{{instance="a", route="{route}", le="+Inf"}}'
        values: '0+9x60'
      - {{series: 'dpbandits_release_lag_rounds{{instance="a", policy="offers"}}', values: '0x24 5x36'}}
      - {{series: 'dpbandits_budget_spent{{population="people", part="rho"}}', values: '0.5x30 0.95x30'}}
      - {{series: 'dpbandits_budget_limit{{population="people", part="rho"}}', values: '1x60'}}
      - {{series: 'dpbandits_other_bodies_total{{instance="a"}}', values: '0x30 1x30'}}
      - {{series: 'process_resident_memory_bytes{{job="dpbandits", instance="a"}}', values: '1e9x30 2e9x30'}}
    promql_expr_test:
      - expr: 'count(ALERTS{{alertstate="firing"}}) or vector(0)'
        eval_time: 14m
        exp_samples: [{{value: 0}}]
      - expr: 'count by (alertname) (ALERTS{{alertstate="firing"}})'
        eval_time: 24m
        exp_samples:
{expected}
"""


def alerts() -> list[dict[str, Any]]:
    import yaml

    [group] = yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def test_alerts_ask_for_metrics_and_labels_that_there_are(shop: Caller) -> None:
    shop.decide("visit-1")
    shown = shop.get("/metrics").text
    kept = set(re.findall(r"^((?:dpbandits|process)\w+)", shown, re.MULTILINE))
    kept |= set(re.findall(r"^# TYPE (\w+)", shown, re.MULTILINE))  # where nothing was counted yet
    assert f'route="{DECIDING}"' in shown
    reasons = set(re.findall(r'dpbandits_not_ready{.*reason="(\w+)"', shown))
    for rule in alerts():
        asked = set(re.findall(r"\b(?:dpbandits|process)_\w+", rule["expr"]))
        assert asked <= kept, rule["alert"]
        assert set(re.findall(r'route="(.+?)"', rule["expr"])) <= {DECIDING}
        assert set(re.findall(r'reason="(\w+)"', rule["expr"])) <= reasons
        told = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        by = re.search(r"by \(([\w, ]+)\)", rule["expr"])
        assert told <= (set(by[1].split(", ")) if by else {"instance"}), rule["alert"]


def test_the_pages_say_what_to_do_about_each_alert_and_name_files_that_there_are() -> None:
    guides = ROOT / "docs" / "guides"
    page = "".join((guides / name).read_text() for name in ("deploy.md", "operations.md"))
    assert re.findall(r"^\| `(Dpbandits\w+)` \|", page, re.MULTILINE) == [rule["alert"] for rule in alerts()]
    named = set(re.findall(r"`(?:deploy/)?([\w/]+\.(?:yaml|conf|sql|service)|Caddyfile)`", page))
    assert named - {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*")} == set()
    assert len(named) >= 9


def test_prometheus_reads_the_alerts_and_each_of_them_fires(tmp_path: Path) -> None:
    expected = "\n".join(
        f"          - {{labels: '{{alertname=\"{rule['alert']}\"}}', value: 1}}" for rule in alerts()
    )
    written = SERIES.format(rules=FOLDER / "alerts.yaml", expected=expected, route=DECIDING)
    (tmp_path / "test.yaml").write_text(written)
    done = subprocess.run(
        [program("promtool"), "test", "rules", str(tmp_path / "test.yaml")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


# -- systemd ---------------------------------------------------------------------------------------


def test_the_unit_serves_its_state_directory() -> None:
    unit = configparser.ConfigParser(strict=True, interpolation=None)
    unit.optionxform = str  # type: ignore[method-assign,assignment]
    unit.read(FOLDER / "dpbandits.service")
    service = unit["Service"]
    command = service["ExecStart"].split()
    assert Path(command[0]).name in PROJECT["scripts"]
    assert served_with(command[1:]) == {"--data": f"/var/lib/{service['StateDirectory']}"}
    assert (service["StateDirectoryMode"], service["UMask"]) == ("0700", "0077")
    assert service["User"]
    assert service["Environment"] == "DPBANDITS_INSTANCE=%H"
    assert unit["Install"]["WantedBy"] == "multi-user.target"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is what reads the unit")
def test_systemd_reads_the_unit(tmp_path: Path) -> None:
    text = (FOLDER / "dpbandits.service").read_text()
    program = tmp_path / "dpbandits"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / "dpbandits-of-a-test.service"
    unit.write_text(re.sub(r"/\S+/bin/dpbandits", str(program), text).replace("User=dpbandits", "User=root"))
    done = subprocess.run(
        [str(shutil.which("systemd-analyze")), "verify", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    said = [line for line in done.stderr.splitlines() if unit.name in line]
    assert (done.returncode, said) == (0, [])
