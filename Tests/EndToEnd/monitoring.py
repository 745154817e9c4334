"""Checks docs/monitoring with a sidecar under load that a real Prometheus scrapes.

`make test-monitoring` runs it. The alerts pass promtool's checks and their own tests. None fires while the system is
healthy, and each starts when its cause occurs. Every query of every dashboard has data, and every page that an alert
names exists. `--minutes 10` keeps up the load for that long, and waits until each alert fires.
"""

import argparse
import contextlib
import json
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from prometheus_client.openmetrics.parser import text_string_to_metric_families

from servers import GATEWAY, HTTP, RESP, TIMEOUT, UPSTREAM, Failure, Servers

ROOT = Path(__file__).resolve().parents[2]
MONITORING = ROOT / "docs/monitoring"
#: The address of the repository in alerts.yml, which users replace.
PLACEHOLDER = "https://example.com/interlock/"
#: The seconds of load before Prometheus is queried, and its scrape interval.
LOAD_SECONDS, SCRAPE_INTERVAL = 12.0, 1
#: Values for Grafana's variables.
VARIABLES = {"$__rate_interval": "10s", "$instance": ".*", "$service": ".*"}
CONFIGURATION = f"""
services:
  search:
    url: "http://127.0.0.1:{UPSTREAM}"
    probe: {{ path: /, every: 500ms, timeout: 250ms }}
    concurrency: 50
    limits:
      - {{ limit: 20, per: 1s }}
      - {{ limit: 1000, per: 1s, per_subject: true }}
"""


class Load:
    """Sends calls of every kind, one after another, until it is stopped."""

    def __init__(self, servers: Servers) -> None:
        self.servers = servers
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        number = 0
        while not self.is_over.wait(0.02):
            number += 1
            with contextlib.suppress(OSError):
                self.over_http(number)
                self.over_resp(number)

    def over_http(self, number: int) -> None:
        lock = f"/v1/locks/lock-{number % 5}"
        _, lease = call(self.servers, "POST", lock, {"ttl_ms": 5000})
        call(self.servers, "DELETE", lock, fields={"Lease-Token": lease.get("token", "none")})
        call(self.servers, "POST", "/v1/limits/search/take", {"subject": f"tenant-{number % 7}"})
        _, permit = call(self.servers, "POST", "/v1/services/search/permits", {"subject": "tenant-1"})
        if "permit" in permit:
            outcome = {"outcome": "error" if number % 50 == 0 else "ok", "latency_ms": 5}
            call(self.servers, "POST", f"/v1/services/search/permits/{permit['permit']}", outcome)
        call(self.servers, "GET", "/proxy/search/item")

    def over_resp(self, number: int) -> None:
        with socket.create_connection(("127.0.0.1", self.servers.ports[RESP]), timeout=5) as connection:
            connection.sendall(f"LIMIT.TAKE search SUBJECT tenant-{number % 7}\r\nPING\r\n".encode())
            connection.recv(1024)

    def stop(self) -> None:
        self.is_over.set()
        self.thread.join()


def call(
    servers: Servers, method: str, path: str, body: Any = None, fields: dict[str, str] | None = None
) -> tuple[int, dict[str, Any]]:
    """Returns the status and the members of a response of the sidecar's HTTP API."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{servers.ports[HTTP]}{path}",
        None if body is None else json.dumps(body).encode(),
        fields or {},
        method=method,
    )
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text.startswith(b"{") else {}
    except urllib.error.HTTPError as error:
        return error.code, {}


class Prometheus:
    """A Prometheus that scrapes the sidecar."""

    def __init__(self, servers: Servers) -> None:
        self.address = f"127.0.0.1:{servers.ports[GATEWAY]}"
        folder = servers.folder / "prometheus"
        folder.mkdir()
        (folder / "prometheus.yml").write_text(
            f"global: {{ scrape_interval: {SCRAPE_INTERVAL}s, evaluation_interval: {SCRAPE_INTERVAL}s }}\n"
            f"rule_files: ['{MONITORING / 'alerts.yml'}']\n"
            "scrape_configs:\n"
            "  - job_name: interlock\n"
            f"    static_configs: [ {{ targets: ['127.0.0.1:{servers.ports[HTTP]}'] }} ]\n"
        )
        servers.start(
            program("prometheus"),
            f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address={self.address}",
        )
        servers.wait_until("Prometheus has scraped the sidecar", self.has_scraped)

    def has_scraped(self) -> bool:
        try:
            return any(float(sample["value"][1]) == 1 for sample in self.query('up{job="interlock"}'))
        except OSError:
            return False

    def get(self, path: str, **parameters: str) -> Any:
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"http://{self.address}/api/v1/{path}?{query}", timeout=10) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        return self.get("query", query=expression)["result"]

    def alerts(self, *states: str) -> set[str]:
        """Returns the pending and firing alerts, or those in the given states."""
        found = self.get("alerts")["alerts"]
        return {alert["labels"]["alertname"] for alert in found if not states or alert["state"] in states}

    def broken_rules(self) -> list[str]:
        rules = [rule for group in self.get("rules")["groups"] for rule in group["rules"]]
        return [f"{rule['name']}: {rule.get('lastError', rule['health'])}" for rule in rules if rule["health"] != "ok"]


def program(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if not found:
        sys.exit(f"monitoring: {name} is not installed; run make setup")
    return found


def dashboard_queries() -> list[tuple[str, str]]:
    """Returns every query of every dashboard, with its location."""
    queries = []
    for path in sorted(MONITORING.glob("*.json")):
        dashboard = json.loads(path.read_text())
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                queries.append((f"{path.name}, {panel['title']}", target["expr"]))
    return queries


def with_variables(expression: str) -> str:
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


def anchors(text: str) -> set[str]:
    """Returns the anchors of a page's headings."""
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


class Findings:
    """Findings, as text for a report."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def expect(self, condition: bool, text: str) -> None:
        if not condition:
            self.texts.append(text)


def check_files(findings: Findings) -> None:
    """Runs the checks that need no sidecar."""
    for command in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts.test.yml"]):
        result = subprocess.run(
            [program("promtool"), *command], cwd=MONITORING, capture_output=True, text=True, check=False
        )
        findings.expect(result.returncode == 0, f"promtool {' '.join(command)}: {result.stdout}{result.stderr}")
    rules = (MONITORING / "alerts.yml").read_text()
    for address in sorted(set(re.findall(r"runbook_url: (\S+)", rules))):
        page, _, anchor = address.removeprefix(PLACEHOLDER).partition("#")
        path = ROOT / page
        findings.expect(path.is_file(), f"alerts.yml: {page} does not exist")
        if anchor and path.is_file():
            findings.expect(anchor in anchors(path.read_text()), f"alerts.yml: {page} has no heading #{anchor}")
    tests = (MONITORING / "alerts.test.yml").read_text()
    for name in re.findall(r"alert: (\S+)", rules):
        findings.expect(name in tests, f"alerts.test.yml: nothing makes {name} fire")
    pages = "".join((ROOT / "docs/reference" / page).read_text() for page in ("metrics.md", "probes.md"))
    known = set(re.findall(r"`((?:interlock|process)_\w+)", pages))
    for location, expression in [("alerts.yml", rules), *dashboard_queries()]:
        for name in re.findall(r"\b(?:interlock|process)_\w+", expression):
            name = re.sub(r"_(bucket|sum|count)$", "", name)
            findings.expect(name in known, f"{location}: docs/reference has no metric {name}")


def check_with_sidecar(servers: Servers, findings: Findings, minutes: float) -> None:
    configuration = servers.folder / "interlock.yaml"
    configuration.write_text(servers.with_run_ports(CONFIGURATION))
    servers.start_sidecar(configuration)
    load = Load(servers)
    try:
        prometheus = Prometheus(servers)
        time.sleep(LOAD_SECONDS)
        with urllib.request.urlopen(f"http://127.0.0.1:{servers.ports[HTTP]}/metrics", timeout=5) as answer:
            metrics = answer.read()
        result = subprocess.run(
            [program("promtool"), "check", "metrics"], input=metrics, capture_output=True, check=False
        )
        findings.expect(result.returncode == 0, f"promtool check metrics: {(result.stdout + result.stderr).decode()}")
        check_openmetrics(servers, findings)
        for location, expression in dashboard_queries():
            samples = prometheus.query(with_variables(expression))
            values = [sample["value"][1] for sample in samples]
            findings.expect(bool(values), f"{location}: no data: {expression}")
            findings.expect("NaN" not in values, f"{location}: not a number: {expression}")
        for text in prometheus.broken_rules():
            findings.expect(False, f"alerts.yml: {text}")
        expect_no_alerts(prometheus, findings, minutes)
        trigger_alerts(servers, prometheus, findings, "firing" if minutes else "")
    finally:
        load.stop()


def check_openmetrics(servers: Servers, findings: Findings) -> None:
    """Checks the format of the metrics that Prometheus requests."""
    accept = {"Accept": "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"}
    request = urllib.request.Request(f"http://127.0.0.1:{servers.ports[HTTP]}/metrics", headers=accept)
    with urllib.request.urlopen(request, timeout=5) as answer:
        kind, text = answer.headers["Content-Type"], answer.read().decode()
    findings.expect(kind.startswith("application/openmetrics-text"), f"the response to OpenMetrics is {kind}")
    families: dict[str, list[str]] = {}
    try:
        for family in text_string_to_metric_families(text):
            families[family.type] = [*families.get(family.type, []), family.name]
    except ValueError as error:
        findings.expect(False, f"prometheus_client's OpenMetrics parser rejects it: {error}")
    findings.expect("interlock_build" in families.get("info", []), "OpenMetrics lacks the info interlock_build")
    findings.expect("unknown" not in families, f"OpenMetrics: metrics of unknown type: {families.get('unknown')}")


def expect_no_alerts(prometheus: Prometheus, findings: Findings, minutes: float) -> None:
    """Checks that no alert fires while the system is healthy."""
    deadline = time.monotonic() + minutes * 60
    while True:
        alerts = prometheus.alerts()
        findings.expect(not alerts, f"alerts in a healthy system: {', '.join(alerts)}")
        remaining = deadline - time.monotonic()
        if alerts or remaining <= 0:
            return
        print(f"monitoring: no alert so far; {remaining:.0f} s remaining", flush=True)
        time.sleep(min(remaining, 15))


def trigger_alerts(servers: Servers, prometheus: Prometheus, findings: Findings, *states: str) -> None:
    """Triggers each alert, and waits until it is pending, or in one of the given states."""
    states = tuple(state for state in states if state)
    call(servers, "PUT", "/v1/services/search/override", {"state": "open"})
    wait_for(servers, prometheus, "InterlockBreakerOpen", findings, states)
    _, lease = call(servers, "POST", "/v1/locks/lost", {"ttl_ms": 100})
    servers.wait_until("the lease has expired", lambda: call(servers, "GET", "/v1/locks/lost")[0] == 404)
    call(servers, "DELETE", "/v1/locks/lost", fields={"Lease-Token": lease["token"]})
    wait_for(servers, prometheus, "InterlockLeasesLost", findings, states)
    servers.set_state("redis", "away")
    wait_for(servers, prometheus, "InterlockRedisDown", findings, states)


def wait_for(servers: Servers, prometheus: Prometheus, alert: str, findings: Findings, states: tuple[str, ...]) -> None:
    began = time.monotonic()
    try:
        # Every alert fires within a minute of its start.
        servers.wait_until(f"{alert} begins", lambda: alert in prometheus.alerts(*states), 120 if states else TIMEOUT)
    except Failure as failure:
        findings.expect(False, str(failure))
        return
    if states:
        print(f"monitoring: {alert} fires after {time.monotonic() - began:.0f} s", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, required=True, help="the built interlock")
    parser.add_argument(
        "--minutes", type=float, default=0, help="keep up the load for this long, then wait for the alerts"
    )
    options = parser.parse_args()
    findings = Findings()
    check_files(findings)
    with tempfile.TemporaryDirectory(prefix="interlock-monitoring-") as folder:
        servers = Servers(options.binary.resolve(), Path(folder))
        try:
            check_with_sidecar(servers, findings, options.minutes)
        finally:
            servers.close()
    for text in findings.texts:
        print(f"monitoring: {text}")
    queries = len(dashboard_queries())
    print(f"monitoring: {'failed' if findings.texts else 'passed'}; {queries} queries of dashboards were run")
    return 1 if findings.texts else 0


if __name__ == "__main__":
    sys.exit(main())
