"""Tests that wrong calls of `quota.lua` are illegal steps of `LimitQuotaTrace.tla`."""

from __future__ import annotations

import dataclasses
from typing import Any

from traces import quotas
from traces.calls import Call
from traces.packed import pack
from traces.testing import TlcTestCase

MS = 1_795_305_600_007
RETENTION, LIMIT = 1000, 100


def bucket(left: int, **planes: tuple[int, int, int, int, int]) -> dict[str, Any]:
    """Returns a bucket: for each data plane its quota, time left, previous quota, time left of that, and demand."""
    rows = [[name, f"{q} {MS + own} {old} {MS + until if until else 0} {need}"]
            for name, (q, own, old, until, need) in planes.items()]  # fmt: skip
    return {"hash": rows, "until": MS + left}


def assign(need: int, before: Any, after: Any, quota: int) -> Call:
    """Returns a call of the data plane `a`."""
    numbers = pack([RETENTION, 10, LIMIT, need])
    return Call("quota", "redis", MS * 1000, ["k"], [numbers, "a"], pack([quota]), [before], [after])


B = (60, 500, 0, 0, 60)
FIRST = assign(50, None, bucket(RETENTION, a=(100, RETENTION, 0, 0, 50)), 100)
SECOND = assign(60, bucket(500, b=B), bucket(RETENTION, a=(40, RETENTION, 0, 0, 60), b=B), 40)
LESS = assign(20, bucket(500, a=(40, 500, 0, 0, 60), b=B), bucket(RETENTION, a=(30, RETENTION, 40, 500, 20), b=B), 30)
LEGAL = [FIRST, SECOND, LESS]


def after(right: Call, key: Any, quota: int) -> Call:
    """Returns a call that left another bucket."""
    return dataclasses.replace(right, after=[key], reply=pack([quota]))


ILLEGAL = {
    "more than the limit": after(SECOND, bucket(RETENTION, a=(50, RETENTION, 0, 0, 60), b=B), 50),
    "an error of the script": dataclasses.replace(FIRST, after=[None], reply={"error": "ERR user_script:9"}),
    "a reply of another shape": dataclasses.replace(SECOND, reply=40),
    "another quota in the reply": dataclasses.replace(SECOND, reply=pack([50])),
    "another data plane's quota is lost": after(SECOND, bucket(RETENTION, a=(40, RETENTION, 0, 0, 60)), 40),
    "a previous quota is forgotten": after(LESS, bucket(RETENTION, a=(30, RETENTION, 0, 0, 20), b=B), 30),
    "a quota that lasts too briefly": after(FIRST, bucket(RETENTION, a=(100, 900, 0, 0, 50)), 100),
    "a key that expires before its quotas": after(FIRST, bucket(900, a=(100, RETENTION, 0, 0, 50)), 100),
}


class QuotaSteps(TlcTestCase):
    """Judges steps of quotas."""

    def test_only_wrong_steps_are_illegal(self) -> None:
        right = {f"legal {i}": call for i, call in enumerate(LEGAL)}
        found = self.verdicts(quotas.MODULE, quotas.encode, [*right.items(), *ILLEGAL.items()])
        self.assertEqual(found, set(ILLEGAL))
