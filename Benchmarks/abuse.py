#!/usr/bin/env python3
"""Runs single cases of the part `abuse` against any binary, and writes no page.

  Benchmarks/abuse.py --list
  Benchmarks/abuse.py --binary .build/debug/interlock live-1 ping-1000
  Benchmarks/abuse.py --rounds 5                      all cases, as `make bench ARGS='--only abuse'`

Exit codes: 0, every bound holds. 1, a bound is missed. 64, the command line is wrong.
"""

import argparse
import pathlib
import sys

from abuses.target import Case
from abuses.trial import Trial
from figures import abuse
from figures.table import Table
from rig.priority import run_first
from rig.servers import BINARY, Rig


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="a case by name; default: all")
    parser.add_argument("--list", action="store_true", help="list the cases")
    parser.add_argument("--binary", type=pathlib.Path, default=BINARY, help="the sidecar, default %(default)s")
    parser.add_argument("--rounds", type=int, default=1, help="rounds of each case, default %(default)s")
    parser.add_argument("--scale", type=int, default=100, help="length of each round in percent, default %(default)s")
    parser.add_argument(
        "--urgent", action="store_true", help="run before everything else on a busy machine, such as builds; needs root"
    )
    options = parser.parse_args()
    all_cases: list[Case | Trial] = [*abuse.CASES, *abuse.TRIALS]
    if options.list:
        for case in all_cases:
            print(f"{case.name:20}{case.label}")
        return 0
    if unknown := set(options.cases) - {one.name for one in all_cases}:
        parser.error(f"no case {', '.join(unknown)}; --list shows all")
    cases = [case for case in abuse.CASES if not options.cases or case.name in options.cases]
    trials = [trial for trial in abuse.TRIALS if not options.cases or trial.name in options.cases]
    if options.urgent:
        # The sidecar, Redis and the witnesses inherit the priority; the abusers do not.
        run_first()
    table = Table()
    with Rig(abuse.CONFIGURATION) as rig:
        abuse.measure(rig, table, options.rounds, options.scale, cases, trials, options.binary.resolve())
    return 0 if table.holds else 1


if __name__ == "__main__":
    sys.exit(main())
