"""Every parser of the library as a function of bytes, with seeds that it accepts.

A parser may return or raise a `DPBanditsError`; a target raises anything else that escaped. Files of a
target live in a folder of its own, in memory where the system has such a place.
"""

import hashlib
import io
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Literal
from unittest.mock import patch

import numpy as np

import dpbandits as dpb
from dpbandits import domains
from dpbandits.central import GPBandit, GPTuning, PublishedPosterior
from dpbandits.central.published import Dubey2021
from dpbandits.errors import InvalidParameter
from dpbandits.export import growthbook
from dpbandits.export.decisions import read as read_exported
from dpbandits.lab.baselines import ConstantArm, Uniform
from dpbandits.local import (
    Client,
    GPSpec,
    PublishedArms,
    ReadoutSpec,
    ReportCounts,
    Robust,
    Server,
    SourceSpec,
    Spec,
)
from dpbandits.local.contract.gp_spec import PublishedWeights
from dpbandits.local.server.aggregation import read_counts, read_records, write_counts, write_reports
from dpbandits.local.server.durable import packed_counts
from dpbandits.models import features, kernels, measures
from dpbandits.models.features import ArmFeatures, MercerFeatures
from dpbandits.models.features.fourier import QuadratureFourierFeatures
from dpbandits.models.features.people import arm_features
from dpbandits.outsourced import Modeler, PublishedRows
from dpbandits.policy import RoundPolicy
from dpbandits.privacy import certificates, definitions, noise
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.privacy.rows import noise_laws
from dpbandits.service import surveys
from dpbandits.service.store import SQLiteStore
from dpbandits.service.surveys import SharedServer
from dpbandits.state import State
from dpbandits.state.format import PREFIX, decode, encode
from dpbandits.tables.menu import Menu
from flat import spec_with
from fuzz.folders import FOLDERS
from fuzz.target import (
    Target,
    any_json,
    as_json,
    as_text,
    decoded,
    forged_file,
    header_of,
    listed_arrays,
    new_folder,
    whole_file,
)

__all__ = ["TARGETS", "Target", "target"]


BOX = dpb.Box(low=[0.0, 0.0], high=[1.0, 1.0])
PEOPLE = dpb.Schema(age=dpb.Range(18, 90), region=dpb.Categories(["n", "s"]))
PERSON = {"age": [18], "region": ["n"]}
ARM_ROWS = np.array([[0.0], [1.0], [2.0]])
KERNEL = dpb.kernels.SquaredExponential(lengthscale=0.5)


# -- state ------------------------------------------------------------------------------------------

_STATE = State(
    kind="k",
    version=1,
    lineage="ab",
    position=3,
    public={"seed": 7},
    secret={"count": 5},
    arrays={"sums": np.arange(6.0).reshape(2, 3), "flags": np.array([True, False])},
)


def _state_file() -> Target:
    return Target(parse=decoded, seeds=(encode(_STATE)[0],), form="bytes")


def _state_header() -> Target:
    data = encode(_STATE)[0]
    header = header_of(data)
    payload = data[PREFIX.size + len(header) :]
    return Target(parse=lambda text: decoded(forged_file(text, payload)), seeds=(header,), form="json")


def _state_array() -> Target:
    fields = json.loads(header_of(encode(_STATE)[0]))

    def parse(npy: bytes) -> object:
        entry = {"name": "x", "bytes": len(npy), "sha256": hashlib.sha256(npy).hexdigest()}
        return decoded(forged_file(as_json({**fields, "arrays": [entry]}), npy))

    seeds = []
    for array in (np.arange(6.0).reshape(2, 3), np.array([True, False]), np.zeros((0, 2), dtype=np.int64)):
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        seeds.append(buffer.getvalue())
    return Target(parse=parse, seeds=tuple(seeds), form="bytes")


def _saved_policies() -> tuple[RoundPolicy, ...]:
    common: dict[str, Any] = {"domain": BOX, "reward_range": (0.0, 1.0), "horizon": 8}
    private = {**common, "privacy": dpb.JointDP(epsilon=1, delta=1e-6, user_ids=False)}
    private |= {"noise": noise.SimulatedNoise(0)}
    small = QuadratureFourierFeatures(kernel=dpb.kernels.SquaredExponential(lengthscale=1.0), dim=2, nodes=2)
    return (
        Uniform(**common),
        ConstantArm(arm=1, domain=domains.Arms(3), reward_range=(0.0, 1.0), horizon=8),
        GPBandit(**private, tuning=GPTuning(blocks=[2, 5], features=small)),
        Dubey2021(**private, features=small),
    )


def _policy_state() -> Target:
    """A whole saved policy whose header and arrays say what they like, its checksums right."""
    path = new_folder() / "policy.state"
    seeds, kinds = [], {}
    for policy in _saved_policies():
        kinds[policy.kind] = type(policy)
        for reward in (0.2, 0.9, 0.4):
            rows = (
                policy.domain.sample(3, np.random.default_rng(0))
                if policy.kind != ConstantArm.kind
                else ARM_ROWS
            )
            policy.tell(policy.ask(rows).id, reward)
        policy.save(path)
        data = path.read_bytes()
        fields = json.loads(header_of(data))
        with io.BytesIO(data) as file:
            state, _ = decode(file, len(data))
        seeds.append(as_json({**fields, "arrays": listed_arrays(state)}))
        path.unlink()

    def parse(data: bytes) -> object:
        found = whole_file(data)
        if found is None:
            return None
        fields, forged = found
        path.write_bytes(forged)
        kind = kinds.get(fields["kind"], GPBandit)
        policy = kind.load(path)
        policy.predict(policy.domain.sample(2, np.random.default_rng(0)))
        return repr(policy)

    return Target(parse=parse, seeds=tuple(seeds), form="json")


# -- configurations -----------------------------------------------------------------------------------


def _configurations() -> Target:
    """Domains, schemas, kernels, features, measures, definitions, certificates, noise, laws, by a label."""
    readers: dict[str, Callable[[Any], object]] = {
        "domain": domains.from_config,
        "schema": dpb.Schema.from_config,
        "kernel": kernels.from_config,
        "features": features.from_config,
        "cells": measures.CellMeasure.from_config,
        "definition": definitions.from_config,
        "certificate": certificates.from_config,
        "noise": noise.from_config,
        "law": noise_laws.from_config,
    }
    mercer = MercerFeatures(kernel=KERNEL, domain=BOX, n_features=3, n_landmarks=8, seed=0)
    examples: list[tuple[str, Any]] = [
        ("domain", BOX),
        ("domain", domains.Ball(centre=[0.0, 0.0], radius=2.0)),
        ("domain", domains.Finite(points=[[0.0], [1.0]])),
        ("domain", domains.Product(BOX, domains.Arms(3))),
        ("domain", domains.Arms(["a", 2, 0.5, True])),
        ("schema", dpb.Schema(age=dpb.Range(16, 64), region=dpb.Categories(["n", "s"]))),
        ("kernel", 0.5 * kernels.Matern(nu=1.5, lengthscale=(0.1, 0.2)) + kernels.Indicator(columns=(2,))),
        ("features", mercer),
        ("features", ArmFeatures(base=mercer, arm_column=2, n_arms=2)),
        ("features", mercer.written_out()),
        ("features", QuadratureFourierFeatures(kernel=KERNEL, dim=2, nodes=3)),
        ("cells", measures.CellMeasure.uniform(low=0.0, high=1.0, cells=3)),
        ("definition", dpb.JointDP(epsilon=1, delta=1e-6)),
        ("definition", dpb.RowDP(epsilon=1, distance=1.0)),
        ("certificate", certificates.GaussianDP(0.3)),
        ("certificate", certificates.ZeroConcentratedDP(0.1)),
        ("noise", noise.SimulatedNoise(3)),
        ("noise", noise.SecureNoise()),
        ("law", noise_laws.GaussianLaw(dim=2, deviation=0.5)),
    ]

    def build(value: Any) -> object:
        if not isinstance(value, list) or len(value) != 2 or not isinstance(value[0], str):
            return None
        reader = readers.get(value[0])
        return None if reader is None or not isinstance(value[1], dict) else reader(value[1])

    seeds = tuple(as_json([label, part.to_config()]) for label, part in examples)
    return Target(parse=any_json(build), seeds=seeds, form="json")


def _policy_configurations() -> Target:
    policies = _saved_policies()
    kinds = {policy.kind: type(policy) for policy in policies}

    def build(value: Any) -> object:
        if not isinstance(value, dict):
            return None
        name = value.get("policy")
        kind = kinds.get(name, GPBandit) if isinstance(name, str) else GPBandit
        return kind.from_config(value)

    built = (*policies, _bandit_of_people())
    return Target(parse=any_json(build), seeds=tuple(as_json(p.to_config()) for p in built), form="json")


def _bandit_of_people() -> GPBandit:
    return GPBandit(
        contexts=PEOPLE,
        arms=["mail", 2],
        reward_range=(0.0, 1.0),
        horizon=8,
        privacy=dpb.JointDP(epsilon=1, delta=1e-6, user_ids=False),
        noise=noise.SimulatedNoise(0),
        tuning=GPTuning(
            blocks=[2, 5],
            features=arm_features(
                Menu(contexts=PEOPLE, arms=["mail", 2]).domain, n_features=2, n_landmarks=4
            ),
        ),
    )


def _published_posterior() -> Target:
    """What is read decides for somebody, and says the same again."""
    bandit = _bandit_of_people()
    before = bandit.publish().to_json()
    for reward in (0.2, 0.9, 0.4):
        bandit.tell(bandit.ask({"age": 40, "region": "s"}).id, reward)
    of_points = _saved_policies()[2]
    texts = [before, bandit.publish().to_json(), of_points.publish().to_json()]  # type: ignore[attr-defined]

    def parse(data: bytes) -> object:
        read = PublishedPosterior.from_json(as_text(data))
        if PublishedPosterior.from_json(read.to_json()).to_json() != read.to_json():
            raise AssertionError("a function that comes back otherwise")
        return read.predict(read.domain.sample(1, np.random.default_rng(0)) if read.menu is None else PERSON)

    return Target(parse=parse, seeds=tuple(text.encode() for text in texts), form="json")


def _exported_policy() -> Target:
    """What is read has decided for somebody, and has leaves or says why not."""
    bandit, spec = _bandit_of_people(), _spec()
    for reward in (0.2, 0.9, 0.4):
        bandit.tell(bandit.ask({"age": 40, "region": "s"}).id, reward)
    bins = PublishedArms(version=3, splits=(0, 2), arms=np.array([0, 1, 0]))
    named = Spec(contexts=PEOPLE, arms=["a", "b"], privacy=dpb.LocalDP(epsilon=2.0))
    asked = Server(named).publish().to_decisions(named)
    tables = GPBandit(
        contexts=PEOPLE, arms=["a", 2], reward_range=(0.0, 1.0), horizon=8, privacy=dpb.JointDP(epsilon=1)
    )
    effects = tables.publish(prior=True).to_decisions()
    texts = [bandit.publish().to_decisions(), bins.to_decisions(spec), asked, effects]

    def parse(data: bytes) -> object:
        policy = read_exported(as_text(data))
        with suppress(InvalidParameter):
            growthbook(as_text(data), "offers")
        return policy

    return Target(parse=parse, seeds=tuple(text.encode() for text in texts), form="json")


def _guarantee() -> Target:
    texts = tuple(policy.guarantee.to_json().encode() for policy in _saved_policies())

    def parse(data: bytes) -> object:
        return repr(Guarantee.from_json(as_text(data)))  # reading one explains it

    return Target(parse=parse, seeds=texts, form="json")


# -- local --------------------------------------------------------------------------------------------


def _spec(**changes: Any) -> Spec:
    arguments: dict[str, Any] = {
        "contexts": BOX,
        "arms": range(3),
        "privacy": dpb.LocalDP(epsilon=2.0),
        "learner": "tree",
        "reports_per_version": 4,
        "max_leaves": 16,
    }
    return spec_with(**(arguments | changes))


def _partition_spec() -> Target:
    seeds = tuple(
        spec.to_json().encode()
        for spec in (
            _spec(),
            _spec(mechanism="oue", chooser="client"),
            _spec(learner="ma2025", n_users=100),
            Spec(contexts=PEOPLE, arms=["mail", 2], privacy=dpb.LocalDP(epsilon=2.0)),
        )
    )
    return Target(parse=lambda data: Server(Spec.from_json(as_text(data))), seeds=seeds, form="json")


def _published_policy() -> Target:
    spec = _spec(chooser="client")
    server = Server(spec)
    policy = PublishedArms(version=1, splits=(0, 1), weights=np.full((3, 3), 1.0 / 3.0))

    def parse(data: bytes) -> object:
        return Client(spec).decide(PublishedArms.from_json(as_text(data), spec), [0.3, 0.6])

    law = replace(policy, mean=np.full((3, 3), 0.5), sd=np.full((3, 3), 0.1))
    return Target(
        parse=parse,
        seeds=tuple(one.to_json(spec).encode() for one in (server.publish(), policy, law)),
        form="json",
    )


def _questions(spec: Spec) -> Target:
    server = Server(spec)

    def parse(data: bytes) -> object:
        read = PublishedArms.from_json(as_text(data), spec)
        if PublishedArms.from_json(read.to_json(spec), spec).lineage(spec) != read.lineage(spec):
            raise AssertionError("a version that comes back otherwise")
        return Client(spec).decide(read, [0.3] * spec.dim)

    seeds = tuple(one.to_json(spec).encode() for one in (server.publish(), server.estimate()))
    return Target(parse=parse, seeds=seeds, form="json")


def _published_questions() -> Target:
    return _questions(_spec(learner="questions", chooser="server", mechanism="auto", arms=range(5)))


def _published_columns() -> Target:
    """Versions that name the columns that they are over."""
    box = dpb.Box(low=[0.0] * 9, high=[1.0] * 9)
    return _questions(
        _spec(learner="questions", chooser="server", mechanism="auto", arms=range(5), contexts=box)
    )


def _reports(mechanism: str) -> Target:
    """One report, twice, cut and lengthened; the server's nonces grow with what it accepts."""
    spec = _spec(mechanism=mechanism)
    server, client = Server(spec), Client(spec, budget=100.0)
    policy = server.publish()
    seeds = []
    for context in ([0.1, 0.2], [0.7, 0.8], [0.4, 0.9]):
        client.choose(policy, context)
        seeds.append(client.report(1.0))

    def parse(data: bytes) -> object:
        return server.absorb([data, data, data[:-1], data + b"x"]).accepted

    return Target(parse=parse, seeds=tuple(seeds), form="bytes", drops=True)


def _source(**changes: Any) -> SourceSpec:
    target = _spec(chooser="server", mechanism="auto")
    arguments: dict[str, Any] = {
        "target": target,
        "name": "past",
        "n_users": 500,
        "privacy": dpb.LocalDP(epsilon=2.0),
    }
    return SourceSpec(**(arguments | changes))


def _source_spec() -> Target:
    """A source's contract; what is taken makes a server, and says the same again."""
    sources = (
        _source(),
        _source(propensities=(0.2, 0.3, 0.5), looks=False),
        _source(propensities=((0.2, 0.3, 0.5), (1.0, 0.0, 0.0)), depth=1, mechanism="krr"),
        _source(chooser="server", reports_per_version=7),
    )

    def parse(data: bytes) -> object:
        source = SourceSpec.from_json(as_text(data))
        if SourceSpec.from_json(source.to_json()) != source:
            raise AssertionError("a spec that comes back otherwise")
        return Server(source.reports).publish(), hash(source), source.chances

    return Target(parse=parse, seeds=tuple(source.to_json().encode() for source in sources), form="json")


def _readout_spec() -> Target:
    """A readout's contract; what is taken makes a server and a report, and says the same again."""
    specs = _spec(chooser="client"), _spec(learner="questions", chooser="server", mechanism="auto")
    own: dict[str, Any] = {"privacy": dpb.LocalDP(epsilon=2.0), "n_users": 500}
    readouts = [
        ReadoutSpec(target=spec, policy=Server(spec).publish(), control=spec.arms[0], **own, **changes)
        for spec, changes in zip(specs, ({}, {"share": 0.1, "missing": 1.0, "seed": 7}), strict=True)
    ]

    def parse(data: bytes) -> object:
        spec = ReadoutSpec.from_json(as_text(data))
        if ReadoutSpec.from_json(spec.to_json()) != spec:
            raise AssertionError("a spec that comes back otherwise")
        server, client = Server(spec), Client(spec)
        client.choose(server.publish(), [0.5] * spec.target.dim)
        return server.absorb([client.report(0.5)]), hash(spec), spec.statement()

    return Target(parse=parse, seeds=tuple(one.to_json().encode() for one in readouts), form="json")


def _counted() -> tuple[Spec, list[PublishedArms], list[bytes]]:
    spec = _spec(mechanism="signed", epsilons=(1.0, 2.0))
    policy = Server(spec).publish()
    reports = []
    for epsilon in (1.0, 2.0, 2.0):
        client = Client(spec, budget=100.0, privacy=dpb.LocalDP(epsilon=epsilon))
        client.choose(policy, [0.1, 0.2])
        reports.append(client.report(1.0))
    return spec, [policy], reports


def _report_file() -> Target:
    """A file of reports as any bytes."""
    _, _, reports = _counted()
    folder = new_folder()
    write_reports(folder / "sound", reports)
    path = folder / "any"

    def parse(data: bytes) -> object:
        path.write_bytes(data)
        records, torn = read_records(path)
        if records.ndim != 2 or records.size + torn > len(data):
            raise AssertionError("more records than bytes")
        return records

    return Target(parse=parse, seeds=((folder / "sound").read_bytes(),), form="bytes")


def _counts() -> Target:
    """A whole file of counts whose header and arrays say what they like, its checksums right."""
    spec, policies, reports = _counted()
    path = new_folder() / "counts.state"
    counts = ReportCounts(spec, policies)
    counts.absorb(reports)
    write_counts(path, counts)
    data = path.read_bytes()
    state, fields = decoded(data)[0], json.loads(header_of(data))

    def parse(data: bytes) -> object:
        found = whole_file(data)
        if found is None:
            return None
        _, forged = found
        path.write_bytes(forged)
        read = read_counts(path)
        whole = ReportCounts(read.spec, [version.published for version in read.versions.values()])
        if whole.merge(read) != read.accepted:
            raise AssertionError("reports that vanish in a merge")
        return whole

    return Target(parse=parse, seeds=(as_json({**fields, "arrays": listed_arrays(state)}),), form="json")


def _survey_rows(table: str) -> Target:
    """What a worker reads of a local policy in the tables: counts of another one, or the state.

    Header and arrays say what they like, checksums are right.
    """
    spec, policies, reports = _counted()
    store = SQLiteStore(new_folder() / "service.db")
    counts = ReportCounts(spec, policies)
    counts.absorb(reports)
    with store.writing() as writes:
        writes.run("INSERT INTO surveys VALUES ('s', 's', 'people', ?, 0)", spec.to_json())
        SharedServer.begin(writes, "s", spec, policies[0])
        if table == "survey_log":
            writes.run("INSERT INTO survey_log VALUES ('s', 2, 'counted', ?)", packed_counts(counts))
    if table == "survey_states":
        with patch.object(surveys, "TAIL_ROWS", 1):  # so that it writes its state at once
            SharedServer(store, "s", spec).absorb(reports)
    with store.writing() as writes:
        row = writes.one(f"SELECT content FROM {table} WHERE survey = 's' ORDER BY number DESC")  # noqa: S608
    data = bytes(row[0]) if row else b""
    state, fields = decoded(data)[0], json.loads(header_of(data))

    def parse(data: bytes) -> object:
        found = whole_file(data)
        if found is None:
            return None
        with store.writing() as writes:
            change = f"UPDATE {table} SET content = ? WHERE survey = 's' AND number = 2"  # noqa: S608
            writes.run(change, found[1])
        server = SharedServer(store, "s", spec).server
        if server.totals.accepted < 0 or not server.open_versions:
            raise AssertionError("a server that cannot be")
        return server.publish(), server.absorb(reports)

    return Target(parse=parse, seeds=(as_json({**fields, "arrays": listed_arrays(state)}),), form="json")


def _robust_bounds() -> Target:
    """A server's bounds on forged reports: what is read says the same again."""

    def parse(data: bytes) -> object:
        read = Robust.from_json(data)
        if Robust.from_json(read.to_json()).mark != read.mark:
            raise AssertionError("bounds that come back otherwise")
        return repr(read)

    seeds = tuple(Robust(bytes(16 + n), groups=n).to_json() for n in (1, 5))
    return Target(parse=parse, seeds=seeds, form="json")


def _gp_spec() -> GPSpec:
    return GPSpec(
        domain=BOX,
        features=QuadratureFourierFeatures(kernel=KERNEL, dim=2, nodes=2),
        reward_range=dpb.RewardRange(0.0, 1.0),
        privacy=dpb.JointDP(epsilon=1, delta=1e-6),
    )


def _gp_reports() -> Target:
    spec = _gp_spec()
    server, client = Server(spec), Client(spec)
    client.choose(server.publish(), np.array([[0.1, 0.2], [0.7, 0.9]]))
    report = client.report(1.0)

    def parse(data: bytes) -> object:
        return server.absorb([data, data[:-1]]).accepted

    return Target(parse=parse, seeds=(report,), form="bytes", drops=True)


def _published_weights() -> Target:
    spec = _gp_spec()
    m = spec.features.n_features
    weights = PublishedWeights(version=1, mean=np.zeros(m), factor=np.eye(m))

    def parse(data: bytes) -> object:
        return Client(spec).decide(
            PublishedWeights.from_json(as_text(data), spec), np.array([[0.1, 0.2], [0.7, 0.9]])
        )

    return Target(parse=parse, seeds=(weights.to_json(spec).encode(),), form="json")


def _gp_configuration() -> Target:
    seeds = (as_json(_gp_spec().to_config()),)
    return Target(parse=any_json(_gp_from), seeds=seeds, form="json")


def _gp_from(value: Any) -> object:
    return GPSpec.from_config(value).protocol.release.sigma if isinstance(value, dict) else None


# -- outsourced ---------------------------------------------------------------------------------------


def _release() -> Target:
    """`release.json` with a right hash, whatever it says."""
    folder = new_folder()
    rows = np.linspace(-1.0, 1.0, 12).reshape(6, 2)
    PublishedRows.public(rows, half_width=25.0).save(folder / "a")
    body = json.loads((folder / "a" / "release.json").read_text())
    target = folder / "a" / "release.json"

    def build(value: Any) -> object:
        if isinstance(value, dict):
            bare = {key: field for key, field in value.items() if key != "sha256"}
            try:
                text = json.dumps(bare, sort_keys=True, separators=(",", ":"), allow_nan=False)
                value = {**bare, "sha256": hashlib.sha256(text.encode()).hexdigest()}
            except ValueError:
                pass
        target.write_text(json.dumps(value))
        release = PublishedRows.load(folder / "a")
        return Modeler(release, kernel=KERNEL, horizon=2).ask()

    return Target(parse=any_json(build), seeds=(as_json(body),), form="json")


def _release_file() -> Target:
    """`release.json` as any bytes."""
    folder = new_folder()
    PublishedRows.public(np.zeros((3, 2)), half_width=25.0).save(folder / "a")
    target = folder / "a" / "release.json"

    def parse(data: bytes) -> object:
        target.write_bytes(data)
        return PublishedRows.load(folder / "a")

    return Target(parse=parse, seeds=(target.read_bytes(),), form="json")


def _release_inputs(form: Literal["npy", "parquet"]) -> Target:
    """`inputs.npy` or `inputs.parquet` as any bytes, with a right hash."""
    folder = new_folder()
    PublishedRows.public(np.zeros((3, 2)), half_width=25.0).save(folder / "a", file_format=form)
    body = json.loads((folder / "a" / "release.json").read_text())
    inputs = folder / "a" / f"inputs.{form}"

    def parse(data: bytes) -> object:
        inputs.write_bytes(data)
        changed = {**body, "inputs": {**body["inputs"], "sha256": hashlib.sha256(data).hexdigest()}}
        del changed["sha256"]
        text = json.dumps(changed, sort_keys=True, separators=(",", ":"), allow_nan=False)
        changed["sha256"] = hashlib.sha256(text.encode()).hexdigest()
        (folder / "a" / "release.json").write_text(json.dumps(changed))
        return PublishedRows.load(folder / "a")

    return Target(parse=parse, seeds=(inputs.read_bytes(),), form="bytes")


def _modeler_configuration() -> Target:
    release = PublishedRows.public(np.linspace(-1.0, 1.0, 12).reshape(6, 2), half_width=25.0)
    config = Modeler(release, kernel=KERNEL, horizon=2).to_config()

    def build(value: Any) -> object:
        return Modeler.from_config(value, release).ask() if isinstance(value, dict) else None

    return Target(parse=any_json(build), seeds=(as_json(config),), form="json")


TARGETS: dict[str, Callable[[], Target]] = {
    "state-file": _state_file,
    "state-header": _state_header,
    "state-array": _state_array,
    "policy-state": _policy_state,
    "configurations": _configurations,
    "policy-configurations": _policy_configurations,
    "guarantee": _guarantee,
    "published-posterior": _published_posterior,
    "exported-policy": _exported_policy,
    "partition-spec": _partition_spec,
    "published-policy": _published_policy,
    "published-questions": _published_questions,
    "published-columns": _published_columns,
    "reports-signed": partial(_reports, "signed"),
    "reports-krr": partial(_reports, "krr"),
    "reports-oue": partial(_reports, "oue"),
    "reports-hadamard": partial(_reports, "hadamard"),
    "reports-laplace": partial(_reports, "laplace"),
    "source-spec": _source_spec,
    "readout-spec": _readout_spec,
    "report-file": _report_file,
    "counts": _counts,
    "survey-counts": partial(_survey_rows, "survey_log"),
    "survey-state": partial(_survey_rows, "survey_states"),
    "robust-bounds": _robust_bounds,
    "gp-reports": _gp_reports,
    "published-weights": _published_weights,
    "gp-configuration": _gp_configuration,
    "release-file": _release_file,
    "release": _release,
    "release-inputs": partial(_release_inputs, "npy"),
    "release-parquet": partial(_release_inputs, "parquet"),
    "modeler-configuration": _modeler_configuration,
    **FOLDERS,
}
"""Parsers by name; each is built when it is asked for."""


def target(name: str) -> Target:
    """The parser of this name."""
    return TARGETS[name]()
