# `make demo` and `make test` each go from nothing to working, alone.

PYTHON := .venv/bin/python
READY := .venv/.ready
# torch's build for CPUs, of Python 3.11 on Linux x86-64; it is on an index of its own.
TORCH_CPU := sha256:6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b
NO_TORCH := torch can not be imported: this is its build for CUDA. Add the index of its CPU wheels to \
    PIP_EXTRA_INDEX_URL and repeat. Of another Python or system, set TORCH_CPU to the hash of its wheel, too.

# Compiled modules are kept: from source LiteLLM is imported for ten seconds, not four, each time.
export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := $(READY)
.PHONY: demo test test-environments test-train lint lock clean house mutants

demo: $(READY)
	@$(PYTHON) -m commands.embedded

# More processes than the two cores that this is meant for, since many tests wait for a server or a clock.
test: $(READY) lint
	$(PYTHON) -m pytest -n 4 --dist loadfile --no-loadscope-reorder --tb native

# The environments of the extras `puzzles` and `textworld`. Needs gcc, make and Python's headers.
test-environments: $(READY) .venv-environments/.ready
	.venv-environments/bin/python -m pytest -n 2 --dist loadfile tests/environments

# The extra `train`. One thread for each process: torch's own would wait for each other.
test-train: $(READY) .venv-train/.ready
	PATH="$(CURDIR)/.venv/bin:$$PATH" OMP_NUM_THREADS=1 \
	    .venv-train/bin/python -m pytest -n 2 --dist loadfile tests/training

lint: $(READY)
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports --no-logo

$(READY): requirements.lock make-venv.sh pyproject.toml
	@sh make-venv.sh
	@touch $@

INSTALL = $(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-input --no-compile \
    --require-hashes --no-deps --no-build-isolation --requirement
# Beside .venv, and on top of it: what an extra needs beyond it.
.venv-%/.ready: requirements-%.lock $(READY)
	rm -rf $(@D)
	$(PYTHON) -m venv --without-pip $(@D)
	$(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
	    > $$($(@D)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/base.pth
	@# By itself pip takes the build for CUDA, if only that one's hash is known before it is loaded.
	@if [ $* = train ]; then echo 'torch==2.13.0+cpu --hash=$(TORCH_CPU)' > $(@D)/torch.txt; \
	    $(INSTALL) $(@D)/torch.txt 2>/dev/null || true; fi
	$(INSTALL) $<
	@test $* != train || $(@D)/bin/python -c 'import torch' || { echo '$(NO_TORCH)' >&2; exit 1; }
	@touch $@

# What the house measures, and whether planted faults are found.
house: $(READY)
	$(PYTHON) -m bench.house

mutants: $(READY)
	$(PYTHON) -m bench.mutants

# Needs uv. Names, versions and hashes only, so that any index can serve them.
COMPILE := --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --quiet
# What an extra's lock adds to requirements.lock.
define EXTRA_LOCK
	$(PYTHON) -c 'import tomllib; extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]; \
	    [print(*extras[name], sep="\n") for name in "$(2)".split()]' | \
	uv pip compile - --constraint requirements.lock $(COMPILE) --output-file requirements-$(1).lock \
	    $$(sed -n 's/^\([a-z0-9-]*\)==.*/--no-emit-package \1/p' requirements.lock)
endef

lock:
	uv pip compile pyproject.toml --extra demo --group dev $(COMPILE) --output-file requirements.lock
	$(call EXTRA_LOCK,environments,puzzles textworld)
	$(call EXTRA_LOCK,train,train)
	# uv keeps a hash that was there, while the version stays.
	grep -q $(TORCH_CPU) requirements-train.lock || \
	    sed -i 's/^torch==.*/&\n    --hash=$(TORCH_CPU) \\/' requirements-train.lock

clean:
	rm -rf .venv .venv-environments .venv-train build
