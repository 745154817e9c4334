"""Tests the check of dependencies with a small manifest."""

import unittest
from typing import Any

import dependencies


def product(name: str, package: str, *traits: str) -> dict[str, Any]:
    return {"product": [name, package, None, {"platformNames": [], "traits": list(traits)} if traits else None]}


def manifest(library: dict[str, Any], program: dict[str, Any]) -> dict[str, Any]:
    """A library built from Core, and a program that uses the library."""
    return {
        "products": [
            {"name": "run", "targets": ["Program"], "type": {"executable": None}},
            {"name": "Library", "targets": ["Library"], "type": {"library": ["automatic"]}},
        ],
        "targets": [
            {"name": "Core", "dependencies": [library]},
            {"name": "Library", "dependencies": [{"byName": ["Core", None]}]},
            {"name": "Program", "dependencies": [{"byName": ["Library", None]}, program]},
        ],
    }


class DependencyTests(unittest.TestCase):
    def found(self, library: dict[str, Any], program: dict[str, Any]) -> list[str]:
        return list(dependencies.problems(manifest(library, program)))

    def test_a_package_of_the_programs_is_guarded(self) -> None:
        nio = product("NIO", "swift-nio")
        self.assertEqual(self.found(nio, product("Arguments", "arguments", "Programs")), [])
        self.assertEqual(
            self.found(nio, product("Arguments", "arguments")),
            ["Program: no library needs arguments; guard Arguments with the trait Programs"],
        )

    def test_a_package_of_a_library_is_not_guarded(self) -> None:
        nio, guarded = product("NIO", "swift-nio"), product("NIO", "swift-nio", "Programs")
        self.assertEqual(self.found(nio, nio), [])
        self.assertEqual(self.found(nio, guarded), ["Program: the libraries need swift-nio; use NIO without a trait"])

    def test_a_library_does_not_use_a_guarded_package(self) -> None:
        http2 = product("HTTP2", "http2", "Programs")
        self.assertEqual(
            self.found(http2, http2), ["Core: a library uses HTTP2; remove that use, or the trait that guards http2"]
        )


if __name__ == "__main__":
    unittest.main()
