# `make demo` and `make test` each go from nothing to working, alone.

PYTHON := .venv/bin/python
READY := .venv/.ready
# Beside .venv, and on top of it: what environments' extras need, some of it compiled.
EXTRAS := .venv-environments
EXTRAS_PYTHON := $(EXTRAS)/bin/python
EXTRAS_READY := $(EXTRAS)/.ready

# Compiled modules are kept: from source LiteLLM is imported for ten seconds, not four, each time.
export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := $(READY)
.PHONY: demo test test-environments lint lock clean house mutants

demo: $(READY)
	@$(PYTHON) -m commands.embedded

# More processes than the two cores that this is meant for, since many tests wait for a server or a clock.
test: $(READY) lint
	$(PYTHON) -m pytest -n 4 --dist loadfile --no-loadscope-reorder --tb native

# The environments of the extras `puzzles` and `textworld`. Needs gcc, make and Python's headers.
test-environments: $(READY) $(EXTRAS_READY)
	$(EXTRAS_PYTHON) -m pytest -n 2 --dist loadfile tests/environments

lint: $(READY)
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports --no-logo

$(READY): requirements.lock make-venv.sh pyproject.toml
	@sh make-venv.sh
	@touch $@

$(EXTRAS_READY): requirements-environments.lock $(READY)
	rm -rf $(EXTRAS)
	$(PYTHON) -m venv --without-pip $(EXTRAS)
	$(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
	    > $$($(EXTRAS_PYTHON) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/base.pth
	$(EXTRAS_PYTHON) -m pip install --quiet --disable-pip-version-check --no-input --no-compile \
	    --require-hashes --no-deps --no-build-isolation --requirement requirements-environments.lock
	@touch $@

# What the house measures, and whether planted faults are found.
house: $(READY)
	$(PYTHON) -m bench.house

mutants: $(READY)
	$(PYTHON) -m bench.mutants

# Needs uv. Names, versions and hashes only, so that any index can serve them.
lock:
	uv pip compile pyproject.toml --extra demo --group dev --universal --python-version 3.11 \
	    --generate-hashes --no-emit-index-url --no-header --quiet --output-file requirements.lock
	$(PYTHON) -c 'import tomllib; extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]; \
	    print(*extras["puzzles"], *extras["textworld"], sep="\n")' | \
	uv pip compile - --constraint requirements.lock --universal --python-version 3.11 \
	    --generate-hashes --no-emit-index-url --no-header --quiet --output-file requirements-environments.lock

clean:
	rm -rf .venv $(EXTRAS) build
