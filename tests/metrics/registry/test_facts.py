from __future__ import annotations

from typing import Literal

import pytest

from hpometrics.direction import MAXIMIZE, MINIMIZE, UNSTATED
from hpometrics.exceptions import RegistrationError
from hpometrics.metrics.features import LOGITS, PREDICTIONS, PROBABILITIES
from hpometrics.metrics.metric import LudwigMetric, MeanMetric, Metric
from hpometrics.metrics.registry.facts import Docstring, facts_of


class ByAttributes(MeanMetric):
    direction = MAXIMIZE
    inputs = PREDICTIONS


class ByClassmethods(LudwigMetric):
    def compute(self):
        return self.undefined("it measures nothing")

    @classmethod
    def get_objective(cls):
        return MAXIMIZE

    @classmethod
    def get_inputs(cls):
        return PREDICTIONS


class ByLudwigsAttribute(MeanMetric):
    objective = MAXIMIZE
    inputs = PREDICTIONS


class ByWords(MeanMetric):
    direction = "max"
    inputs = "predictions"


class Silent(MeanMetric):
    pass


class Torn(MeanMetric):
    direction = MINIMIZE
    inputs = PREDICTIONS

    @classmethod
    def get_objective(cls):
        return MAXIMIZE


class TornInLudwigsWords(MeanMetric):
    direction = MAXIMIZE
    objective = MINIMIZE
    inputs = PREDICTIONS


class TornByBoth(MeanMetric):
    objective = MINIMIZE
    inputs = PREDICTIONS

    @classmethod
    def get_objective(cls):
        return MAXIMIZE


@pytest.mark.parametrize("cls", [ByAttributes, ByLudwigsAttribute, ByClassmethods, ByWords, None])
def test_facts_may_be_stated_in_any_of_four_ways(cls):
    """Attributes, Ludwig's, classmethods or arguments: afterwards all say the same, and torchmetrics' too."""
    given = (MAXIMIZE, PREDICTIONS) if cls is None else (UNSTATED, UNSTATED)
    cls = cls or type("Unsaid", (MeanMetric,), {})
    facts = facts_of(cls, "m", *given)
    assert (facts.direction, facts.inputs) == (MAXIMIZE, PREDICTIONS)
    assert (cls.direction, cls.inputs) == (cls.get_objective(), cls.get_inputs()) == (MAXIMIZE, PREDICTIONS)
    assert cls.objective is cls().objective is cls().get_objective() is MAXIMIZE
    assert cls.higher_is_better is True


@pytest.mark.parametrize(
    ("cls", "arguments", "message"),
    [
        (
            Silent,
            (UNSTATED, PREDICTIONS),
            r"m \(Silent\) does not state its direction, which has no default",
        ),
        (
            Silent,
            (MAXIMIZE, UNSTATED),
            r"m \(Silent\) does not state its inputs, which has no default; set inputs = PREDICTIONS, PROB",
        ),
        (Torn, (UNSTATED, UNSTATED), "attribute direction says minimize but get_objective.* says maximize"),
        (
            TornInLudwigsWords,
            (UNSTATED, UNSTATED),
            "attribute direction says maximize but the attribute objective says minimize",
        ),
        (TornByBoth, (UNSTATED, UNSTATED), "attribute objective says minimize but get_objective.* maximize"),
        (
            type("Ludwigs", (MeanMetric,), {"objective": MAXIMIZE, "inputs": PREDICTIONS}),
            (MINIMIZE, UNSTATED),
            "register_metric says minimize but the attribute objective says maximize",
        ),
        (ByAttributes, (MINIMIZE, UNSTATED), "register_metric says minimize but the attribute .* maximize"),
        (
            ByAttributes,
            (None, UNSTATED),
            "register_metric says None but the attribute direction says maximize",
        ),
        (ByAttributes, (UNSTATED, LOGITS), "register_metric says logits but the attribute .* predictions"),
        (Silent, ("upwards", PREDICTIONS), "a direction must be 'minimize' or 'maximize', got 'upwards'"),
        (Silent, (MAXIMIZE, "scores"), "'scores' is not a valid InputType"),
    ],
)
def test_facts_that_are_missing_or_disagree_are_refused(cls, arguments, message):
    """The error names the class, the places and what each of them says."""
    with pytest.raises(RegistrationError, match=message):
        facts_of(cls, "m", *arguments)


@pytest.mark.parametrize("name", ["F1", "1f", "f-1", "f1 ", "", "f1(average=macro)", "fé"])
def test_a_canonical_name_is_lower_case(name):
    """Names that the grammar would not print as a bare word are refused."""
    with pytest.raises(RegistrationError, match=r"lower case, \[a-z\]\[a-z0-9_\]\*, got"):
        facts_of(ByAttributes, name)


def test_a_subclass_may_turn_its_parent_around():
    """The class that speaks last is heard, by every accessor, whichever way parent and child speak."""
    child = type("Child", (ByClassmethods,), {"direction": MINIMIZE, "inputs": PROBABILITIES})
    facts_of(child, "m")
    assert (child.direction, child.get_objective()) == (MINIMIZE, MINIMIZE)
    assert (child.inputs, child.get_inputs()) == (PROBABILITIES, PROBABILITIES)
    assert child.higher_is_better is False
    assert ByClassmethods.get_objective() is MAXIMIZE


@pytest.mark.parametrize("parent", [ByAttributes, ByLudwigsAttribute, ByClassmethods, TornInLudwigsWords])
@pytest.mark.parametrize(
    "own",
    [{"direction": MINIMIZE}, {"objective": "min"}, {"get_objective": classmethod(lambda cls: MINIMIZE)}],
    ids=["direction", "objective", "get_objective"],
)
def test_in_ludwigs_words_a_subclass_may_turn_its_parent_around(parent, own):
    """Nothing that the parent says by another name is read of the child, registered or not."""
    for write in (lambda cls: facts_of(cls, "m"), lambda cls: cls()):
        child = type("Child", (parent,), {**own, "inputs": PREDICTIONS})
        write(child)
        assert child.direction is child.objective is child.get_objective() is MINIMIZE
        assert child().direction is child().objective is child().get_objective() is MINIMIZE
        assert child.higher_is_better is False


def test_no_direction_is_a_statement():
    """`direction = None` is measured, never optimized: neither higher nor lower is better."""
    cls = type("Rows", (Metric,), {"direction": None, "inputs": PREDICTIONS})
    assert facts_of(cls, "m").direction is None
    assert cls.higher_is_better is None


class Many(ByAttributes):
    """Say one thing.

    Shape:
        preds, target: (N,).
    Value: float in [0, 1], no unit,
        1 is best.
    Source: Somebody 1999.
    """

    def __init__(
        self,
        *,
        average: Literal["micro", "macro"],
        k: int = 3,
        beta: float = 1.0,
        mark: str = "x",
        strict: bool = False,
        odd: object = None,
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)


def test_parameters_and_doc_are_read_from_the_class():
    """Annotations give kinds and choices, defaults what is required, the docstring what is printed."""
    facts = facts_of(Many, "m")
    assert [(p.name, p.kind, p.default, p.required, p.choices) for p in facts.params] == [
        ("average", "str", None, True, ("micro", "macro")),
        ("k", "int", 3, False, ()),
        ("beta", "float", 1.0, False, ()),
        ("mark", "str", "x", False, ()),
        ("strict", "bool", False, False, ()),
        ("odd", "any", None, False, ()),
    ]
    assert facts.summary == "Say one thing."
    assert facts.value == "float in [0, 1], no unit, 1 is best."
    assert facts.source == "Somebody 1999."


class Told(ByAttributes):
    """Say one thing.

    Some prose of `Told`.
    Shape: preds, target: (N,).
    Formula: `a / b`
    Raises:
        MetricInputError: always.
    Deviates: elsewhere it is 2.
    """

    reads_soft = True
    requires = "audio"
    family = "talk"

    def get_current_value(self, preds, target, lengths, mask=None):
        return preds


def test_what_a_class_declares_and_reads_is_known():
    """Class attributes, the extra arguments of its update (needed or not), the sections of its docstring."""
    facts = facts_of(Told, "m")
    assert (facts.extras, facts.needs) == (("lengths", "mask"), ("lengths",))
    assert (facts.reads_soft, facts.requires, facts.families) == (True, "audio", ("talk", "test_facts"))
    assert (facts.docs, facts.formula) == ("Some prose of `Told`.", "`a / b`")
    assert (facts.raises, facts.deviates) == ("MetricInputError: always.", "elsewhere it is 2.")


def test_extras_of_a_metric_over_statistics_are_declared():
    """`extras` names what it reads from a batch."""
    cls = type("Own", (Metric,), {"direction": None, "inputs": PREDICTIONS, "extras": ("indexes",)})
    facts = facts_of(cls, "m")
    assert facts.extras == facts.needs == ("indexes",)


TEXT = """One sentence.

Prose over
two lines.

More prose.

Shape:
    preds: (N,) float.
    target: (N,) int.
Value: float in [0, 1], no unit,
    1 is best.
Deviates: elsewhere it is 2.
Behind a section prose goes on.

>>> 1 + 1
2
Source: not part of it.
"""


@pytest.mark.parametrize(
    ("title", "text"),
    [
        ("Shape", "preds: (N,) float. target: (N,) int."),
        ("Value", "float in [0, 1], no unit, 1 is best."),
        ("Deviates", "elsewhere it is 2."),
        ("Source", ""),
    ],
)
def test_a_section_is_its_lines_joined(title, text):
    """On the line of its title or below it, indented; what stands behind the example is none."""
    assert Docstring.of_text(TEXT)[title] == text


def test_prose_is_what_is_in_no_section():
    """Paragraphs are kept apart, lines are joined."""
    said = Docstring.of_text(TEXT)
    assert said.summary == "One sentence."
    assert said.prose == "Prose over two lines.\n\nMore prose.\n\nBehind a section prose goes on."


def test_a_class_without_words_says_nothing():
    """Every part is empty, none is missing."""
    silent = Docstring.of(type("Silent", (), {}))
    assert (silent.prose, silent["Value"]) == ("", "")


class Family:
    """What a family shares.

    Shape: (N,) int.
    Value: float in [0, 1].
    Formula: a / b
    """


class Member(Family):
    """One of them.

    Value: float from 0.
    """


def test_what_a_family_shares_is_said_once():
    """A member says what is its own; the shape is the family's, the formula is each one's own."""
    said = Docstring.of(Member)
    assert (said.summary, said["Shape"], said["Value"]) == ("One of them.", "(N,) int.", "float from 0.")
    assert said["Formula"] == "" and Docstring.of(Family)["Formula"] == "a / b"
