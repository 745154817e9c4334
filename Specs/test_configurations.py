"""Tests that the configurations can show what they promise."""

from __future__ import annotations

import re
import unittest
from pathlib import Path

import check

# For each module, the promises that hold trivially unless the constants contain certain members, and these members. A
# number of members stands for any, and "> NAME" for more than the value of another constant.
NEEDS: dict[str, dict[str, dict[str, set[str] | int | str]]] = {
    "Breaker": {
        "ForcedEnds": {"Uses": {"force"}},
        "ForcedStateHolds": {"Uses": {"force"}},
        "OneDecisionPerGeneration": {"Sidecars": 2},
        "StreakSurvives": {"Uses": {"report"}},
    },
    "Group": {
        "ModesExclude": {"Permits": 1, "Readers": 1},
        "NoOvertaking": {"Events": {"wait"}},
        "SemaphoreWithinSlots": {"Permits": "> Slots"},
        "Served": {"Events": {"wait"}},
        "SharedExcludesExclusive": {"Writers": 1},
    },
    "Limit": {"AllOrNone": {"Limits": 2}, "LimitPlusLocalQuotas": {"Faults": {"cut"}}},
    "LimitQuota": {"EntriesLapse": {"Faults": {"back"}}, "QuotasWithinLimit": {"Planes": 2}},
    "Lock": {
        "FencesRise": {"Events": {"fences"}},
        "MutualExclusion": {"Clients": 2},
        "NoOvertaking": {"Events": {"wait"}},
        "Served": {"Events": {"wait"}},
        "StaleWritesRefused": {"Events": {"fences", "write"}},
    },
    "Quorum": {
        "MutualExclusion": {"Attempts": 2},
        "NoRenewedLeaseLost": {"Assumptions": {"one_at_a_time"}, "Renewing": 1},
        "OtherAcquires": {"Assumptions": {"retry"}, "Stopping": 1},
        "OwnersFencesRise": {"Shared": 2},
    },
}
# The configurations that lack a need, to show that the promise then breaks.
LACKING = {"Quorum-no-retry"}


def constants(path: Path) -> dict[str, str]:
    """Returns the values of a configuration's constants. A set of sets is cut off after its first member."""
    return dict(re.findall(r"(\w+) = (\{[^}]*\}|\w+)", path.read_text(encoding="utf-8")))


def members(value: str) -> set[str]:
    """Returns the members of a set."""
    return set(re.findall(r"\w+", value))


def lacks(values: dict[str, str], need: str, wanted: set[str] | int | str) -> bool:
    """Returns whether a constant lacks members that a promise needs."""
    found = members(values[need])
    if isinstance(wanted, set):
        return not wanted <= found
    return len(found) <= int(values[wanted.removeprefix("> ")]) if isinstance(wanted, str) else len(found) < wanted


class ConfigurationTests(unittest.TestCase):
    """Compares the configurations with the promises, the safeguards and the pages."""

    def setUp(self) -> None:
        self.paths = sorted(check.SPECS.glob("*-*.cfg"))

    def test_no_promise_holds_trivially(self) -> None:
        for path in self.paths:
            needs = NEEDS[check.module(path)]
            for promise in check.promises(path):
                for constant, wanted in needs.get(promise, {}).items():
                    with self.subTest(path.stem, promise=promise, constant=constant):
                        self.assertTrue(path.stem in LACKING or not lacks(constants(path), constant, wanted))

    def test_every_need_is_of_a_checked_promise(self) -> None:
        checked = {(check.module(path), promise) for path in self.paths for promise in check.promises(path)}
        self.assertLessEqual({(module, promise) for module in NEEDS for promise in NEEDS[module]}, checked)

    def test_every_promise_holds_somewhere(self) -> None:
        # These are no promises: a configuration shows that they do not hold.
        known = {("Quorum", "OneAcquires"), ("Quorum", "OwnersFencesRise")}
        checked = {(check.module(path), promise) for path in self.paths for promise in check.promises(path)}
        holding = {
            (check.module(path), promise)
            for path in self.paths
            if check.expectation(path) == "holds"
            for promise in check.promises(path)
        }
        self.assertEqual(checked - holding, known)

    def test_a_promise_breaks_without_each_safeguard(self) -> None:
        # Lock and Group share scripts and safeguards.
        families = {"Group": "Lock"}
        guards: dict[str, set[str]] = {}
        needed: dict[str, set[str]] = {}
        for path in self.paths:
            family = families.get(check.module(path), check.module(path))
            guards.setdefault(family, set()).update(members(constants(path)["Guards"]))
        for path in self.paths:
            if check.expectation(path).startswith("violates "):
                family = families.get(check.module(path), check.module(path))
                needed.setdefault(family, set()).update(guards[family] - members(constants(path)["Guards"]))
        self.assertEqual(needed, guards)

    def test_every_configuration_is_in_a_table(self) -> None:
        pages = {"Group": "Lock", "LimitQuota": "Limit"}
        for path in self.paths:
            module = check.module(path)
            text = Path(check.SPECS, f"{pages.get(module, module)}.md").read_text(encoding="utf-8")
            cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("|")]
            names = {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}
            with self.subTest(path.stem):
                self.assertTrue({path.stem, path.stem.removeprefix(f"{module}-")} & names)
