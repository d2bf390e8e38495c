# make build       the program: target/release/reprise
# make demo        records and replays a small SQLite workload, shown step by step
# make test        all tests: the crates', the comparison's own, the workload matrix
# make lint        formatting and clippy, warnings are errors
# make docs-table  measures docs/WORKLOADS.md anew
# make bench       what recording and replaying cost, beside strace, as a table

SHELL := /bin/bash
CARGO ?= cargo
PYTHON ?= python3
export CARGO PYTHON
# rustup's place, for shells that have not read ~/.cargo/env
export PATH := $(PATH):$(HOME)/.cargo/bin

.PHONY: build demo test lint docs-table bench
.DEFAULT_GOAL := build

build:
	@scripts/install-deps build
	$(CARGO) build --release

demo:
	@scripts/install-deps demo
	$(CARGO) build --release
	@scripts/demo

test:
	@scripts/install-deps test
	@scripts/test

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

docs-table:
	@scripts/install-deps test
	$(CARGO) build --release
	$(PYTHON) tests/workloads/run.py --table docs/WORKLOADS.md

bench:
	@scripts/install-deps test
	$(CARGO) build --release
	@scripts/bench
