"""Words: how texts become tokens, once per batch for all metrics that count them in the same way."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import filterfalse
from typing import Literal, NamedTuple

from ...exceptions import missing_extra
from ..outputs import Outputs

Tokens = Sequence[str]
Tokenizer = Callable[[str], list[str]]
Tokenize = Literal["13a", "char", "none"]

_PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
_SPACED = str.maketrans(_PUNCTUATION, " " * len(_PUNCTUATION))
_NO_LINE_ENDS = str.maketrans("\n", " ")
_DELETED = str.maketrans("", "", _PUNCTUATION)
_ARTICLES = frozenset(("a", "an", "the"))
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_ALPHANUMERIC = re.compile(r"[a-z0-9]+")

_ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
_SYMBOL = re.compile(r"([!-&(-+/:-@\[-`{-~])")
_AFTER_OTHER = re.compile(r"([^0-9])([.,])")
_BEFORE_OTHER = re.compile(r"([.,])([^0-9])")
_DASH_AFTER_DIGIT = re.compile(r"([0-9])(-)")


class Words(NamedTuple):
    """The tokens of a batch: of each prediction, and of each reference of each row."""

    predictions: list[list[str]]
    references: list[list[list[str]]]


def words(batch: Outputs, name: str, tokenizer: Tokenizer) -> Words:
    """The block of a batch's tokens under the name of their tokenizer."""

    def make(batch: Outputs) -> Words:
        if tokenizer is normalised_words:
            predictions = predicted_words(batch)
        else:
            predictions = [tokenizer(text) for text in batch.texts]
        right = [text for row in batch.references for text in row]
        cut = iter(all_normalised(right) if tokenizer is normalised_words else map(tokenizer, right))
        return Words(predictions, [[next(cut) for _ in row] for row in batch.references])

    return batch.block(f"words {name}", make)


def predicted_words(batch: Outputs) -> list[list[str]]:
    """The block of the normalised words of each prediction, whatever was right."""
    return batch.block("predicted words", lambda batch: all_normalised(batch.texts))


def all_normalised(texts: Sequence[str]) -> list[list[str]]:
    """The words of each normalised text: of plain texts all at once, which is much faster.

    >>> all_normalised(["The cat!", "a dog"])
    [['cat'], ['dog']]
    """
    joined = "\n".join(texts)
    if not joined.isascii() or not joined.translate(_NO_LINE_ENDS).isprintable():
        return [normalised_words(text) for text in texts]
    lines = joined.lower().translate(_SPACED).split("\n")
    if len(lines) != len(texts):  # one of them has line ends of its own
        return [normalised_words(text) for text in texts]
    return [list(filterfalse(_ARTICLES.__contains__, line.split())) for line in lines]


def normalised(text: str) -> str:
    """Normalise as ParlAI does: lower case, no ASCII punctuation, no articles, single spaces.

    Punctuation becomes a space, so "don't" is two words; other than ASCII punctuation stays.

    >>> normalised("The cat, a dog; AN owl!")
    'cat dog owl'
    """
    return " ".join(normalised_words(text))


def normalised_words(text: str) -> list[str]:
    """The words of `normalised(text)`.

    >>> normalised_words("don't stop")
    ['don', 't', 'stop']
    """
    spaced = text.lower().translate(_SPACED)
    if spaced.isascii() and spaced.isprintable():  # then words end at spaces only
        return list(filterfalse(_ARTICLES.__contains__, spaced.split()))
    return _ARTICLE.sub(" ", spaced).split()


def squad_words(text: str) -> list[str]:
    """Normalise as SQuAD's evaluation does: punctuation is deleted, so "don't" is one word.

    >>> squad_words("Don't feed the U.S. cat")
    ['dont', 'feed', 'us', 'cat']
    """
    return _ARTICLE.sub(" ", text.lower().translate(_DELETED)).split()


def alphanumeric_words(text: str) -> list[str]:
    """Lower-case runs of ASCII letters and digits: the tokens of ROUGE.

    >>> alphanumeric_words("It's 3.14!")
    ['it', 's', '3', '14']
    """
    return _ALPHANUMERIC.findall(text.lower())


def stemmed_words(text: str) -> list[str]:
    """The tokens of ROUGE, those of more than three letters cut to their Porter stem.

    Raises:
        MissingExtraError: NLTK, which has the stemmer, is not installed.
    """
    try:
        from nltk.stem.porter import PorterStemmer  # type: ignore[import-untyped]  # it ships no types
    except ImportError:
        raise missing_extra("stem=true", "nltk", "text") from None
    stem = PorterStemmer().stem
    return [stem(word) if len(word) > 3 else word for word in alphanumeric_words(text)]


def words_13a(text: str) -> list[str]:
    """Tokens as WMT's mteval-v13a.pl cuts them: punctuation apart, but inside numbers.

    >>> words_13a("It costs 3.50, he said.")
    ['It', 'costs', '3.50', ',', 'he', 'said', '.']
    """
    line = text.rstrip().replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
    if "&" in line:
        for entity, character in _ENTITIES:
            line = line.replace(entity, character)
    line = _SYMBOL.sub(r" \1 ", f" {line} ")
    line = _AFTER_OTHER.sub(r"\1 \2 ", line)
    line = _BEFORE_OTHER.sub(r" \1 \2", line)
    return _DASH_AFTER_DIGIT.sub(r"\1 \2 ", line).split()


def characters(text: str) -> list[str]:
    """Every character that is no white space.

    >>> characters("a b")
    ['a', 'b']
    """
    return list("".join(text.split()))


TOKENIZERS: dict[str, Tokenizer] = {"13a": words_13a, "char": characters, "none": str.split}
"""The tokenizers of machine translation, by sacrebleu's names."""
