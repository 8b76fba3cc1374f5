# Two commands are enough: `make demo` runs a real sweep, `make test` passes the tests in a few minutes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Tests start many processes, and each would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all test-exhaustive test-lowest metric check lint types laws bench faults mutants index

# With each change of the requirements the environment is brought up to date. pip compiles on one core, so compileall
# does it on all; it fails on the few files that are written for other versions of Python, and nothing imports those.
$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.[examples,test]'
	$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true
	touch $@

demo: $(VENV)/.installed
	$(BIN)/hpometrics run configs/quickstart.yaml

test: $(VENV)/.installed
	$(BIN)/python -m pytest

# The short suite, then what it leaves out: every metric x every law, device and average, every fault again.
test-all: test
	$(MAKE) test-exhaustive

test-exhaustive: $(VENV)/.installed
	$(BIN)/python -m pytest -m exhaustive

# The core of the short suite with the lowest version of each direct dependency but torch. Ray 2.50 leaves
# processes of its own to the garbage collector.
$(VENV)/lowest/.installed: $(VENV)/.installed tests/lowest.py
	rm -rf $(@D)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: --target $(@D) \
		$$($(BIN)/python tests/lowest.py)
	touch $@

# Those compare with the newest torchmetrics, value by value or name by name.
OF_THE_NEWEST := %_also_called.py %_class_names.py %_oracles.py %_unknown_labels.py
LOWEST ?= tests/search tests/sweep tests/measure tests/evaluation tests/test_cli.py tests/test_optuna_objective.py \
	tests/test_ray_objective.py tests/run \
	$(filter-out $(OF_THE_NEWEST), $(wildcard tests/metrics/test_*.py))
test-lowest: $(VENV)/lowest/.installed
	PYTHONPATH=$(VENV)/lowest $(BIN)/python -m pytest -W "ignore:subprocess:ResourceWarning" \
		-W ignore::pytest.PytestUnraisableExceptionWarning $(LOWEST)

# What concerns one metric, as in `make metric NAME=mcc`: its laws, oracles, documentation, its module's tests.
metric: $(VENV)/.installed
	$(BIN)/python -m pytest -n 0 -m '' --metric '$(NAME)'

check: lint types

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed
	$(BIN)/mypy

# Metrics x laws, and the same laws over torchmetrics' own classes.
laws: $(VENV)/.installed
	$(BIN)/python -m hpometrics.testing

bench: $(VENV)/.installed
	$(BIN)/python benchmarks/panel.py
	$(BIN)/python benchmarks/small_batches.py
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/text.py
	$(BIN)/python benchmarks/ranking.py
	$(BIN)/python benchmarks/ranking_memory.py
	$(BIN)/python benchmarks/ranking_device.py
	$(BIN)/python benchmarks/sync.py
	$(BIN)/python benchmarks/adapter_overhead.py
	$(BIN)/python benchmarks/sweep_overhead.py
	$(BIN)/python benchmarks/sweep_overhead.py --ray
	$(BIN)/python benchmarks/diagnostics.py
	$(BIN)/python benchmarks/prefix_cache.py
	$(BIN)/python benchmarks/startup.py

# Try every fault many times, on bare hosts too, and print the scorecard.
faults: $(VENV)/.installed
	$(BIN)/python -m pytest -n 0 -m '' tests/faults --faults

# Draw small faults into the code that decides values, winners, records and resumption; the tests have to find them.
mutants: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[mutants]'
	$(BIN)/python tests/mutants.py

# Regenerate what is printed from the registry.
index: $(VENV)/.installed
	$(BIN)/python -m hpometrics.guide
