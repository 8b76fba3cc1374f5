"""What an objective shows of itself in a notebook, and the arguments that it refuses."""

from __future__ import annotations

import pytest

from hpometrics import Choice, Float, ListObjective, OptunaObjective, RayObjective, Reported


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


@pytest.mark.parametrize(
    ("kind", "method"), [(OptunaObjective, "optimize"), (RayObjective, "tuner"), (ListObjective, "run")]
)
def test_an_unknown_argument_is_refused_by_name(kind, method):
    """The class that the user called is named; `progress` belongs to the method that searches."""

    def refused(**wrong: object) -> str:
        with pytest.raises(TypeError) as caught:
            kind(lambda params, run: None, {}, metric=Reported("cost", "minimize"), **wrong)
        return str(caught.value)

    name = kind.__name__
    assert refused(progress=True) == f"{name} has no argument 'progress'; pass it to {method}(progress=...)"
    assert refused(patients=3) == f"{name} has no argument 'patients'; did you mean 'patience'?"


def test_a_notebook_prints_short_lines():
    """Of an objective, a run and the best trial: what is optimized, how far it is, and the params."""

    def train(params, run):
        shown.append(repr(run))
        for _ in run.epochs(2):
            run.log(loss=params["lr"])
        shown.append(repr(run))

    shown = []
    objective = ListObjective(train, [{"lr": 0.5}, {"lr": 0.25}], metric=Reported("loss", "minimize"))
    assert repr(objective) == "ListObjective(minimize loss, over a list)"
    best = objective.best(objective.run())
    assert repr(best) == str(best) == "Best(trial 1, epoch 0: loss 0.25 (minimize); lr=0.25)"
    assert shown[:2] == ["Run(minimize loss, 0 epochs)", "Run(minimize loss, 2 epochs, 0.5 at epoch 0)"]
