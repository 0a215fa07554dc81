"""A device needs NumPy and the standard library, and nothing else."""

import subprocess
import sys
import textwrap

DEVICE = textwrap.dedent(
    """
    import sys

    class OnlyNumPy:
        def find_spec(self, name, path=None, target=None):
            top = name.partition(".")[0]
            if top not in sys.stdlib_module_names and top not in ("numpy", "dpbandits"):
                raise ModuleNotFoundError(name)

    sys.meta_path.insert(0, OnlyNumPy())
    from dpbandits.local import Client, FileOutbox, Spec, PublishedArms
    from dpbandits.budget.sqlite import SQLiteLedger

    spec = Spec.from_json(sys.argv[1])
    policy = PublishedArms.from_json(sys.argv[2], spec)
    ledger, outbox = SQLiteLedger(sys.argv[3] + "/ledger"), FileOutbox(sys.argv[3] + "/outbox")
    client = Client(spec, account=ledger.account("local-reports"), outbox=outbox)
    client.choose(policy, [0.4, 0.6])
    report = client.report(1.0)
    for forbidden in ("scipy", "opendp", "pandas"):
        assert forbidden not in sys.modules, forbidden
    sys.stdout.write(report.hex())
    """
)


def test_the_client_runs_with_everything_else_blocked(tmp_path):
    from dpbandits.domains import Box
    from dpbandits.local import FileOutbox, Server, Spec
    from dpbandits.privacy import LocalDP

    spec = Spec(contexts=Box(low=[0, 0], high=[1, 1]), arms=range(3), privacy=LocalDP(epsilon=1.0))
    server = Server(spec)
    policy = server.publish()
    done = subprocess.run(
        [sys.executable, "-c", DEVICE, spec.to_json(), policy.to_json(spec), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = bytes.fromhex(done.stdout)
    assert server.absorb([report]).accepted == 1
    # what the device stored is what it would send again
    assert list(FileOutbox(tmp_path / "outbox").pending().values()) == [report]


GP_DEVICE = DEVICE[: DEVICE.index("from dpbandits.local")] + textwrap.dedent(
    """
    import numpy as np
    from dpbandits.local import Client, GPSpec, PublishedWeights

    class NoNoise:
        status = "simulated"

    spec = GPSpec.from_config(__import__("json").loads(sys.argv[1]), noise=NoNoise())
    published = PublishedWeights.from_json(sys.argv[2], spec)
    row = Client(spec).choose(published, np.array([[0.1], [0.9]]))
    for forbidden in ("scipy", "opendp", "pandas"):
        assert forbidden not in sys.modules, forbidden
    sys.stdout.write(str(row))
    """
)


def test_a_gaussian_process_device_chooses_with_everything_else_blocked():
    from dpbandits.domains import Box
    from dpbandits.local import GPSpec, Server
    from dpbandits.models.features import MercerFeatures
    from dpbandits.models.kernels import SquaredExponential
    from dpbandits.privacy import JointDP

    box = Box(low=[0], high=[1])
    features = MercerFeatures(kernel=SquaredExponential(lengthscale=0.3), domain=box, n_features=4)
    privacy = JointDP(epsilon=1.0, delta=1e-6)
    spec = GPSpec(domain=box, features=features, reward_range=(0, 1), privacy=privacy)
    done = subprocess.run(
        [sys.executable, "-c", GP_DEVICE, spec.to_json(), Server(spec).publish().to_json(spec)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout in ("0", "1")


PEOPLE_DEVICE = DEVICE[: DEVICE.index("from dpbandits.local")] + textwrap.dedent(
    """
    from dpbandits.local import Client, Spec, PublishedArms

    spec = Spec.from_json(sys.argv[1])
    published = PublishedArms.from_json(sys.argv[2], spec)
    arm = Client(spec).choose(published, {"age": 44, "region": "west"}, available=["mail", "call"])
    for forbidden in ("scipy", "opendp", "pandas"):
        assert forbidden not in sys.modules, forbidden
    sys.stdout.write(arm)
    """
)


def test_devices_of_people_choose_with_everything_else_blocked():
    import dpbandits as dpb
    from dpbandits.local import Server, Spec

    spec = Spec(
        contexts=dpb.Schema(age=dpb.Range(18, 90), region=dpb.Categories(["north", "west"])),
        arms=["mail", "call", "nothing"],
        privacy=dpb.LocalDP(epsilon=1),
    )
    done = subprocess.run(
        [sys.executable, "-c", PEOPLE_DEVICE, spec.to_json(), Server(spec).publish().to_json(spec)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout in ("mail", "call")


def test_the_block_would_catch_a_stray_import(tmp_path):
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            DEVICE.replace("spec = Spec", "import scipy\nspec = Spec"),
            "{}",
            "{}",
            str(tmp_path),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "ModuleNotFoundError: scipy" in done.stderr
