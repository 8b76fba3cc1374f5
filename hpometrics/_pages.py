"""Render HTML pages from templates that share one style."""

from __future__ import annotations


def page(folder: str, template: str, **facts: object) -> str:
    """Render a template; values are escaped as text unless they are `Markup`.

    Args:
        folder: the folder of the package with the template, such as `engines`; all can load `_style.css`.
        template: the name of its file.
        facts: the values that it uses.
    """
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined  # of those who write pages

    templates = ChoiceLoader([PackageLoader("hpometrics", place) for place in (folder, ".")])
    pages = Environment(loader=templates, autoescape=True, trim_blocks=True, undefined=StrictUndefined)
    return pages.get_template(template).render(facts)
