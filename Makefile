# make build       the program: target/release/reprise
# make demo        records and replays a small SQLite workload, shown step by step
# make test        all tests: the crates', the comparison's own, the workload matrix
# make lint        formatting and clippy, warnings are errors
# make docs-table  measures docs/WORKLOADS.md anew
# make table-programs  measures docs/PROGRAMS.md anew: large programs in every order
# make bench-ordering  how well replays predict the time on another storage system, by ordering (docs/RESULTS.md)
# make bench-capture  what it costs a program to be traced, by strace, perf and Reprise (docs/RESULTS.md)
# make bench-replay  how fast replays are beside the programs that they were recorded from
# make bench-validate  how far response times of replays can be trusted, beside published figures (docs/METROLOGY.md)
# make bench-report  how long timelines of 480,000 spans take to draw in a browser
# make test-capture  programs with io_uring, Linux AIO and mapped files, recorded and replayed
# make test-kernels  what must work everywhere, under the kernels of five distributions, emulated (docs/CAPTURE.md)
# make dist        a static tarball and a Debian package, in dist/
# make bench       what recording, replaying and compiling cost, as tables

SHELL := /bin/bash
CARGO ?= cargo
PYTHON ?= python3
export CARGO PYTHON
# rustup's place, for shells that have not read ~/.cargo/env
export PATH := $(PATH):$(HOME)/.cargo/bin

.PHONY: build demo dist test lint docs-table table-programs bench bench-ordering bench-capture bench-replay bench-validate bench-report test-capture test-kernels
.DEFAULT_GOAL := build

build:
	@scripts/install-deps build
	$(CARGO) build --release

demo:
	@scripts/install-deps demo
	$(CARGO) build --release
	@scripts/demo

dist:
	@scripts/install-deps build
	@scripts/dist

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

table-programs:
	@scripts/install-deps programs
	$(CARGO) build --release
	$(PYTHON) tests/ordering/table.py --table docs/PROGRAMS.md

bench:
	@scripts/install-deps test
	$(CARGO) build --release --workspace
	@scripts/bench
	@scripts/bench-compile

# Options by ORDERING='--quick --json FILE …'.
bench-ordering:
	@scripts/install-deps timing
	$(CARGO) build --release
	@scripts/bench-ordering $(ORDERING)

# Options by CAPTURE='--quick --only rocksdb,records --tools ebpf-full …'.
bench-capture:
	@scripts/install-deps capture
	$(CARGO) build --release
	@scripts/bench-capture $(CAPTURE)

# Options by REPLAY='--quick --only pread …'.
bench-replay:
	@scripts/install-deps capture
	$(CARGO) build --release --workspace --bins
	@scripts/bench-replay $(REPLAY)

# Options by VALIDATE='--quick --only random-read …'.
bench-validate:
	@scripts/install-deps validate
	$(CARGO) build --release
	@scripts/bench-validate $(VALIDATE)

bench-report:
	@scripts/install-deps report
	$(CARGO) build --release
	@scripts/bench-report

test-capture:
	@scripts/install-deps capture test
	$(CARGO) build --release
	$(PYTHON) tests/capture/programs.py

test-kernels:
	@scripts/install-deps kernels
	$(CARGO) test --release -p reprise -p reprise-capture --no-run
	@scripts/try-kernels
