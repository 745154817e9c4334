"""Judges steps with TLC."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from check import SPECS, TIMEOUT, run_tlc


class JudgeError(Exception):
    """Steps that TLC could not evaluate. The message has the end of its output."""


def illegal(module: str, steps: list[str]) -> list[int]:
    """Returns the indices of the steps that the module does not allow, in rising order."""
    with tempfile.TemporaryDirectory() as folder:
        for file in [*SPECS.glob("*.tla"), SPECS / f"{module}.cfg"]:
            shutil.copy(file, folder)
        text = "---- MODULE Steps ----\nEXTENDS Integers\nSteps == <<\n" + ",\n".join(steps) + "\n>>\n====\n"
        Path(folder, "Steps.tla").write_text(text, encoding="utf-8")
        try:
            run = run_tlc(module, module, folder, folder, "-Xss64m")
        except subprocess.TimeoutExpired:
            raise JudgeError(f"TLC did not judge {len(steps)} steps of {module} within {TIMEOUT} s") from None
    found = re.search(r'<<\s*"illegal",\s*\{(.*?)\}\s*>>', run.stdout, re.DOTALL)
    if not found:
        raise JudgeError(f"TLC did not judge the steps of {module}:\n{(run.stdout + run.stderr)[-4000:]}")
    return sorted(int(number) - 1 for number in re.findall(r"\d+", found[1]))
