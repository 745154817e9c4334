#!/usr/bin/env python3
"""Checks that the trait Programs guards each package that neither library needs, and no other: `make lint` runs it.

SwiftPM skips a package for users with `traits: []` only if the trait guards the package in every target that a product
is built from. Tests follow the same rule. A library that uses a guarded module does not compile for these users.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TRAIT = "Programs"

Targets = dict[str, list[dict[str, Any]]]
"""The dependencies of each target, as `swift package dump-package` prints them."""


def problems(manifest: dict[str, Any]) -> Iterator[str]:
    """Yields one line for each product of another package whose condition is wrong."""
    targets: Targets = {target["name"]: target["dependencies"] for target in manifest["targets"]}
    libraries = library_targets(manifest, targets)
    needed = {package for name in libraries for _, package, traits in products(targets[name]) if not traits}
    for name, dependencies in targets.items():
        for product, package, traits in products(dependencies):
            if name in libraries and traits:
                yield f"{name}: a library uses {product}; remove that use, or the trait that guards {package}"
            elif package in needed and traits:
                yield f"{name}: the libraries need {package}; use {product} without a trait"
            elif package not in needed and traits != [TRAIT]:
                yield f"{name}: no library needs {package}; guard {product} with the trait {TRAIT}"


def library_targets(manifest: dict[str, Any], targets: Targets) -> set[str]:
    """Returns the targets of the libraries, and the targets they depend on."""
    found: set[str] = set()
    waiting = [name for product in manifest["products"] if "library" in product["type"] for name in product["targets"]]
    while waiting:
        name = waiting.pop()
        if name in targets and name not in found:
            found.add(name)
            waiting += [(entry.get("byName") or entry.get("target") or [""])[0] for entry in targets[name]]
    return found


def products(dependencies: list[dict[str, Any]]) -> Iterator[tuple[str, str, list[str]]]:
    """Yields the name, the package and the traits of each product of another package."""
    for dependency in dependencies:
        if found := dependency.get("product"):
            name, package, _, condition = found
            yield name, package, (condition or {}).get("traits") or []


def main() -> int:
    dump = subprocess.run(["swift", "package", "dump-package"], cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True)
    found = list(problems(json.loads(dump.stdout)))
    for problem in found:
        print(f"dependencies: {problem}")
    if not found:
        print(f"dependencies: the trait {TRAIT} guards each package that neither library needs")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
