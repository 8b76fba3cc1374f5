"""Measurements of a data set's own, as ParlAI's guide adds them."""

from __future__ import annotations

from hpometrics import AverageMetric, Teacher


class HelloTeacher(Teacher):
    """How often the model says hello."""

    def __init__(self, word: str) -> None:
        self.word = word

    def custom_evaluation(self, teacher_action, labels, model_response) -> None:
        if "text" not in model_response:
            return
        said = self.word in model_response["text"]
        self.metrics.add("hello_avg", AverageMetric(int(said), 1))


def test_a_teacher_measures_answers():
    """One hello in two answers, none without a text; the base's `__init__` need not be called."""
    teacher = HelloTeacher("hello")
    for answer in ({"text": "hello you"}, {"text": "goodbye"}, {}):
        teacher.custom_evaluation({"text": "hi"}, ("hello",), answer)
    assert teacher.metrics.report() == {"hello_avg": AverageMetric(1, 2)}


def test_teachers_share_nothing():
    """Each has its own measurements."""
    one, other = HelloTeacher("hello"), HelloTeacher("hello")
    one.custom_evaluation({}, None, {"text": "hello"})
    assert other.metrics.report() == {}


def test_the_base_measures_nothing():
    """A task without measurements of its own needs no method."""
    teacher = Teacher()
    teacher.custom_evaluation({"text": "hi"}, ("hello",), {"text": "hello"})
    assert teacher.metrics.report() == {}
