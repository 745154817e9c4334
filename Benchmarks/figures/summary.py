"""The summary at the top of the page: where Interlock is ahead, where it is behind, and the missed targets."""

import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

UNKNOWN = "not explained yet"
SCRIPT = "an acquire is a script, which Redis runs more slowly than `SET`"
THREADS = "the call changes threads; on the coordinator's event loop, the target holds"
#: The ratios of the summary: the part, the row's label, and its name in the summary. Above 1, Interlock is faster.
HEADLINES = (
    (
        "locks",
        "hand-over, 16+16 waiters: cycles per second ÷ python-redis-lock, the fastest fair peer",
        "contended lock ÷ python-redis-lock",
    ),
    ("peers", "lock and unlock ÷ etcd: 1 caller, HTTP", "lock over HTTP ÷ etcd"),
    ("proxy", "32 connections: requests ÷ Envoy's", "proxied requests ÷ Envoy"),
    ("limits", "one key: LIMIT.TAKE ÷ INCRBY, per second", "pipelined takes ÷ `INCRBY`"),
    ("sidecar", "LIMIT.TAKE ÷ INCRBY, 50 clients", "takes without pipelines ÷ `INCRBY`"),
    ("limits", "1,000 keys: LIMIT.TAKE ÷ INCRBY, per second", "pipelined takes of 1,000 limits ÷ `INCRBY`"),
    ("peers", "LIMIT.TAKE, fixed ÷ limits, fixed window: one caller", "one caller's takes ÷ `limits`"),
    ("peers", "PERMIT.ACQUIRE and PERMIT.REPORT ÷ pybreaker: 8 callers", "8 callers' permits ÷ pybreaker"),
)
#: The short names of rows whose targets are missed, and the known reasons, by part and label.
MISSED = {
    ("sidecar", "LOCK.ACQUIRE ÷ SET NX PX, 50 clients"): ("`LOCK.ACQUIRE` ÷ `SET`", SCRIPT),
    ("sidecar", "LOCK.ACQUIRE ÷ EVALSHA of its script, 50 clients"): ("`LOCK.ACQUIRE` ÷ its script", UNKNOWN),
    ("sidecar", "HTTP API, LIMIT.TAKE, 32 connections ÷ RESP API"): ("takes over HTTP ÷ RESP", UNKNOWN),
    ("locks", "hand-over, 16+16 waiters: longest wait"): ("the longest wait", UNKNOWN),
    ("locks", "library, acquire and release: 64 callers ÷ SET NX PX, 50 clients"): ("the library ÷ `SET`", SCRIPT),
    ("locks", "library, acquire and release: one caller ÷ redis-py"): ("the library ÷ redis-py", THREADS),
    ("limits", "1,000 keys: LIMIT.TAKE ÷ INCRBY, per second"): ("pipelined takes of 1,000 limits", UNKNOWN),
}
WIDTH = 150


def text(measured: Iterable[tuple[str, Mapping[str, Any]]]) -> str:
    """Returns the summary of the parts' rows as Markdown."""
    rows = {(part, row[0]): row for part, entry in measured for row in entry["rows"]}
    ratios = [(name, rows[part, label][3]) for part, label, name in HEADLINES if (part, label) in rows]
    known = [(name, ratio) for name, ratio in ratios if is_number(ratio)]
    missed: dict[str, list[str]] = {}
    for (part, label), row in rows.items():
        if row[-1] == "NO":
            name, reason = MISSED.get((part, label), (f"{label.rpartition(': ')[2]} ({part})", UNKNOWN))
            missed.setdefault(reason, []).append(f"{name} {row[3]}")
    # Targets without a known reason are last.
    reasons = sorted(missed.items(), key=lambda item: item[0] == UNKNOWN)
    return "\n".join(
        [
            "Above 1, a ratio of rates means that Interlock is faster.\n",
            item("Ahead", [f"{name} {ratio}" for name, ratio in known if float(ratio) >= 1]),
            item("Behind", [f"{name} {ratio}" for name, ratio in known if float(ratio) < 1]),
            item("Missed targets", [str(sum(map(len, missed.values())))]),
            *(filled(f"  - {', '.join(labels)}: {reason}.", "    ") for reason, labels in reasons),
        ]
    )


def is_number(figure: str) -> bool:
    return figure.replace(".", "", 1).isdigit()


def item(title: str, texts: list[str]) -> str:
    return filled(f"- **{title}**: {', '.join(texts) or 'none'}.", "  ")


def filled(line: str, indent: str) -> str:
    return textwrap.fill(line, WIDTH, subsequent_indent=indent, break_on_hyphens=False)
