# `make demo` and `make test` each go from nothing to working, alone.

PYTHON := .venv/bin/python
READY := .venv/.ready
TOOLS := .venv/.tools
# torch's build for CPUs, of Python 3.11 on Linux x86-64; it is on an index of its own.
TORCH_CPU := sha256:6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b
NO_TORCH := torch can not be imported: this is its build for CUDA. Add the index of its CPU wheels to \
    PIP_EXTRA_INDEX_URL and repeat. Of another Python or system, set TORCH_CPU to the hash of its wheel, too.

AXE := 4.14.1
AXE_SHA512 := 1477dafa598d8d065f273d6af302aa203c02e83131707b7fa648cd41bd3d6b734f8c22a0dab86ee6a6f64b8afbe804b214d36db85a2826965edfb3a0b9d546b5

# Compiled modules are kept: from source LiteLLM is imported for ten seconds, not four, each time.
export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := $(TOOLS)
.PHONY: demo test tests test-environments test-train test-page lint lock clean house mutants chaos
# What does not need each other runs side by side: a linter, an install and a suite each leave a core
# idle much of the time.
MAKEFLAGS += --jobs=2

demo: $(READY)
	@$(PYTHON) -m commands.embedded

test: lint tests

# More processes than the two cores that this is meant for, since many tests wait for a server or a clock.
tests: $(TOOLS)
	$(PYTHON) -m pytest -n 5 --dist loadfile --no-loadscope-reorder --tb native

# The environments of the extras `puzzles` and `textworld`. Needs gcc, make and Python's headers.
test-environments: $(TOOLS) .venv-environments/.ready
	.venv-environments/bin/python -m pytest -n 2 --dist loadfile tests/environments

# The extra `train`. One thread for each process: torch's own would wait for each other.
test-train: $(TOOLS) .venv-train/.ready
	PATH="$(CURDIR)/.venv/bin:$$PATH" OMP_NUM_THREADS=1 \
	    .venv-train/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder tests/training

# The page in a browser: Debian's Chromium (apt install chromium), which Playwright drives.
test-page: $(TOOLS) build/axe/package/axe.min.js
	$(PYTHON) -m pytest -n 2 --dist loadfile --no-loadscope-reorder tests/page

# axe, which finds faults of accessibility. Needs npm, which asks the registry that it is set to.
build/axe/package/axe.min.js:
	mkdir -p build/axe
	cd build/axe && npm pack --silent axe-core@$(AXE) && \
	    echo "$(AXE_SHA512)  axe-core-$(AXE).tgz" | sha512sum --check --quiet && \
	    tar --extract --gzip --file axe-core-$(AXE).tgz package/axe.min.js && touch package/axe.min.js

lint: $(TOOLS)
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports --no-logo

$(READY): requirements.lock make-venv.sh pyproject.toml
	@sh make-venv.sh
	@touch $@

# The tools of development, which take as long again as what the demo needs.
$(TOOLS): requirements-tools.lock $(READY)
	@echo "Installing the tools of development ..." >&2
	@$(INSTALL) $<
	@touch $@

INSTALL = $(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-input --no-compile \
    --require-hashes --no-deps --no-build-isolation --requirement
# Beside .venv, and on top of it: what an extra needs beyond it.
.venv-%/.ready: requirements-%.lock $(TOOLS)
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
house: $(TOOLS)
	$(PYTHON) -m bench.house

mutants: $(TOOLS)
	$(PYTHON) -m bench.mutants

# Small runs for ten minutes, while worker and server are killed again and again.
chaos: $(TOOLS)
	$(PYTHON) -m bench.chaos --small --runs 20000 --at-once 32 --minutes 10

# Needs uv. Names, versions and hashes only, so that any index can serve them.
COMPILE := --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --quiet
# What an extra's lock adds to other locks.
define EXTRA_LOCK
	$(PYTHON) -c 'import tomllib; known = tomllib.load(open("pyproject.toml", "rb")); \
	    extras = known["project"]["optional-dependencies"] | {"tools": known["dependency-groups"]["dev"]}; \
	    [print(*extras[name], sep="\n") for name in "$(2)".split()]' | \
	uv pip compile - $(addprefix --constraint ,$(3)) $(COMPILE) --output-file requirements-$(1).lock \
	    $$(sed -n 's/^\([a-z0-9-]*\)==.*/--no-emit-package \1/p' $(3))
endef

lock:
	uv pip compile pyproject.toml --extra dev --extra encryption --group demo $(COMPILE) --output-file requirements.lock
	$(call EXTRA_LOCK,tools,measure tools,requirements.lock)
	$(call EXTRA_LOCK,environments,puzzles textworld,requirements.lock requirements-tools.lock)
	$(call EXTRA_LOCK,train,train,requirements.lock requirements-tools.lock)
	# uv keeps a hash that was there, while the version stays.
	grep -q $(TORCH_CPU) requirements-train.lock || \
	    sed -i 's/^torch==.*/&\n    --hash=$(TORCH_CPU) \\/' requirements-train.lock

clean:
	rm -rf .venv .venv-environments .venv-train build
