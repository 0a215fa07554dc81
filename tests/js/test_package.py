"""The npm package: its own tests, its size, and that nothing in it draws otherwise."""

import json
import re

import pytest

from js.driver import JS, NODE, needs_node, run

SOURCES = sorted((JS / "src").glob("*.js"))
LARGEST = 13.5 * 1024
needs_modules = pytest.mark.skipif(
    NODE is None or not (JS / "node_modules").exists(),
    reason="js/node_modules is not there: `make js` or `npm ci` in js/ installs it",
)


@needs_modules
def test_its_own_tests_pass() -> None:
    done = run("--test", "test/device.test.js", "test/distributed.test.js", FAST_CHECK_RUNS="200")
    assert "fail 0" in done.stdout
    assert int(re.findall(r"pass (\d+)", done.stdout)[-1]) >= 16


@needs_modules
def test_it_is_small() -> None:
    printed = run("build.js").stdout
    sizes = dict(re.findall(r"dist/(\w+)\.js (\d+) bytes", printed))
    assert 9_000 < int(sizes["dpbandits"]) < LARGEST


def test_it_depends_on_nothing_and_draws_from_one_source() -> None:
    package = json.loads((JS / "package.json").read_text())
    assert not package.keys() & {"dependencies", "optionalDependencies"}
    # what a page of two aggregators installs beside it, and no other page
    assert package["peerDependencies"] == {"@divviup/dap": "0.9.1"}
    assert package["peerDependenciesMeta"] == {"@divviup/dap": {"optional": True}}
    assert {path.stem for path in SOURCES} >= {"index", "device", "contract", "law", "words", "mechanisms"}
    for path in SOURCES:
        text = path.read_text()
        assert "Math.random" not in text, path
        assert all(name.startswith("./") for name in re.findall(r'from "(.+?)"', text)), path
        drawn = path.stem in ("words", "local")  # words, and the nonce
        assert ("getRandomValues" in text) == drawn, path


@needs_node
def test_types_name_what_is_exported() -> None:
    for name in ("index", "statement", "decide", "distributed"):
        script = f'console.log(JSON.stringify(Object.keys(await import("./src/{name}.js"))))'
        exported = set(json.loads(run("--input-type=module", "--eval", script).stdout))
        types = (JS / "src" / f"{name}.d.ts").read_text()
        named = set(re.findall(r"export (?:function|class) (\w+)", types)) - {"Device"}
        assert exported - {"Device"} == named
