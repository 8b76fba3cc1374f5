"""A page: a template of a room, filled with facts, in the look that all pages share."""

from __future__ import annotations

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined


def page(folder: str, template: str, **facts: object) -> str:
    """Fill a template; what the facts hold is text and never markup, unless they say so.

    Args:
        folder: of the package that has the template, such as `engines`; `_style.css` is found from all.
        template: its file.
        facts: what it names.
    """
    templates = ChoiceLoader([PackageLoader("hpometrics", place) for place in (folder, ".")])
    pages = Environment(loader=templates, autoescape=True, trim_blocks=True, undefined=StrictUndefined)
    return pages.get_template(template).render(facts)
