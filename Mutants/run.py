#!/usr/bin/env python3
"""Breaks one rule of the product at a time, and has `interlock bench` judge a short run of it: each mutant must be caught, and the
product as it is must not be.

The rules that keep the promises stand in the scripts, and the scripts' text stands in the release binary: a mutant is a copy of
the binary with another text in its place, so that nothing is built.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

from mutants import MUTANTS

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = ROOT / ".build/release/interlock"
#: Long enough for leases to lapse, breakers to trip and windows to pass many times.
EACH = ("--seed", "1", "--duration", "15s")


def mutated(text, mutant):
    """The script with the rule broken, as many bytes long as before: its comments make room."""
    if text.count(mutant.old) != 1:
        sys.exit(f"mutants: {mutant.name}: what it replaces stands {text.count(mutant.old)} times in {mutant.file}, not once")
    lines = text.replace(mutant.old, mutant.new).splitlines(keepends=True)
    length = len(text.encode())
    while len("".join(lines).encode()) > length:
        comment = next((line for line in lines if line.lstrip().startswith("--")), None)
        if comment is None:
            sys.exit(f"mutants: {mutant.name}: too long for {mutant.file}")
        lines.remove(comment)
    broken = "".join(lines).encode()
    return broken + b"\n" * (length - len(broken))


def break_rule(mutant, target):
    text = (ROOT / mutant.file).read_text()
    binary = BINARY.read_bytes()
    if binary.count(text.encode()) != 1:
        sys.exit(f"mutants: {mutant.file} does not stand in {BINARY.relative_to(ROOT)} as it is: build it anew with `make build`")
    target.write_bytes(binary.replace(text.encode(), mutated(text, mutant)))
    target.chmod(0o755)


def bench(program, arguments, folder):
    """The exit code, how often each promise was broken, and what else the judgement says."""
    report = folder / "report.json"
    report.unlink(missing_ok=True)
    command = [str(program), "bench", *arguments, *EACH, "--json", str(report)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if not report.exists():
        sys.exit(f"mutants: {' '.join(command)} gave no report (exit code {result.returncode}):\n{result.stdout}{result.stderr}")
    check = json.loads(report.read_text())["check"]
    broken = {}
    for violation in check["violations"]:
        broken[violation["promise"]] = broken.get(violation["promise"], 0) + 1
    return result.returncode, broken, check


def judge(mutant, folder):
    """Whether the mutant was caught for what it is."""
    program = folder / "interlock"
    break_rule(mutant, program)
    code, broken, _ = bench(program, mutant.bench, folder)
    is_caught = code == 1 and any(promise in broken for promise in mutant.promises)
    found = ", ".join(f"{promise} × {count}" for promise, count in sorted(broken.items())) or "nothing"
    print(f"  {'caught' if is_caught else 'MISSED'}  {mutant.name}: {found}", flush=True)
    return is_caught


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", metavar="NAME", help="this mutant; repeatable")
    options = parser.parse_args()
    names = {mutant.name for mutant in MUTANTS}
    for name in options.only or []:
        if name not in names:
            parser.error(f"there is no mutant {name}; there are {', '.join(sorted(names))}")
    if not BINARY.exists():
        sys.exit("mutants: there is no release binary: make build")
    chosen = [mutant for mutant in MUTANTS if not options.only or mutant.name in options.only]
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="interlock-mutants-") as name:
        folder = pathlib.Path(name)
        for workload in sorted({mutant.bench for mutant in chosen}):
            code, broken, check = bench(BINARY, workload, folder)
            if code or broken:
                sys.exit(f"mutants: the product as it is breaks promises in `interlock bench {' '.join(workload)}`: {check['violations']}")
            print(f"  clean   the product as it is: no violation in {check['operations']:,} operations of {workload[0]}", flush=True)
        missed = [mutant.name for mutant in chosen if not judge(mutant, folder)]
    print(f"mutants: {len(chosen) - len(missed)} of {len(chosen)} caught in {time.monotonic() - started:.0f} s")
    sys.exit(f"mutants: missed {', '.join(missed)}" if missed else 0)


if __name__ == "__main__":
    main()
