"""A client of the HTTP API that openapi-python-client generates from openapi.yaml, used with its own defaults."""

from pathlib import Path

from parts import HTTP, KEY, ROOT, Part, Skipped, expect, output, sidecar

CONTRACT = ROOT / "Sources/SidecarListeners/HTTP/openapi.yaml"
PROGRAM = Path(__file__).parent / "programs/generated_calls.py"
FOLDER = ROOT / ".venv/interop/bin"


def check(binary: Path) -> None:
    if not (FOLDER / "openapi-python-client").exists():
        raise Skipped(
            "openapi-python-client is not installed in .venv/interop; `make test-interop` installs it from PyPI"
        )
    with sidecar(binary, has_key=True) as servers:
        generated = servers.folder / "generated"
        words = ["generate", "--path", CONTRACT, "--output-path", generated, "--meta", "none"]
        # The generator runs a formatter from PATH.
        path = f"{FOLDER}:{servers.environment['PATH']}"
        printed = output(servers, FOLDER / "openapi-python-client", *words, PATH=path)
        expect("Unable" not in printed and "Error" not in printed, f"the generator rejected the contract: {printed}")
        # The generator invents these names for schemas without one.
        unnamed = sorted(file.stem for file in (generated / "models").glob("*_type_*.py"))
        expect(not unnamed, f"schemas without names: {', '.join(unnamed)}")
        address = f"http://127.0.0.1:{servers.ports[HTTP]}"
        output(servers, FOLDER / "python", PROGRAM, address, KEY, PYTHONPATH=str(servers.folder))


PARTS = [Part("openapi-python-client", check)]
