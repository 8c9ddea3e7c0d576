# One command each: run, test, format, lint. All that they need is Python 3.11 or newer, with venv; the rest goes into .venv.
.DEFAULT_GOAL := help
.PHONY: help run test format lint clean

PORT ?= 8000
VENV := .venv
BIN := $(VENV)/bin
# Quiet but for errors, and no advertisement of a newer pip.
INSTALL := $(BIN)/python -m pip install -qq --no-input --disable-pip-version-check
SOURCES := inbox agents mesh glove_site demo tests bench manage.py

help:
	@echo 'make run      start everything in one process, with the demo: http://127.0.0.1:$(PORT)/ (PORT=$(PORT))'
	@echo 'make test     run all tests; ARGS="-k words" for some of them'
	@echo 'make format   format the code and the templates'
	@echo 'make lint     check format, style, types, templates and imports'
	@echo 'make clean    remove .venv; the next command makes it anew'

run: $(VENV)/.run
	@$(BIN)/python manage.py migrate --verbosity 0
	@$(BIN)/python manage.py demo
	@exec $(BIN)/python manage.py serve --port $(PORT)

test: $(VENV)/.dev
	@$(BIN)/python -m tests $(ARGS)

format: $(VENV)/.dev
	@$(BIN)/ruff check --quiet --fix --exit-zero .
	@$(BIN)/ruff format --quiet .
	@$(BIN)/djlint --reformat --quiet --allow-empty-input . || test $$? -eq 1

lint: $(VENV)/.dev
	@$(BIN)/ruff check --quiet --output-format concise .
	@$(BIN)/ruff format --check --quiet . || { $(BIN)/ruff format --diff . ; exit 1; }
	@$(BIN)/djlint --check --quiet --allow-empty-input . || { $(BIN)/djlint --check . ; exit 1; }
	@$(BIN)/djlint --lint --quiet --allow-empty-input .
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/mypy $(SOURCES)

clean:
	@rm -rf $(VENV)

# --- Installing, skipped while the requirements are unchanged
$(VENV)/.run: requirements.txt $(VENV)/.made
	@echo 'Installing what the project needs into $(VENV) (once, about a minute) ...'
	@$(INSTALL) -r requirements.txt
	@touch $@

$(VENV)/.dev: requirements-dev.txt requirements.txt $(VENV)/.made
	@echo 'Installing what the project and its tests need into $(VENV) (once, about two minutes) ...'
	@$(INSTALL) -r requirements-dev.txt
	@touch $@ $(VENV)/.run

# The first Python that is new enough and can make a virtual environment, or the one that PYTHON=... names.
$(VENV)/.made:
	@for python in $(or $(PYTHON),python3 python3.11 python3.12 python3.13 python3.14 python); do \
	    if $$python -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	        $$python -m venv --clear $(VENV) && touch $@ && exit 0; \
	        exit 1; \
	    fi; \
	done; \
	echo "Python 3.11 or newer with its venv module is needed, and $(or $(PYTHON),python3) is $$($(or $(PYTHON),python3) --version 2>/dev/null || echo missing):" \
	    "install one (on Debian: apt-get install python3 python3-venv), or name it: make PYTHON=/path/to/python3.11 ..." >&2; \
	exit 1
