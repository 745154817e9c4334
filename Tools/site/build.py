#!/usr/bin/env python3
"""Builds the documentation site from the Markdown of this repository: `make site` runs it.

The README becomes the first page. Links to files that are not on the site, such as sources, become plain text. A broken
link, a missing page and an asset of another host are errors.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OUTPUT = ROOT / ".build-site"
PAGES, SITE = OUTPUT / "docs", OUTPUT / "site"
#: Pages outside docs/, with their paths on the site.
OUTSIDE = {"README.md": "index.md", "docs/README.md": "index.md"} | {
    name: name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
}
SECTIONS = {
    "start": "Start", "reference": "Reference", "operate": "Operate", "clients": "Clients", "recipes": "Recipes",
    "envoy": "Envoy", "swift": "Swift", "internals": "Internals",
}  # fmt: skip
FIRST = ("README", "concepts", "install", "locks", "limits", "breakers", "probes", "proxy")
FAVICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24"><rect x="4" y="10" width="16" height="11" rx="2" '
    'fill="#3f51b5"/><path d="M8 10V7a4 4 0 0 1 8 0v3" fill="none" stroke="#3f51b5" stroke-width="2.5"/></svg>'
)

LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
SOURCE = re.compile(r'\b(src|srcset|href)="([^"]+)"')
FENCE = re.compile(r"^ *(```+|~~~+)")
ASSET = re.compile(
    r'<(?:script|img|source|iframe)[^>]* (?:src|srcset)="(https?:)?//|<link[^>]*stylesheet[^>]*"(https?:)?//'
)


def site_path(path: str) -> str | None:
    """Returns the path on the site of a file of the repository; `None` if the site does not have it."""
    if path in OUTSIDE:
        return OUTSIDE[path]
    is_shown = path.startswith("docs/") and (ROOT / path).is_file()
    return path.removeprefix("docs/") if is_shown else None


def site_link(target: str, source: str) -> str | None:
    """Returns a link of the file `source` for the site; `None` if its target is not on the site."""
    if re.match(r"[a-z]+:|#", target):
        return target
    name, _, anchor = target.partition("#")
    path = site_path(os.path.normpath(Path(source).parent / name))
    if path is None:
        return None
    start = Path(site_path(source) or "").parent
    return os.path.relpath(path, start) + (f"#{anchor}" if anchor else "")


def converted(text: str, source: str) -> str:
    """Returns the Markdown of a page with links for the site. Code is unchanged."""

    def link(match: re.Match[str]) -> str:
        target = site_link(match[3], source)
        return f"{match[1]}[{match[2]}]({target})" if target else match[2]

    lines, fence = [], ""
    for line in text.splitlines():
        mark = FENCE.match(line)
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
        elif not fence:
            line = SOURCE.sub(
                lambda match: f'{match[1]}="{site_link(match[2], source) or match[2]}"', LINK.sub(link, line)
            )
        lines.append(line)
    return "\n".join(lines) + "\n"


def copy_pages() -> None:
    shutil.rmtree(OUTPUT, ignore_errors=True)
    listed = subprocess.run(
        ["git", "ls-files", "docs", *OUTSIDE], cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True
    )
    for name in listed.stdout.splitlines():
        target = site_path(name)
        if target is None or name == "docs/README.md":
            continue
        copy = PAGES / target
        copy.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".md"):
            copy.write_text(converted((ROOT / name).read_text(), name))
        else:
            shutil.copy(ROOT / name, copy)
    (PAGES / "favicon.svg").write_text(FAVICON)


def navigation() -> list[object]:
    def order(path: Path) -> tuple[int, str]:
        return (FIRST.index(path.stem) if path.stem in FIRST else len(FIRST), path.stem)

    def entries(folder: str) -> list[str]:
        return [str(path.relative_to(PAGES)) for path in sorted((PAGES / folder).glob("*.md"), key=order)]

    sections: list[object] = [{title: entries(folder)} for folder, title in SECTIONS.items()]
    project = ["architecture.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"]
    return [{"Interlock": "index.md"}, *sections, {"Project": project}]


def main() -> int:
    copy_pages()
    settings = OUTPUT / "mkdocs.yml"
    # JSON is YAML.
    text = (ROOT / "Tools/site/mkdocs.yml").read_text().replace("../../.build-site/", "")
    settings.write_text(f"{text}\nnav: {json.dumps(navigation())}\n")
    result = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--config-file", settings],
        check=False,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )
    if result.returncode:
        return result.returncode
    pages = sorted(SITE.rglob("*.html"))
    outside = [str(path.relative_to(SITE)) for path in pages if ASSET.search(path.read_text())]
    for name in outside:
        print(f"site: {name} loads an asset of another host", file=sys.stderr)
    print(f"site: {len(pages)} pages in {SITE.relative_to(ROOT)}; open {SITE.relative_to(ROOT)}/index.html")
    return int(bool(outside))


if __name__ == "__main__":
    sys.exit(main())
