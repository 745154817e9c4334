"""The results directory: one file per part, which part comes next, and the table."""

import json
import pathlib
import statistics
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from judged.settings import PEERS, TOPOLOGIES, unsupported

USAGE = 64
#: The version of the results. It increases when parts are no longer comparable with older ones.
FORMAT = 2
Result = dict[str, Any]
COLUMNS = (
    "peer",
    "fence",
    "failovers",
    "grants",
    "two holders",
    "not notified",
    "lost",
    "stale writes accepted",
    "refused",
    "never released",
    "longest wait, s",
    "without a grant: median, longest, s",
)
#: The figures that are added up.
SUMS = ("grants", "two_holders", "not_notified", "lost", "stale_writes", "stale_writes_refused", "never_released")


class Key(NamedTuple):
    """A part. Keys sort in the order of a run: one failover of every peer, then the next."""

    number: int
    topology: str
    peer: str

    @property
    def name(self) -> str:
        return f"{self.peer}.{self.topology}.{self.number:03}"


def keys(peers: Sequence[str], topologies: Sequence[str], failovers: int) -> Iterator[Key]:
    for number in range(failovers):
        for topology in topologies:
            for peer in peers:
                if unsupported(peer, topology) is None:
                    yield Key(number, topology, peer)


class Results:
    """The results of one run."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder

    @property
    def histories(self) -> pathlib.Path:
        return self.folder / "histories"

    def path(self, key: Key) -> pathlib.Path:
        return self.folder / f"{key.name}.json"

    def load(self) -> list[Result]:
        """Exits if a file is not a result of this version."""
        found = [(path, json.loads(path.read_text())) for path in sorted(self.folder.glob("*.json"))]
        for path, one in found:
            if not isinstance(one, dict) or one.get("format") != FORMAT:
                print(
                    f"interlock bench peers: {path} is not a result of this version; name another --results",
                    file=sys.stderr,
                )
                sys.exit(USAGE)
        return [one for _, one in found]

    def missing(self, wanted: Iterable[Key]) -> list[Key]:
        return [key for key in wanted if not self.path(key).exists()]

    def other_seed(self, seed: int) -> int | None:
        """Returns the seed of results with a different seed, or None."""
        return next((one["seed"] for one in self.load() if one["seed"] != seed), None)

    def save(self, key: Key, seed: int, figures: Result) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        result = {"format": FORMAT, "seed": seed, **key._asdict(), **figures}
        # A run that is interrupted here repeats the part.
        unfinished = self.path(key).with_suffix(".unfinished")
        unfinished.write_text(json.dumps(result, indent=1) + "\n")
        unfinished.rename(self.path(key))


def totals(results: Iterable[Result]) -> dict[tuple[str, str], Result]:
    """Returns the figures of each topology and peer, in the table's order."""
    found: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        found.setdefault((result["topology"], result["peer"]), []).append(result)
    return {
        (topology, peer): total(found[topology, peer])
        for topology in TOPOLOGIES
        for peer in PEERS
        if (topology, peer) in found
    }


def total(parts: Sequence[Result]) -> Result:
    gaps = [part["without_grant_ms"] for part in parts if part["without_grant_ms"] is not None]
    others: dict[str, int] = {}
    for part in parts:
        for name, count in part["other_violations"].items():
            if count:
                others[name] = others.get(name, 0) + count
    return {
        "failovers": len(parts),
        **{name: sum(part[name] for part in parts) for name in SUMS},
        "longest_wait_ms": max(part["longest_wait_ms"] for part in parts),
        "without_grant_ms": {"median": statistics.median(gaps), "longest": max(gaps)} if gaps else None,
        "never_granted_again": len(parts) - len(gaps),
        "other_violations": others,
        "unlisted_violations": sum(part["unlisted_violations"] for part in parts),
    }


def markdown(*runs: Iterable[Result]) -> str:
    """Returns one table per topology. With several runs, each cell that differs has the figures of all."""
    found = [totals(results) for results in runs]
    sections: dict[str, list[str]] = {}
    for topology, peer in found[0]:
        rows = [cells(peer, one[topology, peer]) for one in found if (topology, peer) in one]
        joined = (column[0] if len(set(column)) == 1 else " / ".join(column) for column in zip(*rows, strict=True))
        sections.setdefault(topology, []).append(f"|{'|'.join(joined)}|")
    head = f"|{'|'.join(COLUMNS)}|\n|{'|'.join('---' for _ in COLUMNS)}|"
    return "\n\n".join(
        f"### {topology.capitalize()}\n\n{head}\n" + "\n".join(rows) for topology, rows in sections.items()
    )


def cells(peer: str, figures: Result) -> list[str]:
    gap = figures["without_grant_ms"]
    return [
        PEERS[peer].title,
        PEERS[peer].fence,
        str(figures["failovers"]),
        f"{figures['grants']:,}",
        *(str(figures[name]) for name in SUMS[1:]),
        f"{figures['longest_wait_ms'] / 1000:.1f}",
        f"{gap['median'] / 1000:.1f}, {gap['longest'] / 1000:.1f}" if gap else "no grant",
    ]


def ranking(results: Iterable[Result], topology: str) -> list[list[str]]:
    """Returns the peers of a topology from the safest. Peers share a place unless they differ in kind: no two holders
    at all, fewer than one pair per failover, or more; then no stale write accepted, or some. Finer steps would differ
    from run to run. A peer that granted nothing comes last, because it showed nothing."""
    ranks: dict[tuple[int, bool], list[str]] = {}
    for (one, peer), figures in totals(results).items():
        if one == topology:
            ranks.setdefault((step(figures), figures["stale_writes"] > 0), []).append(peer)
    return [ranks[rank] for rank in sorted(ranks)]


def step(figures: Result) -> int:
    if figures["grants"] == 0:
        return 3
    # What the judge did not list may be pairs of holders.
    if figures["unlisted_violations"] > 0:
        return 2
    return 0 if figures["two_holders"] == 0 else 1 if figures["two_holders"] < figures["failovers"] else 2
