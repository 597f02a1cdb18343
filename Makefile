# make install | test | lint | demo [FOLDER=…] | lock | clean
#
# Everything lives in .venv; nothing is installed outside it. Each target installs what it lacks, and is quick when
# nothing is missing.

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
FOLDER ?=

.DEFAULT_GOAL := help
.PHONY: help install test lint demo lock clean

help:
	@sed -n '1p' Makefile | sed 's/^# //'

install: $(INSTALLED)

$(BIN)/python:
	@set -e; \
	for python in python3.13 python3.12 python3.11 python3; do \
	    if $$python -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	        echo "Making $(VENV) with $$($$python --version)"; \
	        exec $$python -m venv --clear $(VENV); \
	    fi; \
	done; \
	echo "headwater needs Python 3.11 or newer with venv, and found none." >&2; \
	echo "Install it (Debian, Ubuntu: apt-get install python3 python3-venv; macOS: brew install python)." >&2; \
	exit 1

# The stamp is older than the lock or the project's metadata: install again. Hashes are checked for every package.
$(INSTALLED): requirements.lock pyproject.toml | $(BIN)/python
	@echo "Installing headwater and its locked dependencies into $(VENV)"
	@$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements.lock
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

test: install
	$(BIN)/pytest $(ARGS)

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

demo: install
	@$(BIN)/headwater demo $(if $(FOLDER),--folder "$(FOLDER)")

# Pins every dependency and the build back end, with hashes, for all supported Pythons and systems.
lock:
	@command -v uv >/dev/null || { echo "make lock needs uv: pip install uv" >&2; exit 1; }
	echo 'hatchling>=1.27' | uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	    --no-emit-index-url --no-header --all-extras --output-file requirements.lock pyproject.toml -

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
