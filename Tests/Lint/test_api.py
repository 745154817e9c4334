"""Tests the list of public declarations with a small file."""

import unittest

import api


class DeclarationTests(unittest.TestCase):
    def found(self, text: str) -> list[str]:
        return [declaration.text for declaration in api.declarations(text)]

    def test_only_public_declarations_are_listed_after_their_types(self) -> None:
        text = """public struct Lease {
            /// How long.
            public var ttl: Duration
            var inner = 1
            package func hidden() {}
            public func renew(
                for ttl: Duration, by owner: String = "me"
            ) async throws -> Bool { true }
        }
        """
        self.assertEqual(
            self.found(text),
            [
                "public struct Lease",
                "Lease / public var ttl: Duration",
                'Lease / public func renew(for ttl: Duration, by owner: String = "") async throws -> Bool',
            ],
        )

    def test_implicit_and_explicit_raw_values_are_listed(self) -> None:
        text = """public enum State: String, Sendable {
            /// Not open.
            case closed
            case halfOpen = "half_open"
        }
        public struct Loss: RawRepresentable {
            public static let broken = Loss(rawValue: "broken")
        }
        public enum Mode: Sendable {
            case alone
            case permits(Int)
        }
        enum Inner: String {
            case none
        }
        """
        self.assertEqual(
            self.found(text),
            [
                "public enum State: String, Sendable",
                'State / case closed = "closed"',
                'State / case halfOpen = "half_open"',
                "public struct Loss: RawRepresentable",
                'Loss / public static let broken = Loss(rawValue: "broken")',
                "public enum Mode: Sendable",
                "Mode / case alone",
                "Mode / case permits(Int)",
            ],
        )

    def test_undocumented_declarations_are_found_even_after_attributes(self) -> None:
        text = """/// A lease.
        public struct Lease {
            public var ttl: Duration
            /// Releases it.
            @discardableResult
            public func release() -> Bool { true }
            // No comment for documentation.
            public func forget() {}
        }
        """
        missing = [declaration.line for declaration in api.declarations(text) if not declaration.is_documented]
        self.assertEqual(missing, [3, 8])


if __name__ == "__main__":
    unittest.main()
