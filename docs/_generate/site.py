"""Hooks of `mkdocs build`: the pages of the site that follow from the code, and checks of all pages.

`mkdocs.yml` names this file. `make docs` builds the site.
"""

from __future__ import annotations

import ast
import os
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import hpometrics
from docs._generate import outputs
from docs._generate.markdown import built_in, metric_index, metric_page, output_page
from docs._generate.other_names import also_called

API = {
    "runner": "Sweeps",
    "backends": "Objectives",
    "run": "Runs",
    "space": "Search spaces",
    "results": "Results",
    "selection": "Results",
    "records": "Records",
    "metrics": "Metrics",
    "metrics.features": "Outputs",
    "metrics.additive": "Additive values",
    "metrics.retrieval": "Rankings",
    "metrics.registry.ludwig_names": "Direction",
    "engines": "Engine params",
    "loggers": "Loggers",
    "direction": "Direction",
    "exceptions": "Errors",
}
"""The room of a public name -> the title of its page; the longest room counts."""
_ROOT = Path(__file__).parents[2]
_ELSEWHERE = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+[^)\s#]*)(#[^)\s]*)?\)")
_ASSETS = [Path(__file__).with_name(name) for name in ("worker.js", "site.css")]
_SHIM = re.compile(r'<script src="https://unpkg\.com/iframe-worker/shim[^"]*"></script>')
_DOCTEST = re.compile(r"(?m)(?:^>>> .*\n(?:(?!>>>|\n).*\n?)*)+")
_GLOSSARY = "reference/glossary.md"
TERMS = {
    "engine-params": r"engine params",
    "engine": r"engines?(?! params)",
    "output": r"(?:model|several|one|each|two|its|the|of) outputs?|kinds? of (?:the )?output|output types?",
    "picked": r"picked",
    "split": r"(?:validation|test|own|a|the) splits?",
    "contender": r"contenders?",
    "fresh-run": r"fresh runs?",
    "dimension": r"dimensions?",
    "feasible": r"(?:in)?feasible",
    "knee": r"the knee",
    "row-values": r"row values?",
    "run-directory": r"run director(?:y|ies)",
    "tracked-metric": r"tracked metrics?",
}
"""The words of a term that lead to its place in the glossary."""
_NO_PROSE = re.compile(
    r"(?ms)^ *```.*?^ *```|^    .*?$|`[^`\n]*`|!?\[[^\]]*\]\([^)]*\)|^(?:#|:::|\|).*?$|<[^>\n]*>|\*\*.*?\*\*"
)
"""Code, links, headings, tables and what is bold."""
_SCOREBOARD = "<!-- scoreboard -->"
"""In benchmarks/README.md the table is between two of these; a page has one in its place."""
_HEAD = "## The whole table"
"""The heading above it."""
_SIDE_BY_SIDE = '<div class="grid"'
_IMAGE = re.compile(r"<img(?![^>]*\salt=\"[^\"]+\")[^>]*>")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Replace `API: api` in the navigation by the pages of the API."""
    for section in config.nav or []:
        for entry in next(iter(section.values())) if isinstance(section, dict) else []:
            if isinstance(entry, dict) and entry.get("API") == "api":
                entry["API"] = [{title: _uri(title)} for title in public_names()]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages; two pages of a checkout are replaced by those that lead to other pages."""
    for uri in ("reference/metrics.md", "reference/outputs.md"):
        if (page := files.get_file_from_path(uri)) is not None:
            files.remove(page)
    assets = ((f"assets/{path.name}", path.read_text(encoding="utf8")) for path in _ASSETS)
    for uri, text in (*_pages(), *assets):
        files.append(File.generated(config, uri, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to files outside the site to the repository, PROJECT_URL; without it show their paths.

    The first use of each term of the glossary leads to it. A page may hold the table of the benchmarks.
    """
    folder = posixpath.dirname(page.file.src_uri)
    url = os.environ.get("PROJECT_URL", "").rstrip("/")

    def link(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join("docs", folder, match[2]))
        if path.startswith("docs/"):
            return match[0]
        if not (_ROOT / path).exists():
            raise PluginError(f"{page.file.src_uri}: {match[2]} is not there")
        place = f"{url}/blob/v{hpometrics.__version__}/{path}{match[3] or ''}"
        return f"[{match[1]}]({place})" if url else f"{match[1]} (`{path}`)"

    text = _ELSEWHERE.sub(link, markdown)
    if _SIDE_BY_SIDE in text:  # which needs the width of the contents
        page.meta["hide"] = ["toc"]
    if _SCOREBOARD in text:  # hundreds of numbers, which no search should find
        text = text.replace(_SCOREBOARD, scoreboard()).replace(_HEAD, f"{_HEAD} {{ data-search-exclude }}")
    return text if page.file.src_uri == _GLOSSARY else with_terms(text, posixpath.relpath(_GLOSSARY, folder))


def scoreboard() -> str:
    """Return the table that `benchmarks/scoreboard.py --write` has written."""
    text = (_ROOT / "benchmarks/README.md").read_text(encoding="utf8")
    return text.partition(_SCOREBOARD)[2].partition(_SCOREBOARD)[0].strip()


def with_terms(text: str, glossary: str) -> str:
    """Return a page whose first use of each term, outside of code, links and tables, leads to the glossary.

    >>> print(with_terms("The `engine` of an engine.", "glossary.md"))
    The `engine` of an [engine](glossary.md#engine).
    """
    taken = [match.span() for match in _NO_PROSE.finditer(text)]
    places: list[tuple[int, int, str]] = []
    for anchor, words in TERMS.items():
        pattern = rf"(?i)\b(?:{words})\b".replace(" ", r"\s+")  # lines are filled
        for match in re.finditer(pattern, text):
            if not any(first < match.end() and match.start() < last for first, last in taken):
                places.append((*match.span(), anchor))
                taken.append(match.span())
                break
    for first, last, anchor in sorted(places, reverse=True):
        text = f"{text[:first]}[{text[first:last]}]({glossary}#{anchor}){text[last:]}"
    return text


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Check that each image has a text.

    Raises:
        PluginError: one has none.
    """
    if image := _IMAGE.search(html):
        raise PluginError(f"{page.file.src_uri}: {image[0]} needs an alternative text")
    return html


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Replace the script of the theme that a page would load from elsewhere by `worker.js`.

    Raises:
        PluginError: the page loads something else from elsewhere.
    """
    output = _SHIM.sub(f'<script src="{"../" * page.url.count("/")}assets/worker.js"></script>', output)
    if loaded := re.search(r'<(?:script|link|img|iframe)[^>]*\s(?:src|href)="(?:https?:)?//[^"]*"', output):
        raise PluginError(f"{page.file.src_uri}: {loaded[0]} is loaded from elsewhere")
    return output


def on_post_template(output: str, template_name: str, config: MkDocsConfig) -> str:
    """Leave out the script of the theme that the page of an address that is not there would load."""
    return _SHIM.sub("", output)


class Doctests(griffe.Extension):
    """Shows the examples of a docstring as code; `mkdocs.yml` names it."""

    def on_object(self, *, obj: griffe.Object, **arguments: object) -> None:
        """Add a fence around each example."""
        if obj.docstring is not None:
            text = obj.docstring.value + "\n"
            obj.docstring.value = _DOCTEST.sub(lambda match: f"```pycon\n{match[0]}```\n", text)


def _pages() -> Iterator[tuple[str, str]]:
    """Return the places and texts of the generated pages."""
    yield "reference/metrics.md", metric_index(linked=True)
    yield "reference/outputs.md", outputs.page(linked=True)
    names, feature_types = (sorted({getattr(e, key) for e in built_in()}) for key in ("name", "feature_type"))
    called = also_called()
    yield from ((f"reference/metrics/{name}.md", found_page(name, called.get(name, []))) for name in names)
    yield from ((f"reference/outputs/{name}.md", output_page(name)) for name in feature_types)
    for title, members in public_names().items():
        blocks = (
            f"::: {path}\n    options:\n      heading: {name}\n"
            for name, path in members.items()
            if not name.isupper()
        )
        yield _uri(title), "\n".join([f"# {title}", "", *constants(members), *blocks])


def found_page(name: str, called: Sequence[str]) -> str:
    """Return the page of a metric with its other names, which the search finds, and links to its outputs.

    Args:
        name: of the metric.
        called: the names of the metric in other libraries.
    """
    title, _, sections = metric_page(name).partition("\n")
    features = sorted({entry.feature_type for entry in built_in() if entry.name == name})
    links = ", ".join(f"[{output}](../outputs/{output}.md)" for output in features)
    lines = ["---", "search: {boost: 8}", "---", "", title, ""]
    lines += [f"A metric of {links}; [all metrics from A to Z](../metrics.md).", ""]
    lines += [f"Other libraries call it {', '.join(f'`{word}`' for word in called)}.", ""] if called else []
    return "\n".join(lines) + sections


def constants(members: Mapping[str, str]) -> Iterator[str]:
    """Yield the table of the constants among the public names, if there are any."""
    names = [name for name in members if name.isupper()]
    if names:
        yield from ("| constant | value |", "|---|---|")
        yield from (f"| `{name}` | `{getattr(hpometrics, name)!r}` |" for name in names)
        yield ""


def _uri(title: str) -> str:
    return f"reference/api/{title.lower().replace(' ', '-')}.md"


@cache
def public_names() -> dict[str, dict[str, str]]:
    """Return the public names of each page of the API, with the paths of what they are."""
    stub = Path(hpometrics.__file__).with_suffix(".pyi").read_text(encoding="utf8")
    pages: dict[str, dict[str, str]] = {title: {} for title in API.values()}
    for node in ast.parse(stub).body:
        if isinstance(node, ast.ImportFrom) and node.level:
            room = max(
                (room for room in API if f"{node.module}.".startswith(f"{room}.")), key=len, default=""
            )
            for alias in node.names:
                name = alias.asname or alias.name
                if room:
                    pages[API[room]][name] = f"hpometrics.{node.module}.{alias.name}"
    return pages
