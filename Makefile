# Two commands are enough: `make demo` runs a real sweep, `make test` passes the tests in a few minutes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Tests start many processes, and each would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all test-exhaustive test-lowest test-lowest-core test-newest test-python works-with metric check \
	docs pictures plotly axe lint types laws bench bench-confirm bench-growth bench-metric bench-compare many-trials clusters faults mutants index release

# fastai without what its callbacks do not import: torchvision, spaCy and a web server, 107 MB in all.
FASTAI := fastai beartype fastcore fastdownload fastprogress fasttransform plum-dispatch

# An editable install in the compat mode is a path, which mypy and pyright find; setuptools' default is a hook.
# With each change of the requirements the environment is brought up to date. pip compiles on one core, so compileall
# does it on all; it fails on the few files that are written for other versions of Python, and nothing imports those.
$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing torch and the packages of the tests into $(VENV); the first time this takes minutes"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.[test]' --config-settings editable_mode=compat
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt --no-deps $(FASTAI)
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
OF_THE_NEWEST := %_aliases.py %_torchmetrics_names.py %_oracles.py %_unknown_labels.py
# What is tried with the pinned versions alone.
OF_THE_PINNED := $(addprefix tests/backends/, test_sampler_matrix.py optuna/test_rustuna.py ray/test_bandit.py ray/test_pbt_training.py \
	$(addprefix ray/test_ray_, lost_workers.py own_tuner.py train.py user_settings.py user_tables.py)) \
	$(addprefix tests/integration/test_, backend_swap.py configs.py constrained.py examples.py parity.py \
	several_objectives.py slurm.py value_gates.py) tests/metrics/registry/test_warprec_names.py \
	tests/records/test_reproduction.py
ROOMS := $(addprefix backends/, . optuna ray) config engines integration $(addprefix metrics/, . additive references \
	registry) records results results/compare results/report run runner scoring selection space testing
LOWEST ?= $(filter-out $(OF_THE_NEWEST) $(OF_THE_PINNED), $(subst /./,/,$(wildcard $(ROOMS:%=tests/%/test_*.py)))) \
	$(addprefix tests/cli/test_, dashboard.py evaluate.py main.py trial_listing.py) tests/interop/test_first_files.py \
	tests/house/test_engines_names.py
test-lowest: $(VENV)/lowest/.installed
	PYTHONPATH=$(VENV)/lowest $(BIN)/python -m pytest -W "ignore:subprocess:ResourceWarning" \
		-W ignore::pytest.PytestUnraisableExceptionWarning $(LOWEST)

# What meets the names of Optuna, Ray, torchmetrics and NumPy most, in a few minutes.
CORE := $(addprefix tests/backends/optuna/test_, optuna_objective.py optuna_reporter.py samplers.py search_directory.py \
	trial_queue.py) \
	tests/backends/ray/test_pbt.py $(addprefix tests/config/test_, document.py json_schema.py models.py) \
	$(addprefix tests/metrics/test_, as_metric.py as_metric_values.py collection.py metric.py) \
	tests/metrics/references/test_numerics.py $(addprefix tests/runner/test_, ray_sweep.py resume.py sweep.py) \
	$(addprefix tests/selection/test_, constraints.py pareto.py) tests/space
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

WITHOUT_TORCH := tests/selection tests/space $(addprefix tests/records/test_, recovery.py regular_files.py \
	strict_records.py trial_record.py) $(addprefix tests/test_, direction.py exceptions.py redaction.py targets.py \
	user_code.py) tests/backends/test_plugins.py $(addprefix tests/backends/optuna/test_, \
	open_trials.py optuna_reporter.py samplers.py study_attributes.py trial_queue.py) \
	$(addprefix tests/cli/test_, completion.py dashboard.py help_sections.py trial_listing.py) \
	$(addprefix tests/config/test_, document.py field_descriptions.py fuzzed_files.py json_schema.py models.py \
	other_spellings.py overrides.py) $(addprefix tests/engines/test_, engine.py engine_params.py evaluation.py \
	result.py shelf.py) $(addprefix tests/interop/test_audit_, files.py studies.py) \
	$(addprefix tests/results/test_, leaderboard.py manifest.py run_directory.py status.py) \
	$(addprefix tests/runner/test_, leases.py live.py)
# Python 3.13 warns of the connections that Optuna's storages leave to the garbage collector.
test-python: $(OTHERS)/.installed
	PYTHONPATH=. $(<D)/bin/python -m pytest -n 2 -p no:cacheprovider -W "ignore:unclosed database:ResourceWarning" \
		-W ignore::pytest.PytestUnraisableExceptionWarning $(WITHOUT_TORCH)

# Write docs/reference/works-with.md from the versions and counts of the last `.ci/run`.
works-with:
	$(PYTHON) tests/works_with.py

# What concerns one metric, as in `make metric NAME=mcc`: its laws, oracles, documentation, its module's tests.
metric: $(VENV)/.installed
	$(BIN)/python -m pytest -n 0 -m '' --metric '$(NAME)'

# The site, in site/: every link and every name of the API leads somewhere, and nothing is loaded from elsewhere.
# PROJECT_URL is where links to files of the repository lead; without it they are words with a path.
docs: $(VENV)/.installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict

# The pictures of README and docs, from a real run; Chromium takes the screenshots.
pictures: $(VENV)/.installed
	$(BIN)/python -m docs._generate.pictures

# The part of plotly.js that the report has: the traces of its figures, minified and packed.
PLOTLY := hpometrics/results/report/plotly
PLOTLY_VERSION := 4.1.1
TRACES := require("plotly.js/lib/bar"), require("plotly.js/lib/contour")
ENTRY := const Plotly = require("plotly.js/lib/core"); Plotly.register([$(TRACES)]); module.exports = Plotly;
BANNER := /**\n* plotly.js (scatter, bar, contour - minified) v$(PLOTLY_VERSION)\n* Copyright 2012-2026, Plotly, Inc.\n* Licensed under the MIT license\n*/
FOOTER := if (typeof module === "object" && module.exports) module.exports = Plotly; else window.Plotly = Plotly;
# Its attributes describe themselves for plotly's documentation, in a tenth of the bundle.
DESCRIPTION := description:(?:\[(?:"[^"\\]*",?)+\]\.join\(" "\)|"[^"\\]*")(?=[,}])
PACK := import lzma, re, sys; text = re.sub(r"""$(DESCRIPTION)""", "description:\"\"", sys.stdin.read()); \
	sys.stdout.buffer.write(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
plotly: $(VENV)/.installed
	cd $$(mktemp -d) && npm install --silent --ignore-scripts plotly.js@$(PLOTLY_VERSION) esbuild@0.28.2 && \
		echo '$(ENTRY)' | node_modules/.bin/esbuild --bundle --minify --format=iife --global-name=Plotly --target=es2016 \
			--define:global=window --define:define.amd=false --define:process.env.NODE_DEBUG=false --loader:.css=empty \
			--legal-comments=eof --banner:js="$$(printf '$(BANNER)')" --footer:js='$(FOOTER)' | \
		$(CURDIR)/$(BIN)/python -c '$(PACK)' > $(CURDIR)/$(PLOTLY).min.js.xz && \
		cp node_modules/plotly.js/LICENSE $(CURDIR)/$(PLOTLY)-LICENSE.txt

# Judges the report's accessibility in its tests, which are skipped where there is none.
axe:
	command -v npm > /dev/null && npm install --silent --no-save --prefix $(VENV)/axe axe-core@4.14.1 || \
		echo "not installed here: axe-core"

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
	$(BIN)/python benchmarks/scoreboard.py

# Confirmed winners beside the best of a longer search: 1,000 worlds of each table, half an hour on two cores, then
# 50 whole sweeps, a quarter of an hour.
bench-confirm: $(VENV)/.installed
	$(BIN)/python benchmarks/confirm.py
	$(BIN)/python benchmarks/confirm_sweeps.py
	$(BIN)/python benchmarks/confirm_sweeps.py --trials 16 --top 3 --repeats 5 --pruner median

# The exponents by which time and memory grow with rows, classes, labels and items.
bench-growth: $(VENV)/.installed
	$(BIN)/python benchmarks/growth.py

# The rows of one metric, as in `make bench-metric NAME=ndcg`.
bench-metric: $(VENV)/.installed
	$(BIN)/python benchmarks/scoreboard.py --memory --metric '$(NAME)'

# Whether a row takes more than at another version, as in `make bench-compare REF=main`; ONLY=kendall for some rows.
bench-compare: $(VENV)/.installed
	$(BIN)/python benchmarks/scoreboard.py --compare '$(REF)' --only '$(ONLY)'

# 10,000 trials by 8 workers on a PostgreSQL server of its own, then each command on 100,000 trials.
many-trials: $(VENV)/.installed
	$(BIN)/python benchmarks/many_trials.py --trials 10000 --workers 8 --storage postgresql
	$(BIN)/python benchmarks/many_trials.py --made --trials 100000

# The table of docs/how-to/clusters.md, row by row: what is lost when a part dies.
clusters: $(VENV)/.installed
	$(BIN)/python -m pytest -n 0 -v -m '' --faults -k 'not Bare' $$(sed -n 's/.* | `\(.*::.*\)` |$$/tests\/\1/p' docs/how-to/clusters.md)

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
