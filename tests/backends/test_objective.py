"""What an objective shows of itself in a notebook."""

from __future__ import annotations

import pytest

from hpometrics import Choice, Float, OptunaObjective, RayObjective, Reported


@pytest.mark.parametrize("kind", [OptunaObjective, RayObjective])
def test_an_objective_is_a_table_in_a_notebook(kind):
    """The metric with its direction, and the space; a text of it is no markup."""
    space = {"x": Float(0, 1, log=False), "k": Choice(["<a>", "b"])}
    made = kind(lambda params, run: None, space, metric=Reported("cost", "minimize"))
    assert made._repr_html_() == (
        "<table><caption>minimize cost</caption><tr><th>param</th><th>kind</th><th></th></tr>"
        "<tr><td>x</td><td>float</td><td>low 0.0, high 1.0</td></tr>"
        "<tr><td>k</td><td>choice</td><td>options (&#x27;&lt;a&gt;&#x27;, &#x27;b&#x27;)</td></tr></table>"
    )
