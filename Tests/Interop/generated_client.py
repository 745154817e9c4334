"""A client of the HTTP API that openapi-python-client generates from openapi.yaml, used with its own defaults."""

from pathlib import Path

from parts import HTTP, KEY, ROOT, Part, Skipped, expect, output, sidecar

CONTRACT = ROOT / "Sources/SidecarListeners/HTTP/openapi.yaml"
PROGRAM = Path(__file__).parent / "programs/generated_calls.py"
FOLDER = ROOT / ".venv/interop/bin"


def check(binary: Path) -> None:
    if not (FOLDER / "openapi-python-client").exists():
        raise Skipped("openapi-python-client is not installed in .venv/interop; `make interop` installs it from PyPI")
    with sidecar(binary, has_key=True) as world:
        generated = world.folder / "generated"
        words = ["generate", "--path", CONTRACT, "--output-path", generated, "--meta", "none"]
        # The generator runs a formatter from PATH.
        path = f"{FOLDER}:{world.environment['PATH']}"
        printed = output(world, FOLDER / "openapi-python-client", *words, PATH=path)
        expect("Unable" not in printed and "Error" not in printed, f"the generator rejected the contract: {printed}")
        # Names that a generator invents for a schema without one.
        made_up = sorted(file.stem for file in (generated / "models").glob("*_type_*.py"))
        expect(not made_up, f"schemas without names: {', '.join(made_up)}")
        address = f"http://127.0.0.1:{world.ports[HTTP]}"
        output(world, FOLDER / "python", PROGRAM, address, KEY, PYTHONPATH=str(world.folder))


PARTS = [Part("openapi-python-client", check)]
