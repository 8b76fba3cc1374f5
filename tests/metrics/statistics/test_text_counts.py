"""Words: the normalizer's every rule, alone and for many texts at once."""

from __future__ import annotations

import builtins

import pytest

from hpometrics.exceptions import MissingExtraError
from hpometrics.metrics.batch import Outputs
from hpometrics.metrics.features import Text
from hpometrics.metrics.statistics.text_counts import is_plain, normalized, predicted_words, stemmed_words

RULES = {
    "The cat, a dog; AN owl!": "cat dog owl",
    "don't stop": "don t stop",
    "U.S.A.": "u s",
    "3.14": "3 14",
    "a_b": "b",
    "A": "",
    "theatre banana": "theatre banana",
    "“the” cat — été": "“ ” cat — été",
    "the\x00cat": "\x00cat",
    "one\ntwo\tthe\x1cthree": "one two three",
    "İstanbul": "i̇stanbul",
}


@pytest.mark.parametrize("text", RULES)
def test_rules(text):
    """Lower case, punctuation to spaces, articles, spaces; curly quotes and dashes stay."""
    assert normalized(text) == RULES[text]


@pytest.mark.parametrize(
    "texts", [list(RULES), [t for t in RULES if t.isascii() and t.isprintable()], [], ["a\nb", "c"]]
)
def test_many_at_once(texts):
    """The short way for plain texts gives what the long way gives."""
    batch = Outputs(Text(), predictions=texts, target=texts)
    assert predicted_words(batch) == [normalized(text).split() for text in texts]


def test_stemming_needs_nltk(monkeypatch):
    """Without NLTK the error says how to get it."""
    original = builtins.__import__

    def without_nltk(name, *args, **kwargs):
        if name.startswith("nltk"):
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_nltk)
    with pytest.raises(MissingExtraError, match=r": pip install 'nltk>="):
        stemmed_words("running")


@pytest.mark.parametrize(("text", "plain"), [(b"", True), (b" ~", True), (b"a\tb", False), (b"\x7f", False)])
def test_plain_is_printable_ascii(text, plain):
    """What is beside it may part words; a closed text has been through UTF-8."""
    assert is_plain(text) is plain
    assert not is_plain(text + "é".encode())
