#!/usr/bin/env python3
"""Breaks one rule of the product at a time, builds it, and has `interlock bench` judge a short run of it: each mutant must be caught,
and the unbroken product must not be.

Works on a copy of the tree in .build-mutants, whose build folder is kept from one mutant to the next. Takes about a minute for each.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import time

from mutants import MUTANTS, Mutant

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORK = ROOT / ".build-mutants"
TREE = WORK / "tree"
#: Long enough for leases to lapse, breakers to trip and windows to pass many times.
DURATION = "15s"
SEED = "1"


def copy_tree():
    """The files that git knows and those that are new, without what is ignored; times are kept, so that little is built anew."""
    files = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True
    ).stdout.split(b"\0")
    wanted = {name.decode() for name in files if name and (ROOT / name.decode()).is_file()}
    for old in [path for path in TREE.rglob("*") if path.is_file() and ".build" not in path.parts]:
        if str(old.relative_to(TREE)) not in wanted:
            old.unlink()
    for name in wanted:
        source, target = ROOT / name, TREE / name
        if not target.exists() or source.read_bytes() != target.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
            target.chmod(source.stat().st_mode)


def build():
    result = subprocess.run(
        ["swift", "build", "--product", "interlock", "--scratch-path", str(WORK / "build")], cwd=TREE, capture_output=True,
        text=True)
    if result.returncode:
        errors = [line for line in result.stdout.splitlines() if "error" in line]
        sys.exit("mutants: it does not build:\n" + "\n".join(errors or result.stdout.splitlines()[-20:]))


def bench(arguments):
    """The exit code, and how often each promise was broken."""
    report = WORK / "report.json"
    report.unlink(missing_ok=True)
    command = [str(WORK / "build/debug/interlock"), "bench", *arguments, "--seed", SEED, "--duration", DURATION, "--json", str(report)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if not report.exists():
        sys.exit(f"mutants: {' '.join(command)} gave no report (exit code {result.returncode}):\n{result.stdout}{result.stderr}")
    broken = {}
    check = json.loads(report.read_text())["check"]
    for violation in check["violations"]:
        broken[violation["promise"]] = broken.get(violation["promise"], 0) + 1
    return result.returncode, broken, check


def apply(mutant):
    path = TREE / mutant.file
    text = path.read_text()
    if text.count(mutant.old) != 1:
        sys.exit(f"mutants: {mutant.name}: what it replaces stands {text.count(mutant.old)} times in {mutant.file}, not once")
    path.write_text(text.replace(mutant.old, mutant.new))
    return text


def judge(mutant: Mutant):
    """Whether the mutant was caught for what it is."""
    original = apply(mutant)
    try:
        build()
        code, broken, _ = bench(mutant.bench)
    finally:
        (TREE / mutant.file).write_text(original)
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
    chosen = [mutant for mutant in MUTANTS if not options.only or mutant.name in options.only]
    started = time.monotonic()
    print("mutants: building the product as it is; the first time takes some minutes", flush=True)
    copy_tree()
    build()
    for workload in sorted({mutant.bench for mutant in chosen}):
        code, broken, check = bench(workload)
        if code or broken:
            sys.exit(f"mutants: the product as it is breaks promises in `interlock bench {' '.join(workload)}`: {check['violations']}")
        print(f"  clean   the product as it is: {check['operations']:,} operations of {' '.join(workload)}, no violation", flush=True)
    missed = [mutant.name for mutant in chosen if not judge(mutant)]
    print(f"mutants: {len(chosen) - len(missed)} of {len(chosen)} caught in {time.monotonic() - started:.0f} s")
    sys.exit(f"mutants: missed {', '.join(missed)}" if missed else 0)


if __name__ == "__main__":
    main()
