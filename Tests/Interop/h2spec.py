"""h2spec, the conformance test of HTTP/2, against the HTTP API.

No package contains it, so it is built from its public source with Debian's Go and Go libraries, in a directory that git
ignores. H2SPEC_SOURCE selects another repository or directory for the source, H2SPEC an existing program.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

from parts import HTTP, ROOT, Failure, Part, Skipped, expect, find_program, output, sidecar

FOLDER = ROOT / ".build-interop"
SOURCE = "https://github.com/summerwind/h2spec"
COMMIT = "af83a65f0b6273ef38bf778d400d98892e7653d8"
PACKAGE = "github.com/summerwind/h2spec"
LIBRARIES = {
    "github.com/fatih/color": "golang-github-fatih-color-dev",
    "github.com/spf13/cobra": "golang-github-spf13-cobra-dev",
    "golang.org/x/net/http2": "golang-golang-x-net-dev",
}
SUMMARY = re.compile(r"(\d+) tests, (\d+) passed, (\d+) skipped, (\d+) failed")
FAILED = re.compile(r"^ *× *(\d+: .*)$", re.MULTILINE)
#: Tests that the sidecar is expected to fail, with the reasons.
KNOWN_FAILURES = {
    # The port also serves HTTP/1.1, so an invalid preface gets a 400 instead of GOAWAY.
    "2: Sends invalid connection preface",
    # SwiftNIO resets the stream with another code than STREAM_CLOSED.
    "6: half closed (remote): Sends a HEADERS frame",
}


def program() -> Path:
    if path := os.environ.get("H2SPEC"):
        return Path(path)
    built = FOLDER / "h2spec"
    if not built.exists():
        go = find_program("go", "golang-go")
        for library, package in LIBRARIES.items():
            if not (Path("/usr/share/gocode/src") / library).exists():
                raise Skipped(f"the Go library {library} is not installed; Debian has it in {package}")
        build(go, built)
    return built


def build(go: str, built: Path) -> None:
    workspace = FOLDER / "h2spec-source"
    source = workspace / "src" / PACKAGE
    shutil.rmtree(workspace, ignore_errors=True)
    source.mkdir(parents=True)
    git = ["git", "-C", str(source)]
    address = os.environ.get("H2SPEC_SOURCE", SOURCE)
    quiet = {"GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "file:https"}
    try:
        run(["git", "init", "--quiet", str(source)])
        run([*git, "fetch", "--quiet", "--depth", "1", address, COMMIT], variables=quiet)
        run([*git, "checkout", "--quiet", "FETCH_HEAD"])
    except (OSError, subprocess.SubprocessError) as error:
        raise Skipped(f"its source cannot be fetched from {address}; set H2SPEC_SOURCE to another one") from error
    settings = {
        "GO111MODULE": "off",
        "GOPATH": f"{workspace}:/usr/share/gocode",
        "GOCACHE": str(FOLDER / "go-cache"),
    }
    try:
        run([go, "build", "-o", str(built), "./cmd/h2spec"], folder=source, variables=settings)
    except subprocess.SubprocessError as error:
        raise Failure(f"it could not be built: {getattr(error, 'stderr', b'')!r}") from error


def run(command: list[str], folder: Path | None = None, variables: dict[str, str] | None = None) -> None:
    subprocess.run(
        command, check=True, capture_output=True, timeout=240, cwd=folder, env={**os.environ, **(variables or {})}
    )


def check(binary: Path) -> None:
    tool = program()
    with sidecar(binary) as servers:
        port = servers.ports[HTTP]
        words = [tool, "--host", "127.0.0.1", "--port", port, "--path", "/healthz", "--timeout", 2]
        try:
            printed = output(servers, *words, timeout=180)
        except Failure as failure:
            printed = str(failure)
    summary = SUMMARY.search(printed)
    expect(summary, f"h2spec printed no summary: {printed[-2000:]}")
    assert summary
    total, _, skipped, _ = map(int, summary.groups())
    expect(total > 100, f"h2spec ran only {total} tests")
    expect(skipped <= 1, f"h2spec skipped {skipped} tests")
    report = printed[printed.find("Failures:") :]
    expect(set(FAILED.findall(report)) <= KNOWN_FAILURES, f"unexpected tests failed:\n{report}")


PARTS = [Part("h2spec", check, is_provided=False)]
