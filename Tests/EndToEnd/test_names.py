"""Tests the check of names.md with short texts."""

import unittest

import names

PAGE = """
## Calls

| what | RESP | HTTP | command line |
| --- | --- | --- | --- |
| take | `LOCK.ACQUIRE` with `ALSO` | `POST /v1/locks/{name}`, `GET /lock` | `lock acquire` |

## Options and fields

| what | RESP | HTTP |
| --- | --- | --- |
| wait | `WAIT` ms | `wait_ms` |
"""

CONTRACT = """
paths:
  /v1/locks/{name}:
    post: &relay
      parameters:
        - { name: Lease-Token, in: header }
    delete: *relay
  /lock:
    get:
      parameters:
        - { name: hash, in: query }
components:
  schemas:
    LockRequest:
      properties:
        ttl_ms: { type: integer }
    Lease:
      properties:
        fence: { type: integer }
"""


class NameTests(unittest.TestCase):
    def test_a_page_is_parsed_by_section_and_column(self) -> None:
        table = names.Table.read(PAGE)
        self.assertEqual(table.of(names.RESP, names.CALLS), {"LOCK.ACQUIRE", "ALSO"})
        self.assertEqual(table.of(names.RESP), {"LOCK.ACQUIRE", "ALSO", "WAIT"})
        self.assertEqual(table.of(names.HTTP, names.CALLS), {"POST /v1/locks/{name}", "GET /lock"})
        self.assertEqual(table.of(names.COMMAND_LINE), {"lock acquire"})

    def test_routes_and_request_fields_are_read_from_the_contract(self) -> None:
        self.assertEqual(names.routes(CONTRACT), {"POST /v1/locks/{name}", "DELETE /v1/locks/{name}", "GET /lock"})
        self.assertEqual(names.request_fields(CONTRACT), {"Lease-Token", "hash", "ttl_ms"})

    def test_subcommands_have_full_names_and_hidden_ones_are_excluded(self) -> None:
        argument = {"shouldDisplay": True, "names": [{"kind": "long", "name": "ttl"}, {"kind": "short", "name": "t"}]}
        acquire = {"commandName": "acquire", "shouldDisplay": True, "arguments": [argument]}
        hidden = {"commandName": "run-child", "shouldDisplay": False}
        lock = {"commandName": "lock", "shouldDisplay": True, "subcommands": [acquire]}
        root = {"commandName": "interlock", "shouldDisplay": True, "subcommands": [lock, hidden]}
        self.assertEqual(list(names.options_by_subcommand(root)), [("lock acquire", {"--ttl"})])

    def test_differences_are_reported(self) -> None:
        self.assertEqual(
            list(names.compare("commands", {"PING", "ECHO"}, {"PING", "PONG"}, minimum=3)),
            [
                "commands: only 2 found in the code; update this check if the code's form has changed",
                "commands: the table lacks ECHO",
                "commands: the table has PONG, but the code does not",
            ],
        )

    def test_the_table_matches_the_sources(self) -> None:
        self.assertEqual(list(names.findings(names.Table.read(names.PAGE.read_text()), binary=None)), [])


if __name__ == "__main__":
    unittest.main()
