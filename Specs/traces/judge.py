"""Judges steps with TLC."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from check import find_tlc

SPECS = Path(__file__).resolve().parents[1]
# The time for one run of TLC, in seconds.
TIMEOUT = 600


class JudgeError(Exception):
    """TLC could not evaluate the steps. The message is the end of its output."""


def illegal(module: str, steps: list[str]) -> list[int]:
    """Returns the indices of the steps that the module does not allow, in rising order."""
    tlc = find_tlc()
    with tempfile.TemporaryDirectory() as folder:
        for file in [*SPECS.glob("*.tla"), SPECS / f"{module}.cfg"]:
            shutil.copy(file, folder)
        text = "---- MODULE Steps ----\nEXTENDS Integers\nSteps == <<\n" + ",\n".join(steps) + "\n>>\n====\n"
        Path(folder, "Steps.tla").write_text(text, encoding="utf-8")
        # TLC unpacks its modules there, and deletes what another run has unpacked.
        command = [
            "java",
            f"-Djava.io.tmpdir={folder}",
            "-Xss64m",
            "-Xmx2g",
            "-cp",
            str(tlc),
            "tlc2.TLC",
            "-workers",
            "1",
            "-nowarning",
        ]
        command += ["-config", f"{module}.cfg", f"{module}.tla"]
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, cwd=folder, check=False)
        except subprocess.TimeoutExpired:
            raise JudgeError(f"TLC did not judge {len(steps)} steps of {module} within {TIMEOUT} s") from None
    found = re.search(r'<<\s*"illegal",\s*\{(.*?)\}\s*>>', run.stdout, re.DOTALL)
    if not found:
        raise JudgeError(run.stdout[-4000:])
    return sorted(int(number) - 1 for number in re.findall(r"\d+", found[1]))
