"""Every parser under a few hundred wicked inputs, without a fuzzer; `make fuzz` runs a million each."""

import json
import random

import pytest

from fuzz.mutations import mutate_bytes, mutate_json
from fuzz.targets import TARGETS, target

MUTANTS = 150


@pytest.mark.filterwarnings("ignore::dpbandits.privacy.definitions.LargeDelta", "ignore::RuntimeWarning")
@pytest.mark.parametrize("name", TARGETS)
def test_parsers_take_their_own_and_answer_the_rest_with_their_own_errors(name):
    parser = target(name)
    assert all(parser(seed) for seed in parser.seeds)
    rng = random.Random(7)  # noqa: S311 - test inputs
    taken = 0
    for _ in range(MUTANTS):
        seed = rng.choice(parser.seeds)
        wild = parser.form == "bytes" or rng.random() < 0.2
        taken += parser(mutate_bytes(seed, rng) if wild else mutate_json(seed, rng))
    if not parser.drops:
        assert taken < MUTANTS, "the changes are too tame to mean anything"


def test_mutations_depend_on_their_random_numbers_alone():
    text = b'{"a": [1, 2.5, {"b": null}], "c": "d"}'
    once = [mutate_json(text, random.Random(number)) for number in range(50)]  # noqa: S311
    assert once == [mutate_json(text, random.Random(number)) for number in range(50)]  # noqa: S311
    assert len(set(once)) > 30


def test_mutations_stay_small():
    text = json.dumps([[0] * 1000, {"a": [0] * 1000}]).encode()
    longest = max(len(mutate_json(text, random.Random(number))) for number in range(500))  # noqa: S311
    assert longest < 20 * len(text)
