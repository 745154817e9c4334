"""Sends valid and invalid requests to the HTTP API of a sidecar that has an API key.

`make test-contract` runs it. schemathesis makes the requests from openapi.yaml. Each response must be one that the
contract lists for the request, and none may be an internal error.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONTRACT = ROOT / "Sources/SidecarListeners/HTTP/openapi.yaml"
KEY = "a-key-for-this-run-only"
CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
    "ignored_auth",
]
# Waits are limited, because a generated request may wait for a day.
CONFIGURATION = f"""
redis: {{ embedded: true }}
auth: {{ keys: [ {{ name: contract, key: {KEY}, role: admin }} ] }}
locks: {{ max_wait: 100ms }}
services:
  catalog:
    limits: [ {{ limit: 1000, per: 1s }}, {{ limit: 50, per: 1s, per_subject: true }} ]
    breaker: {{}}
"""
# A breaker that a request forced open answers 503.
SETTINGS = """
[checks.not_a_server_error]
expected-statuses = ["2xx", "4xx", "503"]
"""


def start_sidecar(binary: str, folder: pathlib.Path) -> tuple[subprocess.Popen[str], str]:
    """Starts a sidecar. Returns its process and the URL of its HTTP API."""
    configuration = folder / "interlock.yaml"
    configuration.write_text(CONFIGURATION)
    process = subprocess.Popen(
        [
            "setpriv",
            "--pdeathsig",
            "KILL",
            "--",
            binary,
            "serve",
            "--config",
            configuration,
            "--resp",
            "127.0.0.1:0",
            "--http",
            "127.0.0.1:0",
            "--data-dir",
            folder / "data",
        ],
        stdout=subprocess.PIPE,
        stderr=(folder / "log").open("w"),
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.split()[0] == "HTTP":
            return process, "http://" + line.split()[-1].replace("localhost", "127.0.0.1").removesuffix("/readyz")
    sys.exit(f"the sidecar did not start: {(folder / 'log').read_text()}")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--binary", required=True, help="the built interlock")
    parser.add_argument("--examples", type=int, default=50, help="the number of requests for each operation and phase")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "schemathesis.toml").write_text(SETTINGS)
        process, url = start_sidecar(options.binary, folder)
        try:
            # /v1/events is left out because its response never ends.
            return subprocess.run(
                [
                    pathlib.Path(sys.executable).parent / "schemathesis",
                    "--config-file",
                    folder / "schemathesis.toml",
                    "run",
                    CONTRACT,
                    "--url",
                    url,
                    "--header",
                    f"X-Api-Key: {KEY}",
                    "--exclude-path",
                    "/v1/events",
                    "--checks",
                    ",".join(CHECKS),
                    "--max-examples",
                    str(options.examples),
                    "--seed",
                    str(options.seed),
                    "--request-timeout",
                    "10",
                    "--no-color",
                ],
                cwd=folder,
                check=False,
            ).returncode
        finally:
            process.terminate()
            process.wait(timeout=15)


if __name__ == "__main__":
    sys.exit(main())
