"""The laws as a class of tests that authors of metrics subclass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from .._text import did_you_mean
from ..exceptions import MetricNameError
from ..metrics.sample_data import Draw
from .laws import LAWS, LawBroken
from .subjects import Subject, subjects_of

Law = Callable[[Subject], None]


class MetricLaws:
    """One test for each law, over every use of a metric; pytest collects the subclass.

        class TestTokenDistance(MetricLaws):
            metric = "token_distance"
            feature_type = SEQUENCE
            exempt = {"check_repetition": "it counts pairs of rows"}

    Attributes:
        metric: the registered name.
        feature_type: the feature type of the entry, if the name has several.
        source: a function that draws its batches; None: those of the feature, or the metric's `draw_batch`.
        exempt: laws that it breaks by nature, each with the reason; a law that it keeps may not be listed.
    """

    metric: ClassVar[str]
    feature_type: ClassVar[str | None] = None
    source: ClassVar[Draw | None] = None
    exempt: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def subjects(cls) -> tuple[Subject, ...]:
        """Return every use of the metric.

        Raises:
            MetricNameError: `metric` is not a name.
            LawBroken: `exempt` has a name that is not a law.
        """
        metric = getattr(cls, "metric", None)
        if not isinstance(metric, str):
            raise MetricNameError(
                f"{cls.__name__}.metric must be the name of a registered metric, got {metric!r}"
            )
        names = [law.__name__ for law in LAWS]
        if unknown := sorted(cls.exempt.keys() - set(names)):
            raise LawBroken(
                f"{cls.__name__}.exempt: there is no law {unknown[0]}{did_you_mean(unknown[0], names)}"
            )
        return subjects_of(metric, cls.feature_type, cls.source)


def _test_of(law: Law) -> Callable[[MetricLaws], None]:
    def test(self: MetricLaws) -> None:
        subjects, is_exempt = self.subjects(), law.__name__ in self.exempt
        try:
            for subject in subjects:
                law(subject)
        except LawBroken:
            if is_exempt:
                return
            raise
        if is_exempt:
            raise LawBroken(
                f"{subjects[0].entry} is exempt from {law.__name__} but satisfies it; remove the exemption"
            )

    test.__doc__ = law.__doc__
    return test


for _law in LAWS:
    setattr(MetricLaws, _law.__name__.replace("check_", "test_"), _test_of(_law))
