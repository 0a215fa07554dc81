"""Constructors under hostile values: the library's own error, or an object that can be shown."""

import importlib
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostile.attempts import attempt
from hostile.cases import CASES
from hostile.values import HOSTILE

ARGUMENTS = [(name, argument) for name, case in CASES.items() for argument in case.arguments]


@pytest.mark.parametrize("name", CASES)
def test_a_constructor_refuses_with_its_own_error_or_builds_something_that_can_be_shown(name):
    failures = {}
    for argument in CASES[name].arguments:
        for place, bad in enumerate(HOSTILE):
            _, error = attempt(name, argument, bad)
            if error is not None:
                failures[argument, place] = f"{type(bad).__name__}: {type(error).__name__}: {error}"
    assert not failures


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(
    place=st.sampled_from(ARGUMENTS),
    bad=st.floats() | st.integers() | st.lists(st.floats(), max_size=3) | st.text(max_size=3) | st.none(),
)
def test_and_under_values_that_nobody_thought_of(place, bad):
    assert attempt(*place, bad)[1] is None


@pytest.mark.parametrize("name", CASES)
def test_the_arguments_that_are_replaced_are_good_ones(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert repr(CASES[name].build(**CASES[name].arguments))


ROOMS = (
    "domains",
    "models.kernels",
    "models.features",
    "models.features.fourier",
    "models.trees.partition",
    "privacy",
    "privacy.prefix_sums",
    "privacy.reports",
    "privacy.rows",
    "policy",
    "central",
    "central.published",
    "distributed",
    "local",
    "outsourced",
    "lab.baselines",
    "tables",
)

# Records that the library fills in, protocols and abstract classes, exceptions, and objects over others that
# have tests of bad input of their own (named beside them).
ELSEWHERE = {
    "domains": {"Domain", "Product"},  # tests/domains
    "tables": {"ColumnCheck", "Schema", "TableCheck"},  # tests/tables
    "models.kernels": {"Kernel", "ProductKernel", "SumKernel"},  # tests/models/test_kernels.py
    "models.features": {"Features", "LittleVariance", "Placed"},  # tests/models/test_supports.py
    "models.trees.partition": {"TieRule"},
    "privacy": {
        "Assumption",
        "Certificate",
        "DPBanditsWarning",
        "Guarantee",  # tests/privacy/test_guarantee.py
        "LargeDelta",
        "MechanismRecord",
        "NoPrivacy",
        "NoiseSource",
        "Observer",
    },
    "privacy.reports": {"FloatingLaplace", "Moments", "ReportMechanism"},
    "privacy.rows": {"NoiseLaw", "RowMechanism"},
    "policy": {
        "RoundPolicy",
        "Decision",
        "DecisionBatch",
        "KeptPolicy",
        "Policy",
        "PolicyOptions",
        "Receipt",
    },  # tests/policy, tests/contracts
    "central": {
        "Answer",
        "ContextLaw",
        "ExpectedError",
        "ExploreTuning",  # inside a policy, in CASES
        "GPTuning",
        "NothingReleased",
        "NothingToLearn",
        "PrivateValue",
        "PrivateValues",  # tests/central/logged/test_evaluation.py
        "PublishedCells",  # tests/central/logged/test_policy.py
        "PublishedFunction",
        "PublishedPosterior",  # tests/central/test_published_posterior.py
        "PublishedTable",  # tests/central/logged/test_logged_table.py
        "Shard",
    },
    "distributed": {
        "Aggregate",
        "Collector",
        "DapCollector",
        "DapTask",
        "Device",
        "DistributedTuning",  # inside a spec, in CASES
        "IdealAggregation",
        "PublishedVersion",
        "PublishedCellArms",
        "PublishedTableArms",
        "Report",
        "Task",
    },  # tests/distributed
    "lab.baselines": {"CrudeTuning", "GPUCBTuning"},  # inside a policy, in CASES
    "local": {
        "Client",  # tests/local/test_client_and_outbox.py
        "DurableServer",
        "FileOutbox",
        "GPSpecTuning",  # inside a spec, in CASES
        "MemoryOutbox",
        "PublishedArms",  # tests/fuzz
        "PublishedQuestions",  # tests/fuzz, tests/local/test_questions.py
        "ReportKey",  # tests/local/test_forgers.py
        "Server",  # tests/local/test_server_absorbs.py, tests/fuzz
        "SpecTuning",  # inside a spec, in CASES
    },
    "outsourced": {
        "Command",
        "Curator",
        "CuratorTuning",
        "PipeAnswers",
        "SecretDirectory",
    },  # tests/outsourced
}


@pytest.mark.parametrize("room", ROOMS)
def test_every_class_that_a_user_builds_is_here_or_named_as_tested_elsewhere(room):
    module = importlib.import_module(f"dpbandits.{room}")
    classes = {name for name in module.__all__ if isinstance(getattr(module, name, None), type)}
    built = {case.build for case in CASES.values()} | {
        getattr(case.build, "__self__", None) for case in CASES.values()
    }
    here = {name for name in classes if getattr(module, name) in built}
    missing = classes - here - ELSEWHERE.get(room, set())
    assert not missing, f"{room}: give {sorted(missing)} a case in hostile/cases.py"
    assert ELSEWHERE.get(room, set()) <= set(module.__all__)
