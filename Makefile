# `make demo` and `make test` do all the set-up on a fresh machine; `make help` lists the rest.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PYSPARK ?= pyspark==4.3.*
EXTRAS ?= test
STAMP := $(VENV)/.installed
KERNEL := kernel
KERNEL_SOURCES := $(shell find $(KERNEL) \( -name target -o -name tests -o -name benches -o -name __pycache__ -o -path $(KERNEL)/fuzz \) -prune -o -type f -print)
CARGO_MANIFEST := $(KERNEL)/Cargo.toml
FUZZ_ROUNDS ?= 5000
FUZZ_SECONDS ?= 60
FUZZ_TARGETS := $(basename $(notdir $(wildcard $(KERNEL)/fuzz/fuzz_targets/*.rs)))

# Tests start hundreds of Python processes, which are to find compiled sources.
unexport PYTHONDONTWRITEBYTECODE
export PYSPARK_PYTHON := $(abspath $(BIN)/python)
export PYSPARK_DRIVER_PYTHON := $(PYSPARK_PYTHON)

.DEFAULT_GOAL := help
.PHONY: help demo check test lint lint-python lint-kernel format docs install kernel wheel cargo java bench fuzz miri clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*?## ' $(MAKEFILE_LIST) | awk -F ':.*?## ' '{printf "  make %-10s %s\n", $$1, $$2}'

demo: install java ## read a broker-written sample with Spark and print its rows, no broker
	$(BIN)/python examples/demo.py

# The tests of a file stay in one process. (pytest-xdist 3.8 ignores groups with pytest 9.2.)
PARALLEL ?= -n auto --dist loadfile --no-loadscope-reorder

check: lint install ## lint, and the tests that need no Java: a few minutes
	$(BIN)/python -m pytest -q $(PARALLEL) -m 'not spark and not connect and not broker and not object_store' $(PYTEST_ARGS)

test: install java ## the whole test suite, with Spark and real brokers
	$(BIN)/python -m pytest $(PARALLEL) $(PYTEST_ARGS)

lint: lint-python lint-kernel ## ruff, mypy, rustfmt, clippy, cargo test

lint-python: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

lint-kernel:
	cargo fmt --manifest-path $(CARGO_MANIFEST) --all --check
	cargo fmt --manifest-path $(KERNEL)/fuzz/Cargo.toml --check
	cargo clippy --manifest-path $(CARGO_MANIFEST) --locked --profile checked --workspace --all-targets -- -D warnings
	KERNEL_FUZZ_ROUNDS=$(FUZZ_ROUNDS) cargo test --manifest-path $(CARGO_MANIFEST) --locked --profile checked

format: install ## format the Python and Rust sources
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	cargo fmt --manifest-path $(CARGO_MANIFEST) --all
	cargo fmt --manifest-path $(KERNEL)/fuzz/Cargo.toml

docs: $(VENV)/.docs ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

$(VENV)/.docs: $(STAMP)
	KAFKALOG_REQUIRE_KERNEL=0 $(BIN)/python -m pip install --quiet -e '.[docs]'
	touch $@

install: $(STAMP) ## make the environment in .venv and install the project into it, kernel included where cargo is

$(STAMP): pyproject.toml setup.py $(KERNEL_SOURCES)
	@$(PYTHON) -c 'import sys; sys.exit("kafkalog needs Python 3.11 or newer, $(PYTHON) is " + sys.version.split()[0] + ": make PYTHON=/path/to/python3.11 ...") if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e '.[$(EXTRAS)]' '$(PYSPARK)'
	@$(BIN)/python -c 'from native_log.records import IMPLEMENTATION as i; print("record formats run on the", i)'
	touch $@

kernel: ## build the compiled kernel again, in place
	KAFKALOG_REQUIRE_KERNEL=1 $(BIN)/python -m pip install --quiet --no-deps -e .

# Machines to build wheels for, and the oldest glibc that the wheels work with.
MACHINES ?= x86_64 aarch64
GLIBC := 2.17
TARGET = $*-unknown-linux-gnu
ADD_TARGET = ! command -v rustup >/dev/null || rustup target add $(TARGET)
ZIG = CARGO_ZIGBUILD_ZIG_PATH=$$($(BIN)/python -c 'import ziglang; print(ziglang.__path__[0] + "/zig")')

wheel: cargo java $(VENV)/.wheel ## build an sdist, and wheels for MACHINES="x86_64 aarch64", into dist/, and check them
	rm -rf dist
	$(BIN)/python -m build --quiet --sdist --outdir dist .
	$(MAKE) $(MACHINES:%=wheel-%) $(MACHINES:%=kernel-tests-%)
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents --ignore W009 dist/*.whl
	KAFKALOG_DIST=dist $(BIN)/python -m pytest tests/wheels $(PYTEST_ARGS)

# Each wheel is built from the sdist. Zig as the linker can link against old versions of glibc and for other machines.
wheel-%: export CARGO := $(abspath $(BIN))/cargo-zigbuild
wheel-%: export CARGO_BUILD_TARGET = $(TARGET).$(GLIBC)
wheel-%: export CARGO_TARGET_DIR := $(abspath $(KERNEL)/target)
wheel-%: export PYO3_CROSS_PYTHON_VERSION := 3.11
wheel-%: export KAFKALOG_REQUIRE_KERNEL := 1
wheel-%:
	$(ADD_TARGET)
	$(ZIG) $(BIN)/python -m pip wheel --quiet --no-deps --no-cache-dir --wheel-dir dist \
	  -C--build-option=--plat-name=manylinux_$(subst .,_,$(GLIBC))_$* dist/*.tar.gz

# The command that runs programs for the machine: qemu with that machine's glibc; here, `env` runs them as they are.
RUNNER = $(if $(filter $*,$(shell uname -m)),env,qemu-$* -L /usr/$*-linux-gnu)

# The kernel's tests, linked as its wheel is.
kernel-tests-%: cargo $(VENV)/.wheel
	$(ADD_TARGET)
	@if command -v $(firstword $(RUNNER)) >/dev/null; then \
	  $(ZIG) $(BIN)/cargo-zigbuild test --quiet --manifest-path $(CARGO_MANIFEST) --locked --profile checked \
	    --target $(TARGET).$(GLIBC) --config 'target.$(TARGET).runner = "$(RUNNER)"'; \
	else \
	  echo "The kernel was not tested for $*, because $(firstword $(RUNNER)) is missing. Install it, for example"; \
	  echo "  Debian, Ubuntu:  sudo apt-get install qemu-user libc6-arm64-cross"; \
	fi

$(VENV)/.wheel: $(STAMP)
	KAFKALOG_REQUIRE_KERNEL=0 $(BIN)/python -m pip install --quiet -e '.[wheel]'
	touch $@

cargo:
	@command -v cargo >/dev/null || { \
	  echo "Wheels contain the compiled kernel, which needs Rust's cargo; found none."; \
	  echo "Install rustup (https://rustup.rs), and run the command again."; exit 1; }

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

fuzz: ## fuzz the kernel with libFuzzer and AddressSanitizer, FUZZ_SECONDS=60 for each target
	@if cargo +nightly fuzz --version >/dev/null 2>&1; then set -e; \
	  cargo test --manifest-path $(CARGO_MANIFEST) --locked --test fuzz -- --quiet --ignored write_corpus; \
	  for target in $(FUZZ_TARGETS); do \
	    (cd $(KERNEL) && cargo +nightly fuzz run $$target -- -max_total_time=$(FUZZ_SECONDS) -max_len=16384 -timeout=30); \
	  done; \
	else \
	  echo "libFuzzer needs a nightly toolchain (rustup toolchain install nightly) and cargo-fuzz"; \
	  echo "(cargo install cargo-fuzz --locked); running the same targets on stable Rust, without AddressSanitizer."; \
	  KERNEL_FUZZ_ROUNDS=50000 cargo test --manifest-path $(CARGO_MANIFEST) --locked --test fuzz; \
	fi

# Tests that reach the unsafe code, and take minutes under Miri. Left out: what calls a C library (liblz4, libdeflate,
# libzstd) or reads files, which Miri cannot do; and tests of millions of steps, which would take hours.
MIRI_TESTS := codec::lz4_block::tests::matches_reach codec::snappy_block::tests::lengths codec::snappy_write:: pool:: \
  compaction::packs:: compaction::short_keys::tests::keys_of_any_length compaction::swiss_table:: \
  compaction::tests::a_log_without_compression text::writer::

miri: ## run unit tests of the kernel's unsafe code under Miri
	@if cargo +nightly miri --version >/dev/null 2>&1; then \
	  cargo +nightly miri test --manifest-path $(CARGO_MANIFEST) --locked --lib -- $(MIRI_TESTS); \
	else \
	  echo "Miri is missing: rustup toolchain install nightly --component miri"; exit 1; \
	fi

clean: ## remove the environment and what was built
	rm -rf $(VENV) build dist site *.egg-info native_log/_kernel*.so $(KERNEL)/target $(KERNEL)/fuzz/target
