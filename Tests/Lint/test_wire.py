"""Tests how names that other programs depend on are read from the sources."""

import tempfile
import unittest
from pathlib import Path

import wire


class WireTests(unittest.TestCase):
    def test_a_case_without_a_raw_value_is_a_code_by_its_name(self) -> None:
        text = """enum Code: String {
        case held
        case `internal`
        case tooLarge = "too_large"
    }
    case other
"""
        self.assertEqual(list(wire.problem_codes(text)), ["held", "internal", "too_large"])

    def test_properties_of_properties_are_fields_and_their_attributes_are_not(self) -> None:
        text = """Lock:
  type: object
  properties:
    name:
      type: string
    holder:
      properties:
        owner: {type: string}
  required: [name]
"""
        self.assertEqual(list(wire.properties(text)), ["name", "holder", "owner"])

    def test_a_renamed_log_event_is_gone(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "Sources/Sidecar/SidecarLogEvent.swift")
            source.parent.mkdir(parents=True)
            source.write_text('    case opened = "listener.opened"\n')
            self.assertEqual(wire.names(Path(folder)), ["log listener.opened"])

    def test_a_kind_without_names_is_reported(self) -> None:
        self.assertTrue(any("kind metric" in finding for finding in wire.sparse(["log listener.opened"])))


if __name__ == "__main__":
    unittest.main()
