PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

# A current pip resolves in half the time, and most of what is installed is never imported, so nothing is compiled ahead.
PIP    := $(BIN)/python -m pip install -qq --no-compile --disable-pip-version-check -c constraints.txt

# Two worker processes with one thread each: more threads only fight over two cores.
# Some processors advertise AMX and cannot use it: bfloat16 products then end the process.
PYTEST := OMP_NUM_THREADS=1 ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 $(BIN)/python -m pytest -n 2 --dist loadfile

# Compiled once: otherwise every process that a test starts compiles all it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup test test-slow test-data check coverage docs site bench plan results demo train clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */\1\t/' | expand -t 12

setup: $(STAMP)  ## create .venv with the pinned versions and this package

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) pip
	$(PIP) -e '.[dev]'
	touch $@

test: setup  ## run the tests, without the slow ones
	$(PYTEST) -m "not slow"

test-slow: setup  ## run the slow tests only
	$(PYTEST) -m slow

test-data: setup  ## grade all references of all benchmarks; needs the data, takes minutes
	$(PYTEST) -m slow tests/tasks

check: setup  ## lint, format, types, and the tests: everything that must hold before a change is accepted
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(PYTEST) -m "not slow"

coverage: setup  ## the tests with their statement coverage, at least 95 %; a third slower
	$(PYTEST) -m "not slow" --cov --cov-report=term --cov-fail-under=95

docs: setup  ## bring the generated parts of the documentation up to date
	$(BIN)/python docs/generate.py

site: setup  ## build the documentation as a site in build/site; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet

RESULTS := docs/results
COMMA := ,
RANDOM_MODEL := build/random-model
QWEN := ../shared/data/tokenizers/sdar-4b-chat/tokenizer.derived.json
RANDOM_SMALL := build/random-a2d-qwen3-0.6b

define measure
	$(BIN)/archer bench $(2) --json > $(RESULTS)/$(1).part
	mv $(RESULTS)/$(1).part $(RESULTS)/$(1).json
endef

bench: setup  ## measure this machine, alone on it for about an hour, and write the measured tables
	mkdir -p $(RESULTS)
	$(call measure,step-llada-8b,step --shape llada-8b --layers 2 --repeats 7)
	$(call measure,step-dream-7b,step --shape dream-7b --layers 2 --repeats 7)
	$(call measure,step-llada-moe-7b,step --shape llada-moe-7b --layers 2 --prompt 128$(COMMA)512 --response 128 --threads 1 --repeats 3)
	$(call measure,step-llada2-mini,step --shape llada2-mini --layers 3 --prompt 128$(COMMA)512 --response 128 --threads 1 --repeats 3)
	$(call measure,library-llada-8b,step --shape llada-8b --layers 2 --prompt 512 --library)
	$(call measure,library-llada-8b-6-layers,step --shape llada-8b --layers 6 --prompt 512 --library --repeats 2)
	$(call measure,eight-llada-8b,step --shape llada-8b --layers 4 --prompt 512 --threads 1 --repeats 3 --quantize w8a8$(COMMA)w8a8-head)
	$(call measure,eight-a2d-qwen3-0.6b,step --shape a2d-qwen3-0.6b --layers 4 --prompt 512 --threads 1 --repeats 15 --quantize w8a8$(COMMA)w8a8-head)
	$(call measure,step-pocket-64,step --shape pocket --prompt 128$(COMMA)512 --response 64 --threads 1 --repeats 21)
	$(call measure,step-pocket-256,step --shape pocket --prompt 128$(COMMA)512 --response 256 --threads 1 --repeats 21)
	$(call measure,profile-llada-8b,profile --shape llada-8b --layers 2)
	$(call measure,profile-pocket,profile --shape pocket --response 64 --threads 1 --repeats 21)
	$(call measure,decode-small,decode --shape small --threads 1 --repeats 2)
	$(call measure,batch-small,batch --shape small)
	$(call measure,traffic-pocket,traffic --threads 1)
	$(call measure,judge,judge)
	$(call measure,structure-a2d-qwen3-0.6b,structure $(QWEN) --layers 4 --threads 1 --repeats 7)
	$(call measure,serve-pocket,serve --figure $(RESULTS)/serve-pocket.svg)
	rm -rf $(RANDOM_MODEL)
	$(BIN)/archer bench checkpoint $(RANDOM_MODEL) --shape llada-8b --layers 2
	$(call measure,load-llada-8b,load $(RANDOM_MODEL) --dtype float32)
	rm -rf $(RANDOM_MODEL)
	$(BIN)/archer bench checkpoint $(RANDOM_MODEL) --shape llada-8b --layers 8 --dtype bfloat16
	$(call measure,load-llada-8b-int8,load $(RANDOM_MODEL) --dtype float32 --quantize int8)
	$(call measure,load-llada-8b-w8a8,load $(RANDOM_MODEL) --dtype float32 --quantize w8a8)
	$(call measure,load-llada-8b-w8a8-head,load $(RANDOM_MODEL) --dtype float32 --quantize w8a8-head)
	rm -rf $(RANDOM_MODEL)
	rm -rf $(RANDOM_SMALL)
	$(BIN)/archer bench checkpoint $(RANDOM_SMALL) --shape a2d-qwen3-0.6b --dtype bfloat16
	$(call measure,load-a2d-qwen3-0.6b,load $(RANDOM_SMALL) --dtype float32)
	$(call measure,load-a2d-qwen3-0.6b-w8a8-head,load $(RANDOM_SMALL) --dtype float32 --quantize w8a8-head)
	$(call measure,eight-a2d-whole,step --shape $(RANDOM_SMALL) --prompt 256 --response 128 --threads 2 --repeats 5 --quantize w8a8-head)
	$(call measure,decode-a2d,decode --shape $(RANDOM_SMALL) --methods archer-doubt --prompt 64 --response 128 --repeats 3 --threads 2 --quantize w8a8-head)
	rm -rf $(RANDOM_SMALL)
	$(BIN)/python docs/generate.py

WORKED := --rate 20 --prompt 512 --length 256 --radius 4$(COMMA)8$(COMMA)16 --budget 512$(COMMA)1024$(COMMA)2048

plan: setup  ## simulate the worked plan of the documentation; minutes, and any machine will do
	$(BIN)/archer plan $(WORKED) --figure $(RESULTS)/plan-llada-8b.svg --json > $(RESULTS)/plan.part
	mv $(RESULTS)/plan.part $(RESULTS)/plan-llada-8b.json
	$(BIN)/python docs/generate.py

results: setup  ## run all studies on the bundled model, alone on two cores for an hour and a half
	OMP_NUM_THREADS=1 $(BIN)/archer reproduce --workers 2 --out $(RESULTS)

demo: setup  ## see a response being denoised
	$(BIN)/archer demo

MODEL := pocket
MINUTES := 116
train: setup  ## train a bundled model anew: make train MODEL=pocket-dream; call it again to go on
	PYTHONPATH=tools $(BIN)/python -m pocket_training $(MODEL) --minutes $(MINUTES) --workers 2 --out training/$(MODEL)

clean:  ## remove the environment and everything that tools left behind
	rm -rf $(VENV) build dist .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
