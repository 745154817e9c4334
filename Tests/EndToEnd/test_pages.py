"""Tests the parser of pages and the comparison of output."""

import tempfile
import unittest
from pathlib import Path

import expected
import pages

RUN = """
<!-- file: interlock.yaml -->
```yaml
services: {}
```

<!-- run: exits 75 -->
```python
print("held")
```

<!-- prints -->
```text
held
```

<!-- redis: away -->

```console
$ echo one \\
> two
one two
$ true
```
"""


class Pages(unittest.TestCase):
    def test_steps_are_in_page_order(self) -> None:
        file, program, event, session = pages.steps(RUN)
        self.assertEqual(file, pages.File(3, "interlock.yaml", "services: {}\n"))
        self.assertEqual(program, pages.Program(8, "python", 'print("held")\n', status=75, prints="held\n"))
        self.assertEqual(event, pages.Event(17, "redis", "away"))
        self.assertEqual(session, pages.Session(19, [("echo one \\\ntwo", "one two\n"), ("true", "")]))

    def test_invalid_pages_are_rejected(self) -> None:
        for text in (
            "```python\n```\n",
            "<!-- prints -->\n```text\n```\n",
            "<!-- run -->\nno block\n",
            "<!-- run: somehow -->\n```sh\n```\n",
            "<!-- redis: gone -->\n",
            "```console\nno command\n```\n",
            "<!-- run -->\n```sh\n",
            "<!-- not run -->\n```sh\n```\n",
            "```text\n$ a session\n```\n",
            "<!-- make: bench -->\n",
        ):
            with self.assertRaises(pages.PageError, msg=text):
                list(pages.steps(text))

    def test_blocks_that_are_not_run_have_a_reason(self) -> None:
        text = "<!-- not run: it needs a cluster -->\n```go\n```\n\n```text\n```\n"
        self.assertEqual(list(pages.steps(text)), [pages.Shown(2, "it needs a cluster")])

    def test_a_checked_configuration_is_a_step(self) -> None:
        self.assertEqual(
            list(pages.steps("<!-- checked -->\n```yaml\nservices: {}\n```\n")), [pages.Check(2, "services: {}\n")]
        )

    def test_a_page_that_is_not_run_has_a_reason(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "page.md"
            page.write_text("# A page\n\n<!-- page not run: it kills servers -->\n\n```sh\nkill\n```\n")
            self.assertEqual(pages.read(page).steps, [pages.Shown(3, "it kills servers")])
            page.write_text("# A page\n\n<!-- page not run -->\n")
            with self.assertRaises(pages.PageError):
                pages.read(page)


class Expected(unittest.TestCase):
    def test_variable_parts_match_any_value_of_their_kind(self) -> None:
        for shown, printed in (
            ("web-1/80b1d328634160407a7dc732ba632443", "vm/c10360d4b853b1e3af546a41cb57699d"),
            ("fence 1795458019340346", "fence 1795458383403421"),
            ('{"ttl_ms":29970}', '{"ttl_ms":5}'),
            ("after 59994 ms", "after 60000 ms"),
            ("3) (integer) 29697", "3) (integer) 29544"),
            ("(error) UNAVAILABLE …", "(error) UNAVAILABLE Redis is away"),
        ):
            self.assertTrue(expected.matches(shown + "\n", printed + "\n"), shown)

    def test_everything_else_must_be_equal(self) -> None:
        for shown, printed in (
            ("released: True", "released: False"),
            ("1) (integer) 0", "1) (integer) 1"),
            ("HTTP/1.1 200 OK", "HTTP/1.1 201 Created"),
            ("fence 1795458019340346", "fence none"),
            ("one", "one\ntwo"),
            ("", "a traceback"),
        ):
            self.assertFalse(expected.matches(shown, printed), shown)

    def test_a_line_of_dots_matches_any_number_of_lines(self) -> None:
        self.assertTrue(expected.matches("a\n…\nz\n", "a\nz\n"))
        self.assertTrue(expected.matches("a\n…\nz\n", "a\nb\nc\nz\n"))
        self.assertFalse(expected.matches("a\n…\nz\n", "a\nb\nc\n"))

    def test_output_without_a_final_newline_matches(self) -> None:
        self.assertTrue(expected.matches("{}\n", "{}"))


if __name__ == "__main__":
    unittest.main()
