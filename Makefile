# Everything from a fresh clone, with only Python 3.11+ and make.
#   make solve   install, then solve the example instances with the shipped models
#   make test    install with the developer's tools, then lint and run the tests (what CI runs)
#   make browser install Chromium for the tests of the page, where that is possible
#   make screenshot take the picture of the page in docs/serving.md
#   make mutants break the code in known ways, in a copy, and see that a test notices each
#   make fuzz    read files written and damaged in all kinds of ways, and generated tables, for an hour each (MINUTES=5: less)
#   make cross-check  compare answers with all solutions of tiny instances, for two hours (MINUTES=5: twice five minutes)
#   make kills   kill -9 whole commands at random moments, 50 times each, and see that nothing is lost (half an hour)
#   make limits  seconds over the time limit and peak memory, for sizes up to 4000 cities and 2000×100 machines
#   make lint    ruff and mypy          make format   let ruff rewrite the files
#   make results measure every table of the paper and write the pages (QUICK=1: two instances, to see that it works)
#   make pages   write docs/results.md, docs/models.md, the README's table and the figures from docs/results/*.csv
#   make clean   remove the virtual environment and caches

PYTHON ?= python3
VENV   ?= .venv
WORKERS ?= 2
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt

.PHONY: solve test browser screenshot mutants fuzz cross-check kills limits lint format results pages clean
.DEFAULT_GOAL := solve

solve: $(VENV)/.installed
	$(BIN)/icdc solve examples/atsp20.atsp examples/pmsp20x4.csv

test: lint browser
	OMP_NUM_THREADS=1 MPLBACKEND=Agg $(BIN)/python -m pytest -n $(WORKERS)

# The tests of the page need a Chromium; where none can be had they are skipped, and say so.
browser:
	@for name in chromium chromium-browser google-chrome; do command -v $$name >/dev/null 2>&1 && exit 0; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
	  (apt-get install -y -qq chromium || (apt-get update -qq && apt-get install -y -qq chromium)) >/dev/null 2>&1 \
	  && exit 0; fi; \
	echo "no Chromium can be installed here: the tests of the page will be skipped"

# The picture of the page in docs/serving.md.
screenshot: $(VENV)/.installed-dev browser
	$(BIN)/python -m experiments.service.page --picture

mutants: $(VENV)/.installed-dev
	$(BIN)/python tests/mutants/run.py -j $(WORKERS)

fuzz: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz --minutes $(or $(MINUTES),60)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz --tables --minutes $(or $(MINUTES),60)

cross-check: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.cross_check --minutes $(or $(MINUTES),60)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.cross_check --minutes $(or $(MINUTES),60) --torch --no-service

kills: $(VENV)/.installed-dev
	$(BIN)/python -m tests.kills --count $(or $(COUNT),50)

limits: $(VENV)/.installed-dev
	$(BIN)/python -m experiments.speed.commands limits $(if $(QUICK),--quick,--write --page docs/command-line.md)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Goes on where it was; rows whose model is missing are listed with the command that trains it.
results: $(VENV)/.installed-dev
	$(BIN)/python -m experiments all $(if $(QUICK),--quick --out build/quick-results,pages)

pages: $(VENV)/.installed-dev
	$(BIN)/python -m experiments pages

# The stamps make a second run start at once; a change of either file installs again.
$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[dev]'
	@touch $@ $(VENV)/.installed

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "icdc needs Python 3.11 or newer; say which with: make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis src/*.egg-info
