# Everything a contributor needs; `make` lists it.
PYTHON ?= python3
EXPERIMENT ?= experiments/demo.toml
TORCH_INDEX ?=
ARGS ?=
WORKERS ?= 2

BIN := .venv/bin
PIP_INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check \
	$(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
# what is installed depends on [build-system] and [project] alone, not on the settings of tools
REQUIREMENTS := sed '/^\[tool\./,$$d' pyproject.toml

export PIP_ROOT_USER_ACTION = ignore
# two threads change sums, and bits with them; on a busy machine they are slower as well
export OMP_NUM_THREADS = 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test e2e e2e-compose check bench config-keys format clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## / {printf "%-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: .venv/.run ## run the demo (EXPERIMENT=file, ARGS=options); writes to runs/ or FEDGAME_HOME
	FEDGAME_HOME="$${FEDGAME_HOME:-$(CURDIR)/runs}" $(BIN)/fedgame run $(EXPERIMENT) $(ARGS)

test: .venv/.dev ## run all tests (ARGS=pytest options, WORKERS=processes)
	$(BIN)/pytest --numprocesses $(WORKERS) --dist loadgroup $(ARGS)

e2e: .venv/.dev ## run the tests that `make test` leaves out: real nodes (minutes)
	$(BIN)/pytest -m deploy tests/e2e $(ARGS)

e2e-compose: .venv/.dev ## build and run docker-compose.yml, plain and with TLS, and take it down
	TORCH_INDEX=$(TORCH_INDEX) $(BIN)/python scripts/e2e_compose.py

check: .venv/.dev ## lint, formatting, types, import contracts, configuration keys, compose files
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/fedgame keys --pyproject pyproject.toml --check
	$(BIN)/pytest -q tests/test_compose.py

bench: .venv/.dev ## compare with peers and floors
	$(BIN)/python -m benchmarks $(ARGS)

config-keys: .venv/.dev ## write every key of an experiment to pyproject.toml, as Flower wants them
	$(BIN)/fedgame keys --pyproject pyproject.toml

format: .venv/.dev ## format the code
	$(BIN)/ruff check --fix-only --quiet
	$(BIN)/ruff format

clean: ## remove caches and build outputs, keep .venv and runs/
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find fedgame tests -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "fedgame needs Python 3.11 or newer: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv .venv

# a stamp holds the requirements that it was installed for
.venv/.run: pyproject.toml | .venv/bin/python
	@$(REQUIREMENTS) | cmp -s - $@ || { echo "installing fedgame (about 6 GB with torch: some minutes)"; $(PIP_INSTALL) -e .; }
	@$(REQUIREMENTS) > $@

.venv/.dev: pyproject.toml | .venv/bin/python
	@$(REQUIREMENTS) | cmp -s - $@ || { echo "installing fedgame[dev] (about 6 GB with torch: some minutes)"; $(PIP_INSTALL) -e '.[dev]'; }
	@$(REQUIREMENTS) > $@

.PHONY: results tables picture results-jsam figures-jsam results-pml figures-pml
.PHONY: results-heterogeneity figures-heterogeneity results-projection
.PHONY: results-attack figures-attack
.PHONY: results-mfne figures-mfne
.PHONY: results-population
.PHONY: results-flow figures-flow
.PHONY: paper figures-paper

results: .venv/.dev ## run the presets behind the tables of README and docs (FEDGAME_DATA_DIR=DIR for MNIST)
	$(BIN)/python scripts/results.py $(ARGS)

tables: .venv/.dev ## write the tables of README and docs from results/
	$(BIN)/python scripts/tables.py $(ARGS)

picture: .venv/.run ## draw docs/images/report.png from the newest run (ARGS=run folder)
	$(BIN)/python scripts/picture.py $(ARGS)

paper: .venv/.dev ## reproduce the MFPG paper: runs, tables, figures; resumable (FEDGAME_DATA_DIR=DIR for MNIST)
	$(BIN)/python -m scripts.paper_runs $(ARGS)
	$(BIN)/python -m scripts.paper_equilibrium
	$(BIN)/python -m scripts.paper_frontier
	$(BIN)/python scripts/tables.py
	$(BIN)/python -m scripts.paper_figures

figures-paper: .venv/.dev ## draw the figures of docs/mfpg-paper.md from results/
	$(BIN)/python -m scripts.paper_figures $(ARGS)

results-jsam: .venv/.dev ## run JSAM and its baselines, resumable (FEDGAME_DATA_DIR=DIR, ARGS=options)
	$(BIN)/python -m scripts.jsam_runs --cost
	$(BIN)/python -m scripts.jsam_runs $(ARGS)

figures-jsam: .venv/.dev ## draw the figures of docs/jsam.md from results/jsam/
	$(BIN)/python -m scripts.jsam_figures $(ARGS)

results-pml: .venv/.dev ## compute the numbers of docs/aggregative.md (about a minute)
	$(BIN)/python -m scripts.pml_results $(ARGS)

figures-pml: .venv/.dev ## draw the figures of docs/aggregative.md from results/pml/
	$(BIN)/python -m scripts.pml_figures $(ARGS)

results-heterogeneity: .venv/.dev ## run docs/heterogeneity.md, resumable (FEDGAME_DATA_DIR=DIR)
	$(BIN)/python -m scripts.heterogeneity_steps
	$(BIN)/python -m scripts.heterogeneity $(ARGS)

figures-heterogeneity: .venv/.dev ## draw the figure of docs/heterogeneity.md
	$(BIN)/python -m scripts.heterogeneity_figures $(ARGS)

results-projection: .venv/.dev ## run docs/projection.md, resumable (FEDGAME_DATA_DIR=DIR for MNIST)
	$(BIN)/python -m scripts.projection $(ARGS)

results-attack: .venv/.dev ## attack the JKO step and burnt-in particles (some minutes)
	$(BIN)/python -m scripts.attack_results $(ARGS)

figures-attack: .venv/.dev ## draw the figure of docs/attacks.md from results/attack/
	$(BIN)/python -m scripts.attack_figures $(ARGS)

results-mfne: .venv/.dev ## solve the privacy games of docs/mfpg.md (about a minute)
	$(BIN)/python -m scripts.game_results $(ARGS)

figures-mfne: .venv/.dev ## draw the figure of docs/mfpg.md
	$(BIN)/python -m scripts.game_figures $(ARGS)

results-population: .venv/.dev ## measure runs of 10 to 100,000 clients and draw them
	$(BIN)/python -m scripts.population $(ARGS)
	$(BIN)/python -m scripts.population_figure

results-flow: .venv/.dev ## run the curve of docs/flow.md (about ten minutes)
	$(BIN)/python -m scripts.flow_curve $(ARGS)

figures-flow: .venv/.dev ## draw the figure of docs/flow.md from results/flow/
	$(BIN)/python -m scripts.flow_figures $(ARGS)
