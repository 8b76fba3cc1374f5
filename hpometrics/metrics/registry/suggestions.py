"""Suggestions for unknown names: the nearest name, or the meaning of the word in other libraries."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ..._text import nearest
from ...direction import MINIMIZE
from .aliases import NEGATED, meaning_elsewhere, not_here
from .index import alias_meaning, entries_of

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_TASKS = re.compile(r"(?:binary|multiclass|multilabel)_")
_ENDS = re.compile(r"_(?:score|display|matrix)\Z")
_SPLIT_OF_A_LOG = re.compile(r"(?:(?:val|valid|validation|eval|dev|test|train|mean|avg|best)[_/])+")
_SHORTEST, _NEAR, _NEAR_OF_SHORT = 6, 0.75, 0.6  # how alike a word is that may have been meant


def suggestion(word: str, candidates: Iterable[str], likeness: bool = True) -> str:
    """Return ` Did you mean ...?` for the nearest name, case and hyphens aside; empty if none is near.

    Among names that differ in case or hyphens only, the lowercase one without hyphens is suggested. A prefix
    of logs, as in `val_accuracy` or `mean_accuracy`, is ignored if no name has it.

    Args:
        word: the word as it was written.
        candidates: the names to choose from.
        likeness: whether to suggest a name that only resembles the word.
    """
    if negated := NEGATED.match(word):
        hint = suggestion(negated["name"], candidates, likeness=False)
        named = re.search(r"'(\w+)", hint)
        directions = {entry.direction for entry in (entries_of(named[1], None) if named else ())}
        less = ", so lower is better" if directions == {MINIMIZE} else ""
        return hint and f"{hint} It is not negated here{less}."
    ordered = sorted(candidates, key=lambda name: (name.islower(), "-" not in name))
    folded = {name.lower().replace("-", "_"): name for name in ordered}
    plain = _TASKS.sub("", _HUMP.sub("_", word).lower().replace("-", "_"))
    bare = _SPLIT_OF_A_LOG.sub("", plain) if plain not in folded else plain
    called = next(
        (meaning for one in (plain, word, bare) if (meaning := meaning_elsewhere(one)) is not None), None
    )
    if called is None and (absent := not_here(word) or not_here(_HUMP.sub("_", word))):
        return absent
    if called == "" or (called and re.split("[(@]", called)[0] in folded):
        return hint_name(called)
    readings = dict.fromkeys((word.lower(), plain, _ENDS.sub("", plain), bare, _ENDS.sub("", bare)))
    near = _NEAR if len(plain) >= _SHORTEST else _NEAR_OF_SHORT
    exact = [one for one in readings if one in folded]
    like = filter(None, (nearest(one, folded, near) for one in readings))
    close = exact[0] if exact else next(like, None) if likeness else None
    return hint_name(folded[close] if close else None)


def hint_name(name: str | None) -> str:
    """Return ` Did you mean ...?` for a name; empty for None."""
    return f" Did you mean {name!r}?" if name else ""


def meaning_on_other_outputs(word: str, feature_type: str | None) -> str:
    """Return a sentence on a name of other libraries whose metric this output does not have; else empty.

    >>> meaning_on_other_outputs("hr", "binary")
    " It is 'hit_rate', a metric of ranking."
    """
    if feature_type is None:
        return ""
    negated = NEGATED.match(word)
    plain = negated["name"] if negated else word
    called = next(filter(None, map(meaning_elsewhere, _readings(plain))), None)
    if called is None and negated:
        called = alias_meaning(plain.lower(), None) or plain.lower()
    metric = re.split("[(@]", called)[0] if called else ""
    outputs = [entry.feature_type for entry in entries_of(metric, None)]
    if not outputs or feature_type in outputs:
        return ""
    return f" It is {called!r}, a metric of {', '.join(outputs)}."


def _readings(word: str) -> Iterator[str]:
    """Yield a word in lower case: with underscores between its parts, as it is, without a prefix of logs."""
    plain = _TASKS.sub("", _HUMP.sub("_", word).lower().replace("-", "_"))
    yield from dict.fromkeys((plain, word.lower(), _SPLIT_OF_A_LOG.sub("", plain)))
