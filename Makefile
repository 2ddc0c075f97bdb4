# Everything runs in a virtual environment of its own, made on first use; only python3 (with pip and venv) is needed.
PYTHON ?= python3
VENV ?= .venv
ALL_VENV ?= .venv-all
BENCH_VENV ?= .venv-bench
BIN = $(VENV)/bin
PYTEST = $(BIN)/python -m pytest -n auto --dist worksteal -p no:randomly
export OMP_NUM_THREADS ?= 1
unexport PYTHONDONTWRITEBYTECODE # with it, every process compiles the package and the tests anew

.PHONY: demo test test-system test-all fuzz check docs bench bench-tables bench-intervals pictures clean

demo: $(VENV)/.package
	@$(BIN)/python examples/demo.py

test: $(VENV)/.dev
	$(PYTEST)

test-system: $(VENV)/.dev
	$(PYTEST) -m "system and not slow"

test-all: $(ALL_VENV)/.all
	$(ALL_VENV)/bin/python -m pytest -n auto --dist worksteal -m "" --hypothesis-profile thorough

# Hostile input of every kind; what is found is in build/fuzz. FUZZ="--seconds 60 --seed 0" for others than ten minutes.
FUZZ ?= --seconds 600
fuzz: $(VENV)/.dev
	$(BIN)/python -W ignore -m tests.fuzz $(FUZZ)

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell

docs: $(VENV)/.docs
	rm -rf build/site docs/generated
	$(BIN)/python -m sphinx -W --keep-going -q -j auto docs build/site
	$(BIN)/python docs/check_links.py build/site

bench: $(BENCH_VENV)/.bench
	$(BENCH_VENV)/bin/python -m benchmarks

# Takes long; continues where it was interrupted.
bench-tables: $(BENCH_VENV)/.bench
	$(BENCH_VENV)/bin/python -m benchmarks.tables --page docs/benchmarks.md

# The same; EVENCOVER_DATA names the folder of CSV files.
bench-intervals: $(BENCH_VENV)/.bench
	$(BENCH_VENV)/bin/python -m benchmarks.intervals --page docs/benchmarks.md --data-dir $(EVENCOVER_DATA)

pictures: $(VENV)/.dev
	$(BIN)/python docs/pictures/draw.py
	$(BIN)/python -m benchmarks.small_data --picture docs/pictures/small_data.png --page docs/howto/small_data.md

clean:
	rm -rf $(VENV) $(ALL_VENV) $(BENCH_VENV) build/site docs/generated

# The stamps: an environment with the package; the same with extras and tools; the same with what builds the site; one with the
# boosting libraries besides, which hold some packages back; one with the peers to compare with.
$(VENV)/.package: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "evencover needs Python 3.11 or newer; make PYTHON=python3.12 names another")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Setting up $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.package requirements-dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[all]' -r requirements-dev.txt
	@touch $@

$(VENV)/.docs: $(VENV)/.dev requirements-docs.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-docs.txt
	@touch $@

$(ALL_VENV)/.all: pyproject.toml requirements-dev.txt requirements-boosting.txt
	@test -x $(ALL_VENV)/bin/python || $(PYTHON) -m venv $(ALL_VENV)
	@echo "Setting up $(ALL_VENV) ..."
	@$(ALL_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[all]' -r requirements-dev.txt -r requirements-boosting.txt
	@touch $@

$(BENCH_VENV)/.bench: pyproject.toml requirements-bench.txt
	@test -x $(BENCH_VENV)/bin/python || $(PYTHON) -m venv $(BENCH_VENV)
	@echo "Setting up $(BENCH_VENV) ..."
	@$(BENCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[benchmark]' -r requirements-bench.txt
	@touch $@
