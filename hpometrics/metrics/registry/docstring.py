"""Docstring: the sections that a metric's own words are made of, read once at registration."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field, replace

_TITLES = "Shape Value Raises Formula Deviates Source Args"
_SHARED = ("Args", "Shape", "Value", "Raises")  # what a family shares; the rest is each metric's own
_TITLE = re.compile(rf"(?P<title>{'|'.join(_TITLES.split())}):(?:\s+(?P<text>\S.*))?\Z")


@dataclass(frozen=True)
class Docstring:
    r"""What a metric says of itself in words: a sentence of meaning, prose, and titled sections.

    >>> said = Docstring.of_text("Right rows.\n\nOf rows.\nValue: float in [0, 1];\n    1 is best.")
    >>> said.summary, said.prose, said["Value"], said["Source"]
    ('Right rows.', 'Of rows.', 'float in [0, 1]; 1 is best.', '')
    """

    summary: str
    prose: str
    sections: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, title: str) -> str:
        return self.sections.get(title, "")

    @classmethod
    def of(cls, thing: type) -> Docstring:
        """Read that of a class; what a family shares and it does not say is what its base classes say."""
        own = cls.of_text(inspect.getdoc(thing) or "")
        told = [cls.of_text(inspect.cleandoc(base.__doc__ or "")) for base in thing.__mro__[1:-1]]
        shared = {title: next(filter(None, (base[title] for base in told)), "") for title in _SHARED}
        return replace(own, sections={**shared, **own.sections})

    @classmethod
    def of_text(cls, text: str) -> Docstring:
        """Read a text; what stands behind the first example is not part of it."""
        summary, _, rest = text.partition("\n")
        lines: dict[str, list[str]] = {"": []}
        title = ""
        for line in rest.splitlines():
            if line.startswith(">>>"):
                break
            started = _TITLE.match(line)
            if started:
                title = started["title"]
                line = started["text"] or ""
            elif line and not line[0].isspace():
                title = ""
            lines.setdefault(title, []).append(line)
        told = {title: _joined(held) for title, held in lines.items()}
        return cls(summary.strip(), told.pop(""), told)


def _joined(lines: list[str]) -> str:
    """Join the lines of each paragraph; blank lines between paragraphs stay."""
    paragraphs = "\n".join(line.strip() for line in lines).split("\n\n")
    return "\n\n".join(" ".join(part.split()) for part in paragraphs if part.strip())
