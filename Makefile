# Everything from a fresh clone, with only Python 3.11+ and make.
#   make solve   install, then solve the example instances with the shipped models
#   make test    install with the developer's tools, then lint and run the tests (what CI runs)
#   make mutants break the code in known ways, in a copy, and see that a test notices each
#   make lint    ruff and mypy          make format   let ruff rewrite the files
#   make results measure every table of the paper and write the pages (QUICK=1: two instances, to see that it works)
#   make pages   write docs/results.md, docs/models.md, the README's table and the figures from docs/results/*.csv
#   make clean   remove the virtual environment and caches

PYTHON ?= python3
VENV   ?= .venv
WORKERS ?= 2
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt

.PHONY: solve test mutants lint format results pages clean
.DEFAULT_GOAL := solve

solve: $(VENV)/.installed
	$(BIN)/icdc solve examples/atsp20.atsp examples/pmsp20x4.csv

test: lint
	OMP_NUM_THREADS=1 MPLBACKEND=Agg $(BIN)/python -m pytest -n $(WORKERS)

mutants: $(VENV)/.installed-dev
	$(BIN)/python tests/mutants/run.py -j $(WORKERS)

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
