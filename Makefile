# `make demo` and `make test` do all the set-up on a fresh machine; `make help` lists the rest.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PYSPARK ?= pyspark==4.3.*
STAMP := $(VENV)/.installed
KERNEL_SOURCES := $(shell find native_log/kernel -name target -prune -o -type f -print)
CARGO_MANIFEST := native_log/kernel/Cargo.toml

export PYSPARK_PYTHON := $(abspath $(BIN)/python)
export PYSPARK_DRIVER_PYTHON := $(PYSPARK_PYTHON)

.DEFAULT_GOAL := help
.PHONY: help demo test lint format install kernel java bench clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*?## ' $(MAKEFILE_LIST) | awk -F ':.*?## ' '{printf "  make %-10s %s\n", $$1, $$2}'

demo: install java ## read a broker-written sample with Spark and print its rows, no broker
	$(BIN)/python examples/demo.py

test: install java ## the whole test suite
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: install ## ruff, mypy, rustfmt, clippy, cargo test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	cargo fmt --manifest-path $(CARGO_MANIFEST) --check
	cargo clippy --manifest-path $(CARGO_MANIFEST) --locked --all-targets --all-features -- -D warnings
	cargo test --manifest-path $(CARGO_MANIFEST) --locked --no-default-features

format: install ## format the Python and Rust sources
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	cargo fmt --manifest-path $(CARGO_MANIFEST)

install: $(STAMP) ## make the environment in .venv and install the project into it, kernel included where cargo is

$(STAMP): pyproject.toml setup.py $(KERNEL_SOURCES)
	@$(PYTHON) -c 'import sys; sys.exit("kafkalog needs Python 3.11 or newer, $(PYTHON) is " + sys.version.split()[0] + ": make PYTHON=/path/to/python3.11 ...") if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e '.[test]' '$(PYSPARK)'
	@$(BIN)/python -c 'from native_log.records import IMPLEMENTATION as i; print("record formats run on the", i)'
	touch $@

kernel: ## build the compiled kernel again, in place
	KAFKALOG_REQUIRE_KERNEL=1 $(BIN)/python -m pip install --quiet --no-deps -e .

java:
	@version=$$("$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version 2>&1 | sed -nE 's/.* version "([0-9]+).*/\1/p'); \
	test "$${version:-0}" -ge 17 || { \
	  echo "Spark needs Java 17 or newer; found: $${version:-none}. Install one, for example"; \
	  echo "  Debian, Ubuntu:  sudo apt-get install openjdk-17-jre-headless"; \
	  echo "  Fedora, RHEL:    sudo dnf install java-17-openjdk-headless"; \
	  echo "  macOS:           brew install openjdk@17"; \
	  echo "or point JAVA_HOME at one, and run the command again."; exit 1; }

bench: install ## measure beside the peers (see benchmarks/README.md)
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

clean: ## remove the environment and what was built
	rm -rf $(VENV) build *.egg-info native_log/_kernel*.so native_log/kernel/target
