PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

# Two worker processes with one thread each: more threads only fight over two cores.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

.DEFAULT_GOAL := help
.PHONY: help setup test test-slow test-data check docs demo clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */\1\t/' | expand -t 12

setup: $(STAMP)  ## create .venv with the pinned versions and this package

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

test: setup  ## run the tests, without the slow ones
	$(PYTEST) -m "not slow"

test-slow: setup  ## run the slow tests only
	$(PYTEST) -m slow

test-data: setup  ## grade all references of all benchmarks; needs the data, takes minutes
	$(PYTEST) -m slow tests/tasks

check: setup  ## lint, format, types, tests, and at least 95 % statement coverage
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(PYTEST) -m "not slow" --cov --cov-report=term --cov-fail-under=95

docs: setup  ## bring the generated parts of the documentation up to date
	$(BIN)/python docs/generate.py

demo: setup  ## see a response being denoised
	$(BIN)/archer demo

clean:  ## remove the environment and everything that tools left behind
	rm -rf $(VENV) build dist .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
