# Two commands do everything on a fresh machine: `make demo` and `make test`.
SHELL := /bin/bash
PYTHON ?= $(shell scripts/find-python)
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help setup demo test lint types catalogue bench-scan bench-stats bench-guard bench-sandbox bench-panel bench-branch bench-profile bench-rollout clean catalogue proof-panel proof-train
.DEFAULT_GOAL := help

help:            ## this list
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 18

$(BIN)/misstep: pyproject.toml constraints.txt
	@scripts/find-python >/dev/null
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: $(BIN)/misstep
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev,harbor,models,train]'
	@touch $@

setup: $(BIN)/misstep ## .venv with the misstep command

demo: setup      ## scan real sessions and write the HTML report
	$(BIN)/misstep scan examples/sessions --html misstep-report.html
	@echo
	@echo "The report: $(CURDIR)/misstep-report.html"
	@echo
	$(BIN)/python examples/guard/demo.py

test: $(VENV)/.dev ## lint, types, import contract, all tests
	scripts/install-clis
	scripts/test

lint: $(VENV)/.dev ## ruff and the import contract
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/lint-imports

types: $(VENV)/.dev ## the type checker
	$(BIN)/mypy

clean:           ## remove what setup made
	rm -rf $(VENV) misstep-report.html

bench-scan: setup ## CPU of a scan against atif-make + atif-scan
	$(BIN)/python scripts/bench-scan

bench-stats: setup ## exact inference against scipy's resampling
	$(BIN)/python scripts/bench-stats

bench-guard: setup ## a hook of the guard against bare interpreters
	$(BIN)/python scripts/bench-guard

catalogue: setup ## docs/catalogue.md, anew from the catalogue's modules and labels
	$(BIN)/misstep catalogue --markdown > docs/.catalogue && mv docs/.catalogue docs/catalogue.md

bench-sandbox: $(VENV)/.dev ## sandboxes against Docker on the same root
	scripts/install-sandbox
	$(BIN)/python scripts/bench-sandbox

bench-panel: $(VENV)/.dev ## inference of a panel against scipy's resampling; a report on 100,000 attempts
	$(BIN)/python scripts/bench-panel

bench-branch: $(VENV)/.dev ## the variance of branch tests beside that of whole runs
	scripts/install-sandbox
	$(BIN)/python scripts/bench-branch

bench-profile: $(VENV)/.dev ## recorded profiling against a local server that answers in 50 ms
	$(BIN)/python scripts/bench-profile

bench-rollout: $(VENV)/.dev ## what an episode's step costs beside the model
	scripts/install-sandbox
	$(BIN)/python scripts/bench-rollout

proof-panel: $(VENV)/.dev ## a panel of known effect (scripted model), the longer form
	scripts/install-clis && scripts/install-sandbox
	$(BIN)/python scripts/proof-panel

proof-train: $(VENV)/.dev ## the recipes side by side on a small policy made from nothing, real sandboxes (25 minutes)
	scripts/install-sandbox
	$(BIN)/python scripts/proof-train
