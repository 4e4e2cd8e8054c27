"""The pages as a site that opens from a folder, without a server and without a network: `make docs`.

python -m tests.docs.site dist/docs

The pages are those of the repository, in its tree, so that a link leads to the same file here and there. What they link to and is no
page (a module, a manifest, a folder) becomes one, so the site is whole; the search passes over those. The order of the pages
is the table of the front page. Zensical makes the site, and what is made is read again: each link must lead to a file and a section.
"""

import html
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tests.docs.pages import BLOCK, LINK, PAGES, README, ROOT

WORK = ROOT / ".cache" / "site"
PICTURES = {".png", ".svg"}
UNSEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"
OUTSIDE = re.compile(r"^(?:https?:)?//")
"""What begins so leaves the folder."""

SHIM = re.compile(r'(?<=src=")[^"]*/iframe-worker/shim(?=")')
"""What the theme would have a page fetch so that its search works without a server; ours is in its place."""
WORKER = """\
// A page that is opened from a folder may start no worker, so the program of the search runs in a frame that is not seen.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(address) {
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.documentElement.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => setTimeout(() => this.onmessage && this.onmessage({ data }));
      const program = inside.document.createElement("script");
      program.src = new URL(address, location.href).href;
      this.loaded = new Promise((done) => (program.onload = done));
      inside.document.body.append(program);
    }
    postMessage(data) {
      this.loaded.then(() => this.frame.contentWindow.onmessage({ data }));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
"""

CONFIG: dict[str, Any] = {
    "site_name": "Strandline",
    "site_description": "A lakehouse in which every event is accounted for.",
    "docs_dir": "pages",
    "site_dir": "site",
    "use_directory_urls": False,
    "theme": {
        # Fonts of the machine: those of a theme are fetched from elsewhere.
        "font": False,
        "language": "en",
        "features": [
            "navigation.sections",
            "navigation.top",
            "search.highlight",
            "content.code.copy",
        ],
        "palette": [
            {"media": "(prefers-color-scheme: light)", "scheme": "default"},
            {"media": "(prefers-color-scheme: dark)", "scheme": "slate"},
        ],
    },
    "plugins": [{"search": {}}, {"offline": {}}],
    "markdown_extensions": [
        "tables",
        "sane_lists",
        {"pymdownx.highlight": {"use_pygments": True}},
        "pymdownx.superfences",
    ],
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the front page's table, and the pages that it leads to.

    Args:
        name: What a reader wants, such as `learn`.
        pages: Title and file of each.
    """

    name: str
    pages: Sequence[tuple[str, Path]]


class SiteError(Exception):
    """The site is not whole."""


def table() -> list[Entry]:
    """Return the table of the front page; a row without a name goes on with the one above."""
    rows = [
        line.strip("|").split("|")
        for line in README.read_text().splitlines()
        if line.startswith("| ")
    ]
    seen: set[Path] = set()
    found: list[tuple[str, list[tuple[str, Path]]]] = []
    for first, second in ((row[0].strip(" *"), row[1]) for row in rows[1:]):
        if first:
            found.append((first, []))
        for title, path in re.findall(r"\[([^\]]+)\]\(([^)#]+)\)", second):
            page = (ROOT / path).resolve()
            if page not in seen:  # a second link leads to a section of the same page
                seen.add(page)
                found[-1][1].append((title[0].upper() + title[1:], page))
    return [Entry(name, pages) for name, pages in found]


def place(target: Path) -> str:
    """Return where a file or a folder of the repository is among the pages: a folder and a README are the page ``index.md`` of their folder."""
    # A name that begins with a dot is hidden, and no page.
    name = Path(
        *(
            each.replace(".", "dot-", 1) if each[0] == "." else each
            for each in target.relative_to(ROOT).parts
        )
    )
    if target.is_dir():
        return str(name / "index.md")
    if target.name == "README.md":
        return str(name.with_name("index.md"))
    # A browser shows a text by this ending, and offers to save what has another.
    return str(name) if target.suffix in {".md", *PICTURES} else f"{name}.txt"


def written(page: Path) -> tuple[str, list[Path]]:
    """Return the text of a page with its links led to pages, and the files that they lead to."""
    targets: list[Path] = []

    def led(match: re.Match[str]) -> str:
        if not match["path"] or "://" in match["path"]:
            return match[0]
        target = (page.parent / match["path"]).resolve()
        if not target.exists():
            return match[0]
        targets.append(target)
        way = os.path.relpath(place(target), Path(place(page)).parent)
        return f"]({way}{'#' + match['section'] if match['section'] else ''})"

    text, parts, at = page.read_text(encoding="utf-8"), list[str](), 0
    for block in BLOCK.finditer(text):
        parts += [LINK.sub(led, text[at : block.start()]), block[0]]
        at = block.end()
    return "".join([*parts, LINK.sub(led, text[at:])]), targets


def listed(folder: Path) -> tuple[str, list[Path]]:
    """Return the page of a folder, its own or a list of its files, and what it leads to."""
    if (folder / "README.md").exists():
        return written(folder / "README.md")
    git = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", "."]
    names = subprocess.run(git, cwd=folder, capture_output=True, text=True, check=True).stdout
    files = sorted({folder / name.split("/")[0] for name in names.splitlines()})
    shown = [each for each in files if each.is_file() and each.suffix != ".zip"]
    lines = [f"# {folder.relative_to(ROOT)}", ""]
    for each in shown:
        way = os.path.relpath(place(each), Path(place(folder)).parent)
        lines.append(f"* [{each.name}]({way})")
    return UNSEARCHED + "\n".join(lines) + "\n", shown


def lay_out(folder: Path) -> set[Path]:
    """Write the pages, and all that they lead to, and return what was laid out."""
    done, wanted = set[Path](), [*PAGES]
    while wanted:
        target = wanted.pop()
        # What a folder is called by its first page, it is called itself as well.
        if target in done or (target.is_dir() and target / "README.md" in done):
            continue
        done.add(target)
        to = folder / place(target)
        to.parent.mkdir(parents=True, exist_ok=True)
        if target.suffix in PICTURES:
            shutil.copy(target, to)
            continue
        if target.is_dir() or target.suffix == ".md":
            text, more = listed(target) if target.is_dir() else written(target)
            is_page = target in PAGES
            to.write_text(text if is_page or text.startswith("---") else UNSEARCHED + text)
            wanted += more
        else:
            shutil.copy(target, to)
    return done


def navigation() -> list[Any]:
    """Return the order of the pages, as the front page has them."""
    return [
        {"Strandline": "index.md"},
        *(
            {
                each.name[0].upper() + each.name[1:]: [
                    {title: place(page)} for title, page in each.pages
                ]
            }
            for each in table()
        ),
    ]


def build(to: Path) -> int:
    """Build the site into a folder and return the number of its pages.

    Raises:
        SiteError: A link leads to nothing, or a page asks for something that is not in the folder.
    """
    shutil.rmtree(WORK, ignore_errors=True)
    lay_out(WORK / "pages")
    config = WORK / "mkdocs.yml"
    # JSON is YAML; only the function that names sections has no word there: those of a browser of the repository are wanted.
    text = json.dumps({**CONFIG, "nav": navigation()}, indent=1)
    slugs = '{"toc": {"permalink": true, "slugify": !!python/object/apply:pymdownx.slugs.slugify {"kwds": {"case": "lower"}}}},'
    config.write_text(text.replace('"tables",', f'"tables", {slugs}', 1))
    done = subprocess.run(
        [Path(sys.executable).with_name("zensical"), "build", "--strict", "--config-file", config],
        cwd=WORK,
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SiteError(done.stdout + done.stderr)
    site = WORK / "site"
    (site / "assets" / "worker.js").write_text(WORKER)
    for page in site.rglob("*.html"):
        way = os.path.relpath(site / "assets" / "worker.js", page.parent)
        page.write_text(SHIM.sub(way, page.read_text()))
    if wrong := [*mistakes(site)]:
        raise SiteError("\n".join(wrong))
    shutil.rmtree(to, ignore_errors=True)
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(site, to)
    return sum(1 for _ in site.rglob("*.html"))


class _Read(HTMLParser):
    """What a page leads to, what it needs to be shown, and the names of its sections."""

    def __init__(self, page: Path) -> None:
        """Read a page."""
        super().__init__()
        self.links: list[str] = []
        self.needs: list[str] = []
        self.names: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the attributes that lead somewhere."""
        own = {name: value or "" for name, value in attrs}
        self.names |= {own[name] for name in ("id", "name") if name in own}
        if tag == "a" and "href" in own:
            self.links.append(own["href"])
        elif tag == "link" and own.get("rel") not in {"canonical", "prev", "next"}:
            self.needs.append(own.get("href", ""))
        elif "src" in own:
            self.needs.append(own["src"])


def mistakes(site: Path) -> Iterator[str]:
    """Yield each link of the site that leads to nothing, and each thing of elsewhere that a page asks for."""
    pages = {page: _Read(page) for page in sorted(site.rglob("*.html")) if page.name != "404.html"}
    for page, read in pages.items():
        name = page.relative_to(site)
        yield from (f"{name} asks for {each}" for each in read.needs if OUTSIDE.match(each))
        for link in [*read.links, *(each for each in read.needs if not OUTSIDE.match(each))]:
            path, _, section = html.unescape(link).partition("#")
            if re.match(r"\w+:", path):
                continue
            target = (page.parent / unquote(path.partition("?")[0])).resolve() if path else page
            if not target.is_file():
                yield f"{name} -> {link}: no such file"
            elif section and target in pages and unquote(section) not in pages[target].names:
                yield f"{name} -> {link}: no such section"


def main() -> int:
    """Build it and say where it is."""
    to = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist" / "docs"
    try:
        pages = build(to)
    except SiteError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{pages} pages: open {to / 'index.html'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
