# `make` lists the commands. `make demo` and `make test` do everything from a fresh machine on.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON := .venv/bin/python
TAILRACE := .venv/bin/tailrace
export UV_LINK_MODE ?= copy

.PHONY: help setup testbed-setup demo wheel changelog test explore sweep check bench golden docs replicate

help:  ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup:  ## get everything that is needed and build the engine
	@tools/setup

testbed-setup: setup  ## install the servers of the testbed (Debian's packages, as root) and build the bulletin board
	@tools/setup --testbed
	@$(TAILRACE) testbed doctor

demo: setup  ## explain the bundled recording and write demo-report.html
	@$(TAILRACE) demo
	@echo "The report is in $(CURDIR)/demo-report.html"

wheel: setup  ## build wheel and sdist into dist/: for any Linux with glibc 2.28 or newer and Python 3.11 or newer
	@tools/setup --wheel
	@PATH="$(CURDIR)/.venv/bin:$$PATH" maturin build --release --locked --zig --compatibility manylinux_2_28 --out dist
	@PATH="$(CURDIR)/.venv/bin:$$PATH" maturin sdist --out dist
	@ls -l dist

changelog:  ## move the fragments in changes/ into CHANGELOG.md, as the section of the version that Cargo.toml states
	@$(PYTHON) -m towncrier build --yes --version "$$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)"

test: setup  ## run all tests, Rust, Java and Python; property tests draw the same cases in every run
	@tools/setup --tests
	@echo "cargo test"
	@PROPTEST_RNG_SEED=1 cargo test --quiet --locked --workspace
	@echo "mvn verify (board)"
	@mvn --quiet --batch-mode --file board/pom.xml verify
	@$(PYTHON) -m pytest -n auto --maxprocesses 8

SEED ?= $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
explore: SEED := $(SEED)
ATTACKS ?= 20000
explore: setup  ## run the property tests with ten times as many cases drawn anew, and damaged input for half an hour
	@echo "make explore SEED=$(SEED) draws these cases again"
	@EXPLORE=10 PROPTEST_RNG_SEED=$(SEED) PROPTEST_CASES=2560 cargo test --quiet --locked --workspace
	@$(PYTHON) -m pytest -m hypothesis --hypothesis-profile=explore --hypothesis-seed=$(SEED)
	@$(PYTHON) tests/attacks.py --runs $(ATTACKS) --seed $(SEED)
	@if [ "$$(id -u)" = 0 ]; then $(PYTHON) tests/attacks.py --runs $(ATTACKS) --seed $$(( $(SEED) + $(ATTACKS) )) --user nobody; fi
	@fuzz/run 60

RUNS ?= 1000
FIRST ?= 1000000
SYSTEMS ?= both
sweep: setup  ## diagnose RUNS random SYSTEMS (chains, graphs, both, papers) from seed FIRST on, and count what is right (in sweep/)
	@$(TAILRACE) examine --systems $(SYSTEMS) --runs $(RUNS) --seed $(FIRST) --out sweep/$(SYSTEMS)-$(FIRST)-$(RUNS)

check: setup  ## formatting, lints, types and the rules of the house
	@$(PYTHON) -m ruff check python tests benches
	@$(PYTHON) -m ruff format --check python tests benches
	@$(PYTHON) -m mypy
	@cargo fmt --check
	@cargo clippy --quiet --locked --workspace --all-targets -- -D warnings
	@if command -v mvn >/dev/null; then mvn --quiet --batch-mode --file board/pom.xml spotless:check; else echo "board/: not looked at, for Maven is not here (tools/setup --testbed)"; fi
	@$(PYTHON) -m pytest tests/test_tidy.py

BENCH_DATA ?= /tmp/tailrace-bench
bench: setup  ## measure against the peers named in benches/README.md (data in BENCH_DATA, about 2 GB)
	@test -e $(BENCH_DATA)/http.pcap || benches/decode/generate.sh $(BENCH_DATA)
	@benches/decode/peers.sh
	@$(PYTHON) benches/decode/bench.py $(BENCH_DATA)/http.pcap --runs 5 --save decode
	@$(PYTHON) benches/read/bench.py --out benches/results/read.json
	@test -d $(BENCH_DATA)/visits || $(PYTHON) benches/reduce/generate.py $(BENCH_DATA)/visits
	@$(PYTHON) benches/reduce/bench.py $(BENCH_DATA)/visits
	@$(PYTHON) benches/scale/bench.py $(BENCH_DATA)/visits --most 10000000
	@$(PYTHON) benches/diagnose/bench.py
	@$(PYTHON) benches/report/bench.py
	@benches/sim/peers.sh
	@$(PYTHON) benches/sim/bench.py --rounds 5 --save sim
	@$(PYTHON) benches/sim/tables.py 180
	@$(PYTHON) benches/sim/tables.py 180 experiments/balancers/base
	@$(PYTHON) benches/load/bench.py --save load
	@if [ "$$(id -u)" = 0 ]; then $(PYTHON) benches/record/bench.py --save record; else echo "benches/record: not measured, for it needs root"; fi

REPLICATIONS ?=
replicate: setup  ## reproduce all papers and diagnose their runs (in replication/); REPLICATIONS=3: each run at most three times
	@$(TAILRACE) reproduce --all --diagnose --package --at-most $(or $(REPLICATIONS),16) -o replication

golden: setup  ## rewrite the expected results beside the golden cases; review the diff
	@TAILRACE_GOLDEN=rewrite $(PYTHON) -m pytest tests/golden tests/unit/test_docs.py

docs: setup  ## run every command and program of the documents, then build their site into site/
	@$(PYTHON) -m pytest tests/unit/test_docs.py
	@tools/setup --docs
	@$(PYTHON) -m mkdocs build --quiet --clean
	@echo "The documents are in $(CURDIR)/site/index.html"
