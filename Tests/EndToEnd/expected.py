"""Compares printed output with the output on a page.

A page shows real output. Parts that differ between runs (tokens, fences, IDs and times) match any value of their kind.
`…` matches anything within its line; a line that consists of `…` matches any number of lines.
"""

import re

#: The parts that differ between runs, with their patterns. The first pattern that matches at a position applies.
VARIABLE = [
    # A token: a label, a slash, 128 bits.
    (r"[\w.-]+/[0-9a-f]{32}", r"[\w.-]+/[0-9a-f]{32}"),
    # A permit; a sidecar's ID; a fence, or a generation.
    (r"\b[0-9a-f]{32}\b", r"[0-9a-f]{32}"),
    (r"\b(?=[0-9]*[a-f])[0-9a-f]{12}\b", r"[0-9a-f]{12}"),
    (r"\b\d{16}\b", r"\d{16}"),
    (r"\b\d{13}\b", r"\d{13}"),
    (r"\d{4}-\d\d-\d\dT[\d:.]+Z", r"\d{4}-\d\d-\d\dT[\d:.]+Z"),
    (r"\w{3}, \d\d \w{3} \d{4} [\d:]{8} GMT", r"\w{3}, \d\d \w{3} \d{4} [\d:]{8} GMT"),
    # Durations: in JSON, in text, in redis-cli's replies.
    (r"_ms\"?[:=] ?\d+", r"_ms\"?[:=] ?\d+"),
    (r"\b\d+(?:\.\d+)? (?:ms|s)\b", r"\d+(?:\.\d+)? (?:ms|s)"),
    (r"\(integer\) \d{3,}", r"\(integer\) \d{2,}"),
    (r"\bprocess \d+", r"process \d+"),
]
KINDS = re.compile("|".join(f"(?P<k{index}>{shown})" for index, (shown, _) in enumerate(VARIABLE)))


def pattern(line: str) -> str:
    """Returns a regular expression for a line on a page."""
    parts, end = [], 0
    for found in re.finditer(rf"…|{KINDS.pattern}", line):
        parts.append(re.escape(line[end : found.start()]))
        kind = found.lastgroup
        parts.append(".*" if kind is None else VARIABLE[int(kind[1:])][1])
        end = found.end()
    return "".join(parts) + re.escape(line[end:])


def matches(shown: str, printed: str) -> bool:
    lines = [r"(?:.*\n)*?" if line.strip() == "…" else pattern(line.rstrip()) + r" *\n" for line in shown.splitlines()]
    # curl ends a response without a newline, which a shell's next prompt hides.
    text = printed.replace("\r", "")
    if text and not text.endswith("\n"):
        text += "\n"
    return re.fullmatch("".join(lines), text) is not None


def difference(shown: str, printed: str) -> str:
    """Returns both outputs, indented, for a report."""
    return "".join(
        f"  {title}:\n" + "".join(f"    | {line}\n" for line in text.splitlines() or ["(nothing)"])
        for title, text in (("the page shows", shown), ("it printed", printed.replace("\r", "")))
    )
