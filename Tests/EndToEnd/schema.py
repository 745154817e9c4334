#!/usr/bin/env python3
"""Compares the schema that `interlock config schema` prints with the parser of configurations.

The parser must know the same keys in every section, and both must accept or reject the samples of this repository, and
variants of configurations that together have every key.
"""

import argparse
import copy
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import yaml

import pages

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = ROOT / "Sources/SidecarSettings/configuration.schema.json"
SAMPLES = (
    "docs/sample.yaml",
    "docs/envoy/interlock.yaml",
    "docker/interlock.yaml",
    "demo/services.yaml",
    "packaging/interlock.yaml",
)
UNKNOWN = "no-such-key-anywhere"
Step = str | int
KeyPath = tuple[Step, ...]

# Several configurations, because some keys exclude each other. Together they have every key.
COMPLETE_CONFIGURATIONS = """
redis:
  url: "rediss://127.0.0.1:6379"
  tls: { ca: /ca, cert: /cert, key: /key, server_name: redis.internal }
  password_file: /password
  embedded: false
  urls: ["redis://a:1", "redis://b:2", "unix:///c"]
  prefix: "interlock:"
  timeout: 500ms
listen:
  resp: "127.0.0.1:7379"
  http: "[::1]:7380"
  grpc: "localhost:0"
  unix: /run/interlock.sock
  unix_mode: "0660"
  unix_group: interlock
  hosts: [interlock.internal]
  tls: { certificate: /certificate, key: /key, grpc_client_ca: /ca }
  allow_plaintext: false
  max_connections: 10000
log: { level: info, format: text }
tracing:
  endpoint: "https://collector:4318"
  ca: /ca
  headers: [{ name: Authorization, value_file: /token }, { name: X-Tenant, value: seven }]
  sample: 0.5%
  follow_parents: true
auth:
  keys:
    - { name: ops, role: admin, key_env: OPS_KEY }
    - { name: web, role: use, key_file: /web }
    - { name: job, role: use, key: never-a-real-key }
locks: { key_prefix: "", min_ttl: 100ms, max_ttl: 1h, max_wait: 0s, max_hold: 1d, fence_ttl: 1d, wait_replicas: 0 }
fleet_size: 3
services:
  catalog:
    url: "https://api.example.com/v2"
    tls: { ca: /ca }
    http2: true
    timeouts: { connect: 2s, first_byte: 15s, idle: 5m, total: none }
    connections: { idle: 4s, max_age: 1h30m }
    retries: { attempts: 1, budget: 12.5%, min_per_second: 1 }
    fallback: { status: 503, body: later, type: text/plain }
    limits:
      - { name: all, limit: 10, per: 1s, algorithm: gcra, burst: 3, per_subject: true, subject: required,
          shadow: false }
    on_limit: { action: wait, pause: 2s..3s, patience: 5s, max_waiting: 1000 }
    when_redis_is_down: local
    breaker:
      failure_rate: 50%
      slow_call: 1.5s
      slow_rate: 80%
      window: 10s
      minimum_calls: 20
      consecutive_failures: 5
      reporters: 1
      open_for: 5s..60s
      half_open_permits: 3
      failures: [500..599, 429]
      ignore: 404
      honour_retry_after: true
      metrics_only: false
    probe:
      path: /status
      every: 5s
      timeout: 1s
      expect: { status: 200..399, headers: { X-A: b }, body: ok, json: { $.status: ok } }
      unhealthy_after: 3
      healthy_after: 2
      trial: true
      from: one
    permit_ttl: 1m
    concurrency: 32
    max_subjects: 100000
rate_limits:
  edge:
    independent: true
    count_refused: false
    shadow: false
    when_redis_is_down: allow
    max_counters: 1000
    descriptors:
      - key: path
        value: "/a*"
        share: true
        limit: 100
        per: 1m
        algorithm: gcra
        burst: 10
        unlimited: false
        shadow: false
        name: pages
        replaces: [others]
        detailed_metrics: true
        descriptors: [{ key: plan, value: free, unlimited: true }]
rls: { timeout: 15ms, import: [$import] }
---
redis: { sentinels: ["sentinel-1:26379", sentinel-2], primary: main, sentinel_password_file: /password }
services:
  catalog:
    url: "http://127.0.0.1:8080"
    timeouts: { total: 1m }
    connections: { max_age: none }
    fallback: { last_good: 5m }
    limits: [{ limit: 10, per: 1s, algorithm: sliding }]
    breaker: { window_calls: 100, minimum_calls: 10 }
    probe: { url: "http://127.0.0.1:8080/status?full" }
  search:
    probe: { tcp: "127.0.0.1:6379" }
---
redis: { cluster: ["redis-1:6379"] }
---
redis: { url_env: REDIS_URL }
rate_limits:
  quota: { descriptors: [{ key: plan, limit: 0 }, { key: tenant, limit: 5, per: 1s, algorithm: aligned }] }
"""

# Inputs of the fuzzer that are valid configurations without tags, which editors reject.
VALID_INPUTS = {
    "algorithms",
    "all-sections",
    "byte-order-mark",
    "empty",
    "fallback-fixed",
    "only-a-comment",
    "probe-tcp",
    "quorum",
    "sample",
}
VALID = (
    "x-second: &second { limit: 5, per: 1s }\nservices: { a: { limits: [*second] } }",
    "locks: { max_ttl: 1d12h, max_wait: 1.5s }",
    "services: { a: { breaker: { open_for: 2s, failure_rate: 100%, failures: [] } } }",
    "services: { a: { limits: [{ name: 5, limit: 5, per: 500ms }] } }",
    "listen: { unix: /a, unix_mode: 0660 }",
    "rate_limits: { a: { descriptors: [{ key: b, value: 5, unlimited: true }] } }",
)
INVALID = (
    "redis: 127.0.0.1",
    "redis: { url: 127.0.0.1 }",
    "redis: { timeout: 500 }",
    "redis: { timeout: 5 s }",
    "redis: { timeout: 1s1m }",
    "listen: { http: 7380 }",
    "listen: { resp: '127.0.0.1:7379 ' }",
    "listen: { unix: /a, unix_mode: '0777' }",
    "auth: { keys: [{ name: a, role: use }] }",
    "auth: { keys: [{ name: a, role: use, key: never-a-real-key, key_env: A }] }",
    "auth: { keys: [{ name: a, role: root, key: never-a-real-key }] }",
    "fleet_size: '3'",
    "services: { 'a:b': {} }",
    "services: { 'a b': {} }",
    "services: { a: { timeouts: { total: 1m } } }",
    "services: { a: { url: 'ftp://a' } }",
    "services: { a: { url: 'http://a?b' } }",
    "services: { a: { limits: [{ limit: 5 }] } }",
    "services: { a: { limits: [{ limit: 5, per: 1s, burst: 3 }] } }",
    "services: { a: { limits: [{ limit: 10001, per: 1s, algorithm: sliding }] } }",
    "services: { a: { limits: [{ limit: 5, per: 1s, subject: required }] } }",
    "services: { a: { limits: [{ name: a~b, limit: 5, per: 1s }] } }",
    "services: { a: { breaker: { failure_rate: 0.5 } } }",
    "services: { a: { breaker: { failure_rate: 101% } } }",
    "services: { a: { breaker: { failures: 5xx } } }",
    "services: { a: { breaker: { window: 10s, window_calls: 100 } } }",
    "services: { a: { breaker: { metrics_only: yes } } }",
    "services: { a: { breaker: { open_for: 5s-60s } } }",
    "services: { a: { probe: { every: 5s } } }",
    "services: { a: { probe: { tcp: 'a:1', expect: { status: 200 } } } }",
    "services: { a: { probe: { url: 'http://a', expect: { json: { status: ok } } } } }",
    "services: { a: { url: 'http://a', fallback: { status: 503, last_good: 5m } } }",
    "services: { a: { url: 'http://a', fallback: { last_good: 5m, body: b } } }",
    "rate_limits: { a: {} }",
    "rate_limits: { a: { descriptors: [{ key: b, limit: 5 }] } }",
    "rate_limits: { a: { descriptors: [{ key: b, per: 1s }] } }",
    "rate_limits: { a: { descriptors: [{ key: b, unlimited: true, limit: 5, per: 1s }] } }",
    "rate_limits: { a: { descriptors: [{ key: b, value: c, share: true, limit: 5, per: 1s }] } }",
    "rate_limits: { a: { count_refused: true, descriptors: [] } }",
)
# Variants that only the parser rejects, by the rule that the schema does not express.
PARSER_ONLY = {
    "keys that require or exclude keys elsewhere": (
        r"redis\.(url|sentinels|primary|tls\.cert|tls\.key): (removed|null)",
        r"locks\.wait_replicas: (5|100)",
        r"services\.catalog\.url: null",
        r"rate_limits\..*\.limit: null",
    ),
    "a number that another key limits": (r"services\.catalog\.breaker\.minimum_calls: 1000000000",),
    "a file that must exist": (r'rls\.import(\.0)?: "no-such-word"',),
}
# Variants that only the schema rejects: a number that the parser accepts as text, and an empty path, which the parser
# rejects only when it reads files.
SCHEMA_ONLY = r".*: 5|.*\.(certificate|key|ca|value_file|key_file|url_env): null"


class CoreLoader(yaml.SafeLoader):
    """YAML 1.2, as editors read it: `0660` is a number, and `on` a text."""


CoreLoader.yaml_implicit_resolvers = {}
for tag, pattern, first in (
    ("null", r"~|null|", ["~", "n", ""]),
    ("bool", r"true|false", list("tf")),
    ("int", r"[-+]?[0-9]+", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", list("-+.0123456789")),
):
    CoreLoader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(f"^(?:{pattern})$"), first)
CoreLoader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(loader.construct_scalar(node)))


@dataclass(frozen=True)
class Variant:
    """A configuration with one change."""

    key_path: KeyPath
    change: str
    value: Any

    @property
    def name(self) -> str:
        return f"{'.'.join(map(str, self.key_path))}: {self.change}"


class Parser:
    """The parser of the binary."""

    def __init__(self, binary: str) -> None:
        self.binary = binary

    def schema(self) -> str:
        return subprocess.run([self.binary, "config", "schema"], check=True, capture_output=True, text=True).stdout

    def problems(self, text: str) -> list[dict[str, Any]]:
        command = [self.binary, "check-config", "--without-secrets", "--json", "-"]
        result = subprocess.run(command, input=text, capture_output=True, text=True)
        found: list[dict[str, Any]] = json.loads(result.stdout)["problems"]
        return found


class Schema:
    """The schema, and its parts by key path."""

    def __init__(self, text: str) -> None:
        self.root: dict[str, Any] = json.loads(text)
        jsonschema.Draft202012Validator.check_schema(self.root)
        self.validator = jsonschema.Draft202012Validator(self.root)

    def accepts(self, value: Any) -> bool:
        return bool(self.validator.is_valid(value))

    def resolved(self, part: dict[str, Any]) -> dict[str, Any]:
        reference = part.get("$ref", "").removeprefix("#/$defs/")
        return self.root["$defs"][reference] | part if reference else part

    def part(self, key_path: KeyPath) -> dict[str, Any]:
        part = self.root
        for step in key_path:
            child = part["items"] if isinstance(step, int) else part.get("properties", {}).get(step)
            part = self.resolved(child if child is not None else part["additionalProperties"])
        return part

    @staticmethod
    def name(key_path: KeyPath) -> str:
        """Returns the name of a section as in `sections`: without the names that users choose."""
        words = [f".{step}" if isinstance(step, str) else "[]" for step in key_path]
        if key_path[0:1] in (("services",), ("rate_limits",)) and len(key_path) > 1:
            words[1] = ".*"
        return re.sub(r"(\.descriptors\[\])+", r"\1", "".join(words)).lstrip(".")

    def sections(self, part: dict[str, Any], name: str = "") -> Iterator[tuple[str, set[str]]]:
        """Yields each section with its keys. Nested descriptors are one section."""
        part = self.resolved(part)
        if "properties" in part:
            yield name, set(part["properties"])
        for key, child in part.get("properties", {}).items():
            if (name, key) != ("rate_limits.*.descriptors[]", "descriptors"):
                yield from self.sections(child, f"{name}.{key}".lstrip("."))
        if isinstance(part.get("additionalProperties"), dict):
            yield from self.sections(part["additionalProperties"], f"{name}.*")
        if "items" in part:
            yield from self.sections(part["items"], f"{name}[]")


def key_paths(value: Any, key_path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Yields every key path of a configuration with its value."""
    yield key_path, value
    steps: list[tuple[Step, Any]] = []
    if isinstance(value, dict):
        steps = list(value.items())
    elif isinstance(value, list):
        steps = list(enumerate(value))
    for step, child in steps:
        yield from key_paths(child, (*key_path, step))


def with_change(value: Any, key_path: KeyPath, change: Callable[[Any, Step], None]) -> Any:
    """Returns a copy with `change` applied to the collection that contains the key path."""
    copied = copy.deepcopy(value)
    container = copied
    for step in key_path[:-1]:
        container = container[step]
    change(container, key_path[-1])
    return copied


def assign(container: Any, step: Step, value: Any) -> None:
    container[step] = value


def replacements(part: dict[str, Any]) -> list[Any]:
    """Returns values to try: other types, the known words, and numbers at and beyond both bounds."""
    bounds = [part[bound] + step for bound, step in (("minimum", -1), ("minimum", 0)) if bound in part]
    bounds += [part[bound] + step for bound, step in (("maximum", 0), ("maximum", 1)) if bound in part]
    return [None, 5, "no-such-word", [], *part.get("enum", []), *bounds]


def variants(schema: Schema, configuration: dict[str, Any]) -> Iterator[Variant]:
    """Yields configurations that differ from a valid one in one value."""
    for key_path, _ in key_paths(configuration):
        if not key_path:
            continue
        yield Variant(
            key_path, "removed", with_change(configuration, key_path, lambda container, step: container.pop(step))
        )
        for value in replacements(schema.part(key_path)):
            variant = with_change(configuration, key_path, partial(assign, value=value))
            yield Variant(key_path, json.dumps(value), variant)


def samples() -> Iterator[tuple[str, str]]:
    """Yields the configurations of this repository, each with its name."""
    for name in SAMPLES:
        yield name, (ROOT / name).read_text().replace("$upstream", "8080")
    for manifest in yaml.load_all((ROOT / "docker/kubernetes/interlock.yaml").read_text(), CoreLoader):
        if manifest["kind"] == "ConfigMap":
            yield "docker/kubernetes/interlock.yaml", manifest["data"]["interlock.yaml"]
    for path in sorted((ROOT / "docs").rglob("*.md")):
        for step in pages.read(path).steps:
            if isinstance(step, pages.Check):
                yield f"{path.relative_to(ROOT)}:{step.line}", step.text
    for path in sorted((ROOT / "Tests/Fuzzing/Corpus/configuration").iterdir()):
        if path.name in VALID_INPUTS:
            yield str(path.relative_to(ROOT)), path.read_text()


def sample_findings(parser: Parser, schema: Schema) -> Iterator[str]:
    for name, text in samples():
        for problem in parser.problems(text):
            yield f"{name}: the parser rejects {problem.get('path')}: {problem['message']}"
        for error in schema.validator.iter_errors(yaml.load(text, CoreLoader)):
            yield f"{name}: the schema rejects {error.json_path}: {error.message}"


def key_findings(parser: Parser, schema: Schema, configurations: list[dict[str, Any]]) -> Iterator[str]:
    """Compares the keys of each section. The parser lists them in its error about an unknown key."""
    known: dict[str, set[str]] = {}
    used: dict[str, set[str]] = {}
    for configuration in configurations:
        for key_path, value in key_paths(configuration):
            if not isinstance(value, dict) or "properties" not in schema.part(key_path):
                continue
            name = schema.name(key_path)
            used.setdefault(name, set()).update(value)
            variant = with_change(configuration, (*key_path, UNKNOWN), partial(assign, value=1))
            if schema.accepts(variant):
                yield f"{name}: the schema accepts an unknown key"
            for problem in parser.problems(json.dumps(variant)):
                if found := re.search(r"unknown key; expected (.+)", problem["message"]):
                    known.setdefault(name, set()).update(re.split(r", | or ", found[1]))
    for name, keys in schema.sections(schema.root):
        for key in sorted(keys ^ known.get(name, set())):
            yield f"{name}: {key} is known to {'the schema' if key in keys else 'the parser'} only"
        for key in sorted(keys - used.get(name, set())):
            yield f"{name}: {key} is in none of the complete configurations of this script"


def may_differ(variant: Variant, is_rejected_by_schema: bool) -> bool:
    """Returns whether the parser and the schema may disagree."""
    if is_rejected_by_schema:
        return re.fullmatch(SCHEMA_ONLY, variant.name) is not None
    return any(re.fullmatch(pattern, variant.name) for patterns in PARSER_ONLY.values() for pattern in patterns)


def disagreements(parser: Parser, schema: Schema, configurations: list[dict[str, Any]]) -> Iterator[str]:
    counts: Counter[bool] = Counter()
    for configuration in configurations:
        candidates = [Variant((), "unchanged", configuration), *variants(schema, configuration)]
        with ThreadPoolExecutor() as threads:
            results = threads.map(lambda variant: parser.problems(json.dumps(variant.value)), candidates)
            for variant, problems in zip(candidates, results, strict=True):
                is_valid = schema.accepts(variant.value)
                counts[is_valid] += 1
                if is_valid == bool(problems) and not may_differ(variant, is_rejected_by_schema=not is_valid):
                    yield f"{variant.name}: only the {'parser' if is_valid else 'schema'} rejects it: {problems}"
    for is_valid, minimum in ((True, 200), (False, 400)):
        if counts[is_valid] < minimum:
            yield f"only {counts[is_valid]} variants are {'valid' if is_valid else 'invalid'}: too few for this check"


def text_findings(parser: Parser, schema: Schema) -> Iterator[str]:
    """Yields texts that the parser or the schema should have accepted or rejected."""
    for is_valid, texts in ((True, VALID), (False, INVALID)):
        for text in texts:
            if (not parser.problems(text)) != is_valid:
                yield f"{text}: the parser does not {'accept' if is_valid else 'reject'} it"
            if schema.accepts(yaml.load(text, CoreLoader)) != is_valid:
                yield f"{text}: the schema does not {'accept' if is_valid else 'reject'} it"


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--binary", required=True, help="the interlock that checks configurations")
    parser = Parser(arguments.parse_args().binary)
    text = SCHEMA.read_text()
    schema = Schema(text)
    found = [] if parser.schema() == text else [f"`config schema` does not print {SCHEMA.relative_to(ROOT)}"]
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as imported:
        imported.write("domain: imported\ndescriptors: []\n")
        imported.flush()
        configurations = list(yaml.load_all(COMPLETE_CONFIGURATIONS.replace("$import", imported.name), CoreLoader))
        found += sample_findings(parser, schema)
        found += key_findings(parser, schema, configurations)
        found += text_findings(parser, schema)
        found += disagreements(parser, schema, configurations)
    for finding in found:
        print(f"schema: {finding}")
    if not found:
        print("schema: it matches the parser")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
