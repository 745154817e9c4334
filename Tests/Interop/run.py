"""Tests the sidecar with other software: Redis clients, proxies, a generated HTTP client, and h2spec.

`make test-interop` runs it. A part is skipped, with a reason, if its software is not installed. With CI set in the
environment, a part that Debian or PyPI provides must not be skipped.
"""

import argparse
import os
import sys
import time
from pathlib import Path

import fronts
import generated_client
import h2spec
import redis_clients
import upstreams
from parts import Failure, Part, Skipped

PARTS = [*redis_clients.PARTS, *generated_client.PARTS, *fronts.PARTS, *upstreams.PARTS, *h2spec.PARTS]


def passes(part: Part, binary: Path) -> bool:
    """Runs one part, prints the result, and returns whether it passed or may be skipped."""
    begin = time.monotonic()
    try:
        part.check(binary)
    except Skipped as reason:
        is_failure = part.is_provided and bool(os.environ.get("CI"))
        print(f"interop: {part.name}: SKIPPED: {reason}", flush=True)
        return not is_failure
    except Failure as failure:
        print(f"interop: {part.name}: FAILED: {failure}", flush=True)
        return False
    print(f"interop: {part.name}: ok, {time.monotonic() - begin:.1f} s", flush=True)
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, required=True, help="the sidecar")
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help="run only parts with one of these words in their names"
    )
    options = parser.parse_args()
    selected = [part for part in PARTS if not options.parts or any(word in part.name for word in options.parts)]
    if not selected:
        parser.error(f"no such part; expected one of {', '.join(part.name for part in PARTS)}")
    binary = options.binary.resolve()
    results = [passes(part, binary) for part in selected]
    if not all(results):
        sys.exit("interop: a part failed, or CI skipped one that Debian or PyPI provides")


if __name__ == "__main__":
    main()
