"""A trial of something else than latency: memory, descriptors, bytes, or a log that nobody reads."""

import pathlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from abuses.target import Target
from rig.servers import Rig, Sidecar


class Stage(NamedTuple):
    """What a trial is made on."""

    rig: Rig
    binary: pathlib.Path
    #: The words that start a sidecar on its core.
    before: Sequence[object]
    #: 100: as long as the bounds say.
    scale: int

    def seconds(self, whole: float) -> float:
        return whole * self.scale / 100


class Finding(NamedTuple):
    what: str
    figure: str
    bound: str
    holds: bool
    beside: str = "–"


class Trial(NamedTuple):
    #: For the command line.
    name: str
    what: str
    run: Callable[[Stage], Iterator[Finding]]


def megabytes(sidecar: Sidecar) -> float:
    """The resident memory."""
    return sidecar.resident_kilobytes() / 1024


def bytes_read(target: Target) -> int:
    """Bytes that the sidecar has read so far, from whatever it reads."""
    fields = pathlib.Path(f"/proc/{target.process.pid}/io").read_text()
    found = re.search(r"rchar: (\d+)", fields)
    assert found
    return int(found[1])


def log(stage: Stage, target: Target) -> str:
    """What the sidecar has logged so far."""
    return (stage.rig.folder / target.configuration.with_suffix(".log").name).read_text(errors="replace")
