#!/usr/bin/env python3
"""Fuzzes each target for a while, or runs one target on a single input. `make fuzz` builds the fuzzer first."""

import argparse
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
BUILD = HERE.parents[1] / ".build-fuzz"
BINARY = BUILD / "release" / "InterlockFuzz"
SEEDS = HERE / "Corpus"
TARGETS = sorted(folder.name for folder in SEEDS.iterdir())
# The maximum seconds and megabytes per input. The parsers' own limits are far lower.
LIMITS = ["-timeout=10", "-rss_limit_mb=1024", "-max_len=4096"]


def environment(target: str) -> dict[str, str]:
    # libFuzzer saves the input that ends the process. Swift's own backtrace would come first and take seconds.
    return {**os.environ, "INTERLOCK_FUZZ_TARGET": target, "SWIFT_BACKTRACE": "enable=no"}


def finding(log: str) -> str:
    """Returns the line of libFuzzer's log that names the error."""
    for sign in (r"Fatal error: (.*)", r"(Swift runtime failure: .*)", r"ERROR: (\w*(?:Sanitizer|Fuzzer): .*)"):
        if found := re.search(sign, log):
            return found[1][:600]
    return "the process ended; see the log"


def fuzz(target: str, seconds: int) -> pathlib.Path | None:
    """Prints a line of statistics. Returns the input that broke a promise, if any."""
    corpus, findings = BUILD / "corpus" / target, BUILD / "findings"
    for folder in (corpus, findings):
        folder.mkdir(parents=True, exist_ok=True)
    before = set(findings.iterdir())
    log = BUILD / f"{target}.log"
    with log.open("w") as output:
        ended = subprocess.run(
            [
                BINARY,
                f"-max_total_time={seconds}",
                f"-artifact_prefix={findings}/{target}-",
                *LIMITS,
                corpus,
                SEEDS / target,
            ],
            env=environment(target),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    text = log.read_text(errors="replace")
    progress = re.findall(
        r"^#(\d+)\s+\w+\s+cov: (\d+) ft: (\d+) corp: (\d+)/\S+ .*?exec/s: (\d+) rss: (\d+)Mb", text, re.M
    )
    runs, edges, _, inputs, rate, memory = progress[-1] if progress else ["0"] * 6
    print(f"{target:14} {int(runs):>12,} {int(rate):>9,} {int(edges):>8,} {int(inputs):>7,} {memory:>5} MB", flush=True)
    if ended.returncode == 0:
        return None
    kept = sorted(set(findings.iterdir()) - before)
    print(f"\n{target}: {finding(text)}\n  the log is {log}")
    if kept:
        print(
            f"  the input is {kept[0]}; to reproduce it:\n  make fuzz ARGS='--target {target} --replay {kept[0]}'\n",
            flush=True,
        )
    return kept[0] if kept else log


def main() -> None:
    parser = argparse.ArgumentParser(prog="make fuzz ARGS=…", description=__doc__)
    parser.add_argument("--target", action="append", choices=TARGETS, help="fuzz only this target; may be repeated")
    seconds = os.environ.get("FUZZ_SECONDS", 60)
    parser.add_argument(
        "--seconds", type=int, default=seconds, help="time for each target (default: FUZZ_SECONDS, or 60)"
    )
    parser.add_argument("--replay", metavar="FILE", help="run the one --target on this input, once")
    parser.add_argument(
        "--minimize", metavar="FILE", help="search for a shorter input that fails the same way, for --seconds"
    )
    options = parser.parse_args()
    if options.replay or options.minimize:
        if len(options.target or []) != 1:
            parser.error("--replay and --minimize require one --target")
        target = options.target[0]
        arguments = [options.replay]
        if options.minimize:
            shorter = f"-exact_artifact_path={BUILD / 'findings' / 'minimized'}"
            arguments = ["-minimize_crash=1", f"-max_total_time={options.seconds}", shorter, options.minimize]
        sys.exit(subprocess.run([BINARY, *LIMITS, *arguments], env=environment(target)).returncode)
    print(f"{'target':14} {'executions':>12} {'a second':>9} {'edges':>8} {'inputs':>7} {'memory':>8}", flush=True)
    broken = [target for target in options.target or TARGETS if fuzz(target, options.seconds)]
    if broken:
        sys.exit(f"fuzz: {', '.join(broken)}: a promise was broken")
    print("fuzz: no promise was broken")


if __name__ == "__main__":
    main()
