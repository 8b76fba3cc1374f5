"""Words: how texts become tokens, once per batch for all metrics that count them in the same way."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import chain, filterfalse
from string import ascii_lowercase, ascii_uppercase
from typing import Literal, NamedTuple

import numpy as np

from ...exceptions import missing_extra
from ..batch import Outputs

Tokens = Sequence[str]
Tokenizer = Callable[[str], list[str]]
Tokenize = Literal["13a", "char", "none"]

_PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
_SPACED = str.maketrans(_PUNCTUATION, " " * len(_PUNCTUATION))
_FIRST_PLAIN, _LAST_PLAIN = ord(" "), ord("~")  # printable ASCII
_DELETED = str.maketrans("", "", _PUNCTUATION)
END = "."  # closes a text among running words: no word has punctuation
ARTICLES = ("a", "an", "the")
_ENDED = bytes.maketrans(
    f"{_PUNCTUATION}\n{ascii_uppercase}".encode(),
    f"{' ' * len(_PUNCTUATION)}{END}{ascii_lowercase}".encode(),
)
_KEPT_OUT = frozenset(ARTICLES)
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
            cut = iter(_by_text(closed_references(batch)))
        else:
            predictions = [tokenizer(text) for text in batch.texts]
            cut = map(tokenizer, chain.from_iterable(batch.references))
        return Words(predictions, [[next(cut) for _ in row] for row in batch.references])

    return batch.block(f"words {name}", make)


def predicted_words(batch: Outputs) -> list[list[str]]:
    """The block of the normalised words of each prediction, whatever was right."""
    return batch.block("predicted words", lambda batch: _by_text(closed_predictions(batch)))


def closed_predictions(batch: Outputs) -> bytes:
    """The block of all predictions as one closed text."""
    return batch.block("closed predictions", lambda batch: closed(batch.texts))


def closed_references(batch: Outputs) -> bytes:
    """The block of all references as one closed text, row after row."""

    def make(batch: Outputs) -> bytes:
        single = batch.single_references
        return closed(list(chain.from_iterable(batch.references)) if single is None else single)

    return batch.block("closed references", make)


def closed(texts: Sequence[str]) -> bytes:
    """All texts as one, in lower case and without punctuation, each closed by `END`.

    >>> closed(["It's!", "so"])
    b'it s  . so . '
    """
    joined = " \n ".join([*texts, ""])
    if joined.count("\n") > len(texts):  # some have line ends of their own, which only part words
        joined = " \n ".join([*(text.replace("\n", " ") for text in texts), ""])
    lower = (
        joined if joined.isascii() else joined.lower()
    )  # of ASCII the table makes it, in a pass of its own
    return lower.encode("utf-8", "surrogatepass").translate(_ENDED)


def is_plain(text: bytes) -> bool:
    """Whether a closed text is all printable ASCII, so that only spaces part words."""
    letters = np.frombuffer(text, np.uint8)
    return not len(letters) or (int(letters.min()) >= _FIRST_PLAIN and int(letters.max()) <= _LAST_PLAIN)


def running_words(text: bytes) -> list[str]:
    """The words of a closed text; articles that are words of their own are still there.

    >>> running_words(b"the cat . a dog .")
    ['the', 'cat', '.', 'a', 'dog', '.']
    """
    found = text.decode("utf-8", "surrogatepass").split()
    return found if is_plain(text) else _parted(found)


def all_normalised(texts: Sequence[str]) -> list[list[str]]:
    """The words of each normalised text.

    >>> all_normalised(["The cat!", "a dog"])
    [['cat'], ['dog']]
    """
    return _by_text(closed(texts))


def _parted(found: list[str]) -> list[str]:
    """Drop articles beside signs that are no spaces, as in “the”; each distinct word is looked at once."""
    odd = {word: _ARTICLE.sub(" ", word).split() for word in set(found) if not word.isalnum()}
    changed = {word: parts for word, parts in odd.items() if parts != [word]}
    return [part for word in found for part in changed.get(word, (word,))] if changed else found


def _by_text(text: bytes) -> list[list[str]]:
    """The words of a closed text, text by text, without articles."""
    kept = list(filterfalse(_KEPT_OUT.__contains__, running_words(text)))
    texts, start = [], 0
    for _ in range(kept.count(END)):
        end = kept.index(END, start)
        texts.append(kept[start:end])
        start = end + 1
    return texts


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
        return list(filterfalse(_KEPT_OUT.__contains__, spaced.split()))
    return _ARTICLE.sub(" ", spaced).split()


def ngrams(words: Tokens, n: int) -> list[tuple[str, ...]]:
    """Every run of n words, in order.

    >>> ngrams(["to", "be", "or"], 2)
    [('to', 'be'), ('be', 'or')]
    """
    return list(zip(*(words[i:] for i in range(n)), strict=False))


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
