# Two commands are enough: `make demo` runs a real sweep, `make test` passes the tests in a few minutes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Tests start many processes, and each would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all test-exhaustive test-lowest test-lowest-core test-newest test-python works-with metric check \
	lint types laws bench faults mutants index release

# An editable install in the compat mode is a path, which mypy and pyright find; setuptools' default is a hook.
# With each change of the requirements the environment is brought up to date. pip compiles on one core, so compileall
# does it on all; it fails on the few files that are written for other versions of Python, and nothing imports those.
$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.[test]' --config-settings editable_mode=compat
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
$(VENV)/lowest/.installed: $(VENV)/.installed tests/requirements.py
	rm -rf $(@D)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: --target $(@D) \
		$$($(BIN)/python tests/requirements.py lowest)
	touch $@

# Those compare with the newest torchmetrics, value by value or name by name.
OF_THE_NEWEST := %_also_called.py %_class_names.py %_oracles.py %_unknown_labels.py
LOWEST ?= tests/search tests/sweep tests/measure tests/evaluation tests/test_cli.py tests/test_optuna_objective.py \
	tests/test_ray_objective.py tests/run \
	$(filter-out $(OF_THE_NEWEST), $(wildcard tests/metrics/test_*.py))
test-lowest: $(VENV)/lowest/.installed
	PYTHONPATH=$(VENV)/lowest $(BIN)/python -m pytest -W "ignore:subprocess:ResourceWarning" \
		-W ignore::pytest.PytestUnraisableExceptionWarning $(LOWEST)

# What meets the names of Optuna, Ray, torchmetrics and NumPy most, in a few minutes.
CORE := $(addprefix tests/search/test_, constraints.py optuna_backend.py pareto.py population.py seeded_samplers.py \
	slots.py space.py) \
	$(addprefix tests/sweep/test_, config.py loader.py ray_sweep.py resume.py schema.py sweep_run.py) \
	$(addprefix tests/metrics/test_, collection.py metric.py numerics.py wrap.py wrapped.py) \
	tests/test_optuna_objective.py
test-lowest-core:
	$(MAKE) test-lowest LOWEST="$(CORE)"

# The same with the newest pre-releases of Optuna and Ray, or their newest releases where there are none.
test-newest: $(VENV)/.installed
	rm -rf $(VENV)/newest
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: --pre \
		--target $(VENV)/newest optuna ray
	PYTHONPATH=$(VENV)/newest $(BIN)/python -m pytest $(CORE)

# The part that needs no torch (space, records, selection, results, sweep files), on another Python:
# make test-python OTHER=python3.13
OTHER ?= python3.12
OTHERS := $(VENV)/$(notdir $(OTHER))
$(OTHERS)/.installed: pyproject.toml tests/requirements.py
	$(OTHER) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
		$$($(PYTHON) tests/requirements.py without-torch)
	touch $@

WITHOUT_TORCH := $(addprefix tests/search/test_, constraints.py course.py long_attributes.py mending.py one_se.py \
	open_trials.py optuna_backend.py pareto.py plugins.py record.py regular_files.py seeded_samplers.py selection.py \
	slots.py space.py strict_records.py verdict.py) \
	$(addprefix tests/sweep/test_, config.py dashboard.py descriptions.py directory.py fuzzed_files.py \
	leases.py loader.py overrides.py progress.py resolved.py schema.py status.py table.py trial_listing.py) \
	$(addprefix tests/evaluation/test_, differences.py engine_params.py engine_stages.py evaluation_instance.py \
	evaluation_result.py shelf.py) \
	tests/audit/test_audit_files.py tests/audit/test_audit_studies.py tests/commands/test_completion.py \
	$(addprefix tests/test_, exceptions.py objective.py prints.py redaction.py sections.py target.py)
# Python 3.13 warns of the connections that Optuna's storages leave to the garbage collector.
test-python: $(OTHERS)/.installed
	PYTHONPATH=. $(<D)/bin/python -m pytest -n 2 -p no:cacheprovider -W "ignore:unclosed database:ResourceWarning" \
		-W ignore::pytest.PytestUnraisableExceptionWarning $(WITHOUT_TORCH)

# Write docs/works_with.md from the versions and counts of the last `.ci/run`.
works-with:
	$(PYTHON) tests/works_with.py

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
	$(BIN)/python benchmarks/many_trials.py
	$(BIN)/python benchmarks/diagnostics.py
	$(BIN)/python benchmarks/prefix_cache.py
	$(BIN)/python benchmarks/startup.py

# Try every fault many times, on bare hosts too, and print the scorecard.
faults: $(VENV)/.installed
	$(BIN)/python -m pytest -n 0 -m '' tests/faults --faults

# Draw small faults into the code that decides values, winners, records and resumption; the tests have to find them.
mutants: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[mutants]' --config-settings editable_mode=compat
	$(BIN)/python tests/mutants.py

# Regenerate what is printed from the registry.
index: $(VENV)/.installed
	$(BIN)/python -m docs._generate

# Build what is committed and try it as a user would; see RELEASING.md.
release:
	@test -n "$(PROJECT_URL)" || { echo "make release needs PROJECT_URL, which is not set; write the address" \
		"of the repository: PROJECT_URL=https://host/owner/hpometrics make release" >&2; exit 2; }
	PROJECT_URL=$(PROJECT_URL) PYTHON=$(PYTHON) .ci/release
