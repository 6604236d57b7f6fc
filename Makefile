# `make demo` and `make test` each go from nothing to working, alone.

PYTHON := .venv/bin/python
READY := .venv/.ready

# Compiled modules are kept: from source LiteLLM is imported for ten seconds, not four, each time.
export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := $(READY)
.PHONY: demo test lint lock clean house mutants

demo: $(READY)
	@$(PYTHON) -m commands.embedded

# More processes than the two cores that this is meant for, since many tests wait for a server or a clock.
test: $(READY) lint
	$(PYTHON) -m pytest -n 4 --dist loadfile --no-loadscope-reorder --tb native

lint: $(READY)
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports --no-logo

$(READY): requirements.lock make-venv.sh pyproject.toml
	@sh make-venv.sh
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

clean:
	rm -rf .venv build
