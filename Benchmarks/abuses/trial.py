"""A trial of something other than latency: memory, descriptors, bytes, or a blocked log."""

import pathlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from abuses.target import Target
from rig.servers import Rig, Sidecar


class Stage(NamedTuple):
    """The servers of a trial."""

    rig: Rig
    binary: pathlib.Path
    #: The command prefix that starts a sidecar on its core.
    before: Sequence[object]
    #: The length in percent; 100 is the length that the limits assume.
    scale: int

    def seconds(self, whole: float) -> float:
        return whole * self.scale / 100


class Finding(NamedTuple):
    label: str
    figure: str
    bound: str
    holds: bool
    comparison: str = "–"


class Trial(NamedTuple):
    #: The name for the command line.
    name: str
    label: str
    run: Callable[[Stage], Iterator[Finding]]


def megabytes(sidecar: Sidecar) -> float:
    """Returns the resident memory in megabytes."""
    return sidecar.resident_kilobytes() / 1024


def bytes_read(target: Target) -> int:
    """Returns the bytes that the sidecar has read so far from any source."""
    fields = pathlib.Path(f"/proc/{target.process.pid}/io").read_text()
    found = re.search(r"rchar: (\d+)", fields)
    assert found
    return int(found[1])


def log(stage: Stage, target: Target) -> str:
    """Returns the sidecar's log so far."""
    return (stage.rig.folder / target.configuration.with_suffix(".log").name).read_text(errors="replace")
