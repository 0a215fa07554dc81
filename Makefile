# Everything done twice has a target. Each needs only Python 3.11+, make and a package index: it builds
# its own environment in .venv and installs again only when pyproject.toml has changed.

VENV ?= .venv
# The interpreter to build .venv with; found by itself when not given.
PYTHON ?=
# Processes that `make run` and `make docs` may use; their own default when not given.
JOBS ?=
# Processes that the tests run in: one more than there are cores, because tests also wait for disks, timers
# and servers. 0 runs them in a single process, as a debugger needs.
WORKERS ?= $(shell $(PY) -c "import os; print(os.cpu_count() + 1)")
# Passed on to `dpbandits run`, and to pytest by the test targets.
ARGS ?=

# What `dpbandits run` imports besides the core, and not more: it is a newcomer's first wait.
RUN_EXTRAS := report,datasets

# What `make run` shows of each paper: a quarter of a minute in all. `make reproduce` lists everything.
SAMPLES := 'dubey2021 figure-1 --reps 2' 'ma2025 figure-6 --reps 2' \
	'pavlovic2025 errors --rounds 1000 --epsilon 1 --reps 2' 'kharkovskii2020 attack'

# Matrices here are small: threads inside one product cost more than they save, and JOBS share the cores.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

# Bytecode is kept whatever the environment says: tests start hundreds of processes, and each would compile
# the library anew; pytest would rewrite every test file in every worker.
export PYTHONDONTWRITEBYTECODE :=

PARALLEL = --numprocesses $(WORKERS) --dist worksteal

PY := $(VENV)/bin/python
INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check --editable

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help run reproduce items serve demo js test coverage test-slow test-numerics test-optimised test-portable fuzz lint format docs bench bench-commits release-check clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo '  Variables: ARGS="..." JOBS=n WORKERS=n PYTHON=/path/to/python VENV=folder'

run: $(VENV)/.run ## Run the study of people and a short item of each paper into ./report (ARGS: `dpbandits run` alone)
	$(VENV)/bin/dpbandits run --force $(if $(JOBS),--jobs $(JOBS)) $(ARGS)
	$(if $(ARGS),,for item in $(SAMPLES); do $(PY) -m reproduction $$item --out report/papers || exit; done)

reproduce: $(VENV)/.run ## List what is reproduced of the papers, or run one (ARGS="dubey2021 figure-1 --reps 2")
	$(PY) -m reproduction $(ARGS)

items: $(VENV)/.run ## Write a line for every element of the papers into reproduction/ITEMS.md
	$(PY) -m reproduction.verdicts $(ARGS)

serve: $(VENV)/.serve ## Serve private decisions over HTTP from ./dpbandits-data (ARGS go to `dpbandits serve`)
	$(VENV)/bin/dpbandits serve $(ARGS)

# Two aggregators in Node, for `make demo ARGS="--trust distributed"` and tests.
AGGREGATORS := tests/distributed/aggregators
# Their database is compiled with the headers that Node came with, if it has some: npm would download others.
HEADERS = home=$$(node -p 'path.resolve(process.execPath, "../..")'); \
	if [ -f "$$home/include/node/node.h" ]; then export npm_config_nodedir="$$home"; fi;

demo: $(VENV)/.serve $(if $(findstring distributed,$(ARGS)),$(AGGREGATORS)/node_modules) ## Show private reports of 2,000 pages (ARGS="--trust distributed": two aggregators)
	$(PY) examples/demo/serve.py $(ARGS)

js: ## Measure, check and test the device in JavaScript (needs node and npm)
	npm ci --prefix js --no-audit --no-fund
	npm ci --prefix tests/distributed/aggregators --no-audit --no-fund
	npm run --prefix js build
	npm run --prefix js types
	FAST_CHECK_RUNS=100000 npm test --prefix js

# What tests of the device in JavaScript need; without npm they say so and are skipped.
js/node_modules: js/package-lock.json
	@if command -v npm >/dev/null; then npm ci --prefix js --no-audit --no-fund --silent && touch $@; \
	else echo 'There is no npm: tests that need it are skipped.' >&2; fi

$(AGGREGATORS)/node_modules: $(AGGREGATORS)/package-lock.json
	@if command -v npm >/dev/null; then $(HEADERS) npm ci --prefix $(AGGREGATORS) --no-audit --no-fund --loglevel error && touch $@; \
	else echo 'There is no npm: tests that need it are skipped.' >&2; fi

test: $(VENV)/.dev js/node_modules $(AGGREGATORS)/node_modules ## Run the tests and doctests
	$(PY) -m pytest $(PARALLEL) $(ARGS)

coverage: $(VENV)/.dev js/node_modules $(AGGREGATORS)/node_modules ## The same, and which lines no test runs (half as long again)
	$(PY) -m pytest $(PARALLEL) --cov --cov-report=term $(ARGS)

test-slow: $(VENV)/.dev ## Run the long tests too
	$(PY) -m pytest $(PARALLEL) -m "slow or not slow" --timeout 1800 $(ARGS)

test-numerics: $(VENV)/.dev ## Run the tests marked numerics under every BLAS kernel that the processor can run
	$(PY) tests/numerics/run.py $(PARALLEL) $(ARGS)

mutations: $(VENV)/.dev ## Seed privacy bugs into a copy of the package: every one must be caught
	$(PY) tests/mutations/run.py --out reproduction/results/mutations.json $(ARGS)

faults: $(VENV)/.dev ## Kill, fill disks, tear writes, race: nothing may be lost, spent twice or released twice
	$(PY) tests/faults/run.py --out reproduction/results/faults.json $(ARGS)

lint: $(VENV)/.dev ## Check style, types, import layers and cycles, private names, and words
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy
	$(VENV)/bin/lint-imports --no-logo
	$(PY) tests/lint/private_names.py --tests
	$(PY) tests/lint/import_cycles.py
	$(PY) tests/lint/words.py

format: $(VENV)/.dev ## Rewrite the code in the project's format
	$(PY) -m ruff check --fix
	$(PY) -m ruff format

docs: $(VENV)/.dev ## Build the documentation and run its code, warnings as errors
	$(PY) -m sphinx --fail-on-warning --keep-going $(if $(JOBS),--jobs $(JOBS)) --builder html docs docs/_build/html
	$(PY) -m sphinx --fail-on-warning --keep-going --quiet --builder doctest --doctree-dir docs/_build/html/.doctrees \
		docs docs/_build/doctest

bench-commits: $(VENV)/.dev ## Measure speed, memory and regret of commits (ARGS="v0.1.0..main"; without: of this one)
	$(INSTALL) '.[dev,bench]'
	$(VENV)/bin/asv machine --yes
	$(VENV)/bin/asv run $(if $(ARGS),$(ARGS),HEAD^!) --show-stderr

release-check: ## Build wheel and sdist, and use them in clean environments of every Python that is here
	$(if $(PYTHON),$(PYTHON),python3) tests/release/check.py build/release $(ARGS)

fuzz: $(VENV)/.dev ## Fuzz every parser, a million inputs each (ARGS go to `fuzz.run`)
	$(INSTALL) '.[dev,fuzz]'
	cd tests && $(abspath $(PY)) -m fuzz.run --out ../reproduction/results/fuzzing.json $(if $(JOBS),--jobs $(JOBS)) $(ARGS)

# The packages that work without POSIX, as on Windows.
PORTABLE := privacy models tables domains policy central local outsourced

test-portable: $(VENV)/.dev ## Run the tests of what works in memory with POSIX hidden, as on Windows; four of five must pass
	PYTHONPATH=tests $(PY) -m pytest -p without_posix $(PARALLEL) $(PORTABLE:%=tests/%) $(ARGS)

test-optimised: $(VENV)/.dev ## Run the tests with asserts stripped from the library (python -O)
	$(PY) -O -m pytest -W ignore::pytest.PytestConfigWarning $(ARGS)

bench: $(VENV)/.dev ## Measure time and memory of steps, beside bare NumPy and other libraries
	$(INSTALL) '.[dev,bench]'
	$(PY) -m benchmarks.contexts
	$(PY) -m benchmarks.products
	$(PY) -m benchmarks.threads
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(PY) -m benchmarks.run --out reproduction/results/speed.json $(ARGS)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(PY) -m benchmarks.peers

clean: ## Delete what the targets made, except .venv and reports
	rm -rf build dist docs/_build docs/auto_examples docs/jupyter_execute docs/sg_execution_times.rst
	rm -rf .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests docs reproduction benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.python:
	@for python in $(or $(PYTHON),python3.11 python3 python3.12 python3.13 python3.14 python); do \
		if "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
			echo "Building $(VENV) with $$python"; \
			"$$python" -m venv $(VENV) && touch $@; \
			exit; \
		fi; \
	done; \
	echo 'Need Python 3.11 or newer with its venv module (Debian and Ubuntu: python3-venv).' >&2; \
	echo 'Install it, or name one: make PYTHON=/path/to/python3.11' >&2; \
	exit 1

$(VENV)/.run: pyproject.toml | $(VENV)/.python
	$(INSTALL) '.[$(RUN_EXTRAS)]'
	@touch $@

$(VENV)/.serve: pyproject.toml | $(VENV)/.python
	$(INSTALL) '.[service,encryption]'
	@touch $@

# The developer's environment holds the user's.
$(VENV)/.dev: pyproject.toml | $(VENV)/.python
	$(INSTALL) '.[dev]'
	@touch $(VENV)/.run $(VENV)/.serve $@
