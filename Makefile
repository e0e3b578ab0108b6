# Everything below works on a fresh Debian with python3 (3.11 or newer), python3-venv and make.
# The environment lives in .venv and is made on demand.

VENV := .venv
BIN := $(VENV)/bin
# The interpreter that makes .venv; after changing it: `make clean`.
PYTHON ?=
PYTEST_ARGS ?=
BENCH_ARGS ?=
DEMO_ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help demo test check cover bench fmt clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo '  PYTHON=/path/to/python3   the interpreter for .venv (3.11 or newer)'
	@echo '  PYTEST_ARGS="-k fair -n0" passed to pytest; BENCH_ARGS, DEMO_ARGS likewise'

demo: $(VENV)/.installed-all ## Watch forty tenants take fair turns (under 40 s)
	@$(BIN)/rota demo $(DEMO_ARGS)

test: $(VENV)/.installed-dev ## Run the tests on every server that is here
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

check: $(VENV)/.installed-dev ## Lint, format, types, import layers, Lua
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/python scripts/lint_lua.py

cover: $(VENV)/.installed-dev ## Run the tests, and show what of the source they run
	@rm -rf build/coverage && mkdir -p build/coverage
	@$(BIN)/coverage run -m pytest $(PYTEST_ARGS)
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report

bench: $(VENV)/.installed-bench ## Measure: table, figures and chart, in build/
	@$(BIN)/python -m benchmarks $(BENCH_ARGS)

fmt: $(VENV)/.installed-dev ## Format, and mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## Remove .venv, caches and builds
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.installed-all: pyproject.toml scripts/venv.sh
	@PYTHON='$(PYTHON)' sh scripts/venv.sh $(VENV) all
	@touch $@

$(VENV)/.installed-dev: pyproject.toml scripts/venv.sh
	@PYTHON='$(PYTHON)' sh scripts/venv.sh $(VENV) all,dev
	@touch $@ $(VENV)/.installed-all

$(VENV)/.installed-bench: pyproject.toml scripts/venv.sh
	@PYTHON='$(PYTHON)' sh scripts/venv.sh $(VENV) all,dev,bench
	@touch $@ $(VENV)/.installed-dev $(VENV)/.installed-all
