"""Tests the link check with small pages."""

import tempfile
import unittest
from pathlib import Path

import links


class LinkTests(unittest.TestCase):
    def test_links_in_code_and_to_other_sites_are_ignored(self) -> None:
        page = (
            '[a](a.md) `[b](b.md)` [c](https://c.org) [d](mailto:d@c.org) ![e](<e.svg> "E")\n'
            "```\n[f](f.md)\n```\n[g]: g.md"
        )
        self.assertEqual(list(links.links(page)), ["a.md", "e.svg", "g.md"])

    def test_anchors_match_those_of_github(self) -> None:
        page = '# One `way`, two ways\n## [Keys](keys.md)\n```\n# comment\n```\n## Keys\n<a id="old"></a>'
        self.assertEqual(links.anchors(page), {"one-way-two-ways", "keys", "keys-1", "old"})

    def test_broken_links_are_reported(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            page, other = Path(name, "page.md"), Path(name, "other.md")
            page.write_text(
                "# Here\n[1](#here) [2](#there) [3](other.md) [4](gone.md) [5](other.md#gone) [6](other.md#top)"
            )
            other.write_text("# Top")
            self.assertEqual(
                list(links.broken_links(page)),
                [
                    "#there: no such heading",
                    "gone.md: no such file",
                    "other.md#gone: no such heading",
                ],
            )


if __name__ == "__main__":
    unittest.main()
