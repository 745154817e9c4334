"""Reads a Swift file's declarations and the types that it names, without a compiler.

The parser understands comments, string literals with interpolations, and braces. That is enough for code formatted by
`swift format`; it does not resolve types.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

TYPE_KEYWORDS = {"struct", "class", "actor", "enum", "protocol", "typealias"}
ONLY_IN_FILE = {"private", "fileprivate"}
TOKEN = re.compile(r"`?[A-Za-z_]\w*`?|\S")
PLAIN_CODE = re.compile(r"""[^/"#()]+""")
STRING_START = re.compile(r"""(#*)(\"\"\"|")""")
EXTENDED_REGEX = re.compile(r"(#+)/.*?/\1", re.DOTALL)
PLAIN_TEXT = re.compile(r"""[^"\\\n]+""")


@dataclass(frozen=True)
class Declaration:
    name: str
    line: int
    only_in_file: bool


@dataclass(frozen=True)
class Mention:
    name: str
    line: int
    enclosing: tuple[str, ...]
    """The types around the mention, outermost first. Each may have a nested type that hides a top-level one."""


@dataclass
class Source:
    """The declarations and mentions of a Swift file."""

    lines: int
    declarations: list[Declaration] = field(default_factory=list)
    mentions: list[Mention] = field(default_factory=list)
    nested: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """The types that are declared directly inside a type, by its name."""
    generics: set[str] = field(default_factory=set)


def code(text: str) -> str:
    """Returns the text with comments and string literals blanked out; line breaks and interpolated code stay."""
    out: list[str] = []
    _blank(text, 0, out, closes_at=None)
    return "".join(out)


def _blank(text: str, start: int, out: list[str], closes_at: str | None) -> int:
    """Copies code until the end, or until the parenthesis that closes an interpolation. Returns the position."""
    at, depth = start, 0
    while at < len(text):
        if plain := PLAIN_CODE.match(text, at):
            out.append(plain[0])
            at = plain.end()
        elif text.startswith("//", at):
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        elif text.startswith("/*", at):
            at = _skip_comment(text, at, out)
        elif quote := STRING_START.match(text, at):
            at = _skip_string(text, quote.end(), quote[1], quote[2], out)
        elif regex := EXTENDED_REGEX.match(text, at):
            out.append("\n" * regex[0].count("\n"))
            at = regex.end()
        else:
            char = text[at]
            if char == closes_at and depth == 0:
                return at + 1
            depth += {"(": 1, ")": -1}.get(char, 0)
            out.append(char)
            at += 1
    return at


def _skip_comment(text: str, start: int, out: list[str]) -> int:
    """Skips a block comment; they nest in Swift."""
    depth, at = 1, start + 2
    while at < len(text) and depth:
        if text.startswith("/*", at):
            depth, at = depth + 1, at + 2
        elif text.startswith("*/", at):
            depth, at = depth - 1, at + 2
        else:
            if text[at] == "\n":
                out.append("\n")
            at += 1
    return at


def _skip_string(text: str, start: int, hashes: str, quote: str, out: list[str]) -> int:
    at, escape = start, "\\" + hashes
    out.append('""')
    while at < len(text):
        if text.startswith(quote + hashes, at):
            return at + len(quote + hashes)
        if text.startswith(escape + "(", at):
            out.append("(")
            at = _blank(text, at + len(escape) + 1, out, closes_at=")")
            out.append(")")
        elif text.startswith(escape, at):
            at += len(escape) + 1
        elif plain := PLAIN_TEXT.match(text, at):
            at = plain.end()
        else:
            if text[at] == "\n":
                if quote == '"':
                    return at
                out.append("\n")
            at += 1
    return at


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    for number, line in enumerate(code(text).split("\n"), start=1):
        for match in TOKEN.finditer(line):
            yield match[0].strip("`"), number


def read(text: str, modules: frozenset[str] = frozenset()) -> Source:
    """Reads one file. `modules` are names that may precede a dot: `Interlock.Coordinator` names `Coordinator`."""
    source = Source(lines=text.count("\n") + (not text.endswith("\n") and bool(text)))
    tokens = list(_tokens(text))
    words = [word for word, _ in tokens]
    scopes: list[str | None] = []
    pending: str | None = None
    round_depth = 0
    at = 0
    while at < len(tokens):
        word, line = tokens[at]
        before = words[at - 1] if at else ""
        if word == "import" and before not in {".", "@"}:
            at = _end_of_import(tokens, at)
            continue
        if word in "([":
            round_depth += 1
        elif word in ")]":
            round_depth -= 1
        elif word == "{":
            scopes.append(pending)
            pending = None
        elif word == "}":
            if scopes:
                scopes.pop()
        elif _declares_type(words, at) or (word == "associatedtype" and before != "."):
            name = words[at + 1]
            if not scopes:
                source.declarations.append(Declaration(name, line, _only_in_file(words, at)))
            elif (owner := _innermost(scopes)) is not None:
                source.nested[owner].add(name)
            if word not in {"typealias", "associatedtype"}:
                pending = name
            at += 2
            if at < len(words) and words[at] == "<":
                source.generics |= _generic_names(words, at)
            continue
        elif word == "extension" and before != ".":
            pending = _extended(words, at)
        elif word == "func" and at + 2 < len(words) and words[at + 2] == "<":
            source.generics |= _generic_names(words, at + 2)
        if word[0].isupper() and _may_name_top_level(words, at, modules):
            around = tuple(scope for scope in scopes if scope) + ((pending,) if pending else ())
            source.mentions.append(Mention(word, line, around))
        at += 1
    return source


def _declares_type(words: list[str], at: int) -> bool:
    if words[at] not in TYPE_KEYWORDS or at + 1 == len(words) or (at and words[at - 1] in {".", ":", ","}):
        return False
    # `class func` and `class var` declare members, not classes.
    return words[at + 1][0].isupper()


def _only_in_file(words: list[str], at: int) -> bool:
    """Returns whether a modifier before the keyword hides the type from other files."""
    while at and re.fullmatch(r"[a-z]\w*", words[at - 1]):
        at -= 1
        if words[at] in ONLY_IN_FILE:
            return True
    return False


def _innermost(scopes: list[str | None]) -> str | None:
    """Returns the type that a declaration here belongs to, or None inside a function's body."""
    return scopes[-1]


def _extended(words: list[str], at: int) -> str:
    """Returns the last part of an extension's name: `Queue` for `extension Lock.Queue`."""
    name = at + 1
    while name + 2 < len(words) and words[name + 1] == ".":
        name += 2
    return words[name]


def _generic_names(words: list[str], at: int) -> set[str]:
    """Returns the generic parameters between `<` and its `>`: the names after `<`, a comma or `each`."""
    names, depth = set(), 0
    while at < len(words):
        if words[at] == "<":
            depth += 1
        elif words[at] == ">":
            depth -= 1
            if depth == 0:
                break
        elif depth == 1 and words[at - 1] in {"<", ",", "each"} and words[at][0].isupper():
            names.add(words[at])
        at += 1
    return names


def _may_name_top_level(words: list[str], at: int, modules: frozenset[str]) -> bool:
    if at == 0 or words[at - 1] != ".":
        return True
    return at > 1 and words[at - 2] in modules and (at < 3 or words[at - 3] != ".")


def _end_of_import(tokens: list[tuple[str, int]], at: int) -> int:
    line = tokens[at][1]
    while at < len(tokens) and tokens[at][1] == line:
        at += 1
    return at
