# Everything works on a machine that has only Python 3.11+ and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help install page run test check format screenshots test-comfyui bench clean

help: ## Show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

install: $(INSTALLED) ## Make the virtual environment

$(INSTALLED): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "Comfyrail needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 …")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

page: $(INSTALLED) ## Build the web page into the package
	@$(BIN)/python scripts/build_page.py

run: $(INSTALLED) ## Start the server on http://127.0.0.1:8080 and run an example through it
	@$(BIN)/python scripts/build_page.py --if-possible
	@$(BIN)/python scripts/demo.py

test: $(INSTALLED) ## Run every test that a fresh machine can run
	@$(BIN)/python scripts/build_page.py
	$(BIN)/python scripts/build_page.py --test
	$(BIN)/python scripts/run_tests.py

check: $(INSTALLED) ## Lint, format, types, import rule
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/build_page.py --check

format: $(INSTALLED) ## Format the sources
	$(BIN)/ruff check --fix --quiet . || true
	$(BIN)/ruff format .

screenshots: page ## Take the pictures of the page that the docs have
	$(BIN)/python scripts/screenshots.py

test-comfyui: $(INSTALLED) ## Run the tests against a real ComfyUI (installed once, outside the repo)
	$(BIN)/python tests/comfyui_peer/install.py
	$(BIN)/python -m pytest -m comfyui

bench: $(INSTALLED) ## Measure the hot paths beside their peers (by hand, on a quiet machine)
	$(BIN)/python -m bench $(BENCH)

clean: ## Remove the virtual environment and caches
	rm -rf $(VENV) web/node_modules src/comfyrail/api/page_files src/comfyrail/api/.page_files-* .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
