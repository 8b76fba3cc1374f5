"""Tokens of texts, once per batch for all metrics with the same tokenizer, and counts of them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, filterfalse
from string import ascii_lowercase, ascii_uppercase
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...exceptions import missing_extra
from ..batch import Outputs
from .statistic import Reduction, Statistic, block

Tokens = Sequence[str]
Tokenizer = Callable[[str], list[str]]
Tokenize = Literal["13a", "char", "none"]

_PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
_SPACED = str.maketrans(_PUNCTUATION, " " * len(_PUNCTUATION))
_FIRST_PLAIN, _LAST_PLAIN = ord(" "), ord("~")  # printable ASCII
_DELETED = str.maketrans("", "", _PUNCTUATION)
END = "."  # closes each of several joined texts: no word has punctuation
ARTICLES = ("a", "an", "the")
_JOINED = bytes.maketrans(
    f"{_PUNCTUATION}\n{ascii_uppercase}".encode(),
    f"{' ' * len(_PUNCTUATION)}{END}{ascii_lowercase}".encode(),
)
_ARTICLES = frozenset(ARTICLES)
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_ALPHANUMERIC = re.compile(r"[a-z0-9]+")

_ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
_SYMBOL = re.compile(r"([!-&(-+/:-@\[-`{-~])")
_AFTER_OTHER = re.compile(r"([^0-9])([.,])")
_BEFORE_OTHER = re.compile(r"([.,])([^0-9])")
_DASH_AFTER_DIGIT = re.compile(r"([0-9])(-)")


class Words(NamedTuple):
    """The tokens of each prediction, and of each reference of each row, of a batch."""

    predictions: Sequence[Sequence[str]]
    references: Sequence[Sequence[Sequence[str]]]


def words(batch: Outputs, name: str, tokenizer: Tokenizer) -> Words:
    """Return the block of a batch's tokens, named after their tokenizer."""

    def make(batch: Outputs) -> Words:
        single = batch.single_references
        if tokenizer is normalized_words:
            predictions = predicted_words(batch)
            cut = iter(_by_text(closed_references(batch)))
        else:
            predictions = list(map(tokenizer, batch.texts))
            cut = map(tokenizer, chain.from_iterable(batch.references) if single is None else single)
        if single is not None:
            return Words(predictions, [(tokens,) for tokens in cut])
        return Words(predictions, [[next(cut) for _ in row] for row in batch.references])

    return batch.block(f"words {name}", make)


@block
def predicted_words(batch: Outputs) -> list[list[str]]:
    """Return the block of the normalized words of each prediction."""
    return _by_text(closed_predictions(batch))


@block
def closed_predictions(batch: Outputs) -> bytes:
    """Return the block of all predictions joined by `join_texts`."""
    return join_texts(batch.texts)


@block
def closed_references(batch: Outputs) -> bytes:
    """Return the block of all references joined by `join_texts`, row after row."""
    single = batch.single_references
    return join_texts(list(chain.from_iterable(batch.references)) if single is None else single)


def join_texts(texts: Sequence[str]) -> bytes:
    """Join texts into one, in lower case and without punctuation, each closed by `END`.

    >>> join_texts(["It's!", "so"])
    b'it s  . so . '
    """
    joined = " \n ".join([*texts, ""])
    if joined.count("\n") > len(texts):  # some contain line ends, which only separate words
        joined = " \n ".join([*(text.replace("\n", " ") for text in texts), ""])
    lower = joined if joined.isascii() else joined.lower()  # the table lowers ASCII
    return lower.encode("utf-8", "surrogatepass").translate(_JOINED)


def is_plain(text: bytes) -> bool:
    """Return whether a joined text is all printable ASCII, so that only spaces separate words."""
    letters = np.frombuffer(text, np.uint8)
    return not len(letters) or (int(letters.min()) >= _FIRST_PLAIN and int(letters.max()) <= _LAST_PLAIN)


def running_words(text: bytes) -> list[str]:
    """Return the words of a joined text, including articles that are words of their own.

    >>> running_words(b"the cat . a dog .")
    ['the', 'cat', '.', 'a', 'dog', '.']
    """
    tokens = text.decode("utf-8", "surrogatepass").split()
    return tokens if is_plain(text) else _split_articles(tokens)


def _split_articles(tokens: list[str]) -> list[str]:
    """Drop articles next to signs other than spaces, as in “the”; each distinct word is checked once."""
    odd = {word: _ARTICLE.sub(" ", word).split() for word in set(tokens) if not word.isalnum()}
    changed = {word: parts for word, parts in odd.items() if parts != [word]}
    return [part for word in tokens for part in changed.get(word, (word,))] if changed else tokens


def _by_text(text: bytes) -> list[list[str]]:
    """Return the words of each text of a joined text, without articles."""
    tokens = list(filterfalse(_ARTICLES.__contains__, running_words(text)))
    texts, start = [], 0
    for _ in range(tokens.count(END)):
        end = tokens.index(END, start)
        texts.append(tokens[start:end])
        start = end + 1
    return texts


def normalized(text: str) -> str:
    """Normalize as ParlAI does: lower case, no ASCII punctuation, no articles, single spaces.

    Punctuation becomes a space, so "don't" is two words; non-ASCII punctuation stays.

    >>> normalized("The cat, a dog; AN owl!")
    'cat dog owl'
    """
    return " ".join(normalized_words(text))


def normalized_words(text: str) -> list[str]:
    """Return the words of `normalized(text)`.

    >>> normalized_words("don't stop")
    ['don', 't', 'stop']
    """
    spaced = text.lower().translate(_SPACED)
    if spaced.isascii() and spaced.isprintable():  # then words end at spaces only
        return list(filterfalse(_ARTICLES.__contains__, spaced.split()))
    return _ARTICLE.sub(" ", spaced).split()


def ngrams(words: Tokens, n: int) -> list[tuple[str, ...]]:
    """Return every run of n words, in order.

    >>> ngrams(["to", "be", "or"], 2)
    [('to', 'be'), ('be', 'or')]
    """
    return list(zip(*(words[i:] for i in range(n)), strict=False))


def squad_words(text: str) -> list[str]:
    """Normalize as SQuAD's evaluation does: punctuation is deleted, so "don't" is one word.

    >>> squad_words("Don't feed the U.S. cat")
    ['dont', 'feed', 'us', 'cat']
    """
    return _ARTICLE.sub(" ", text.lower().translate(_DELETED)).split()


def alphanumeric_words(text: str) -> list[str]:
    """Return lower-case runs of ASCII letters and digits, the tokens of ROUGE.

    >>> alphanumeric_words("It's 3.14!")
    ['it', 's', '3', '14']
    """
    return _ALPHANUMERIC.findall(text.lower())


def stemmed_words(text: str) -> list[str]:
    """Return the tokens of ROUGE, with those of more than three letters reduced to their Porter stem.

    Raises:
        MissingExtraError: NLTK, which provides the stemmer, is not installed.
    """
    try:
        from nltk.stem.porter import PorterStemmer  # type: ignore[import-untyped]  # it ships no types
    except ImportError:
        raise missing_extra("stem=true", "nltk", "text") from None
    stem = PorterStemmer().stem
    return [stem(word) if len(word) > 3 else word for word in alphanumeric_words(text)]


def words_13a(text: str) -> list[str]:
    """Tokenize as WMT's mteval-v13a.pl: punctuation is separate, except inside numbers.

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
    """Return every character except white space.

    >>> characters("a b")
    ['a', 'b']
    """
    return list("".join(text.split()))


TOKENIZERS: dict[str, Tokenizer] = {"13a": words_13a, "char": characters, "none": str.split}
"""The tokenizers for machine translation, by their names in sacrebleu."""


def summary_hits(predicted: Sequence[Tokens], right: Sequence[Tokens]) -> int:
    """Count the tokens of the right sentences on a longest common subsequence with a predicted sentence.

    For each right sentence the subsequences with all predicted ones are united; a token counts no more often
    than it occurs on either side.

    Source: Lin 2004, ACL workshop Text Summarization Branches Out, section 3.2; ROUGE 1.5.5.

    >>> summary_hits([["a", "b", "f"], ["a", "c", "e"]], [["a", "b", "c", "d", "e"]])
    4
    """
    available = Counter(token for sentence in predicted for token in sentence)
    available &= Counter(token for sentence in right for token in sentence)
    hits = 0
    for sentence in right:
        united = sorted(set[int]().union(*(_on_subsequence(sentence, other) for other in predicted)))
        for position in united:
            if available[sentence[position]] > 0:
                available[sentence[position]] -= 1
                hits += 1
    return hits


def _on_subsequence(right: Tokens, predicted: Tokens) -> list[int]:
    """Return the positions in `right` of one longest common subsequence, from the end."""
    table = _lengths(right, predicted)
    row, column = len(right), len(predicted)
    positions = []
    while row and column:
        if right[row - 1] == predicted[column - 1]:
            positions.append(row - 1)
            row, column = row - 1, column - 1
        elif table[row][column - 1] > table[row - 1][column]:
            column -= 1
        else:
            row -= 1
    return positions


def _lengths(right: Tokens, predicted: Tokens) -> list[list[int]]:
    """Return the lengths of the longest common subsequences of all prefixes."""
    table = [[0] * (len(predicted) + 1)]
    for token in right:
        above, row = table[-1], [0]
        for column, other in enumerate(predicted):
            row.append(above[column] + 1 if token == other else max(above[column + 1], row[column]))
        table.append(row)
    return table


class DistinctNgrams(Statistic):
    """The distinct n-grams of the normalized predictions, and the (weighted) count of all.

    An n-gram of texts that together weigh less than 1 counts as much as they weigh; the state holds these
    n-grams separately, with their weights.

    The n-grams are a Python set, so that the cost of an update depends on the batch, not on the corpus; as a
    state they are one tensor of UTF-8, one n-gram per line.

    >>> from hpometrics.metrics.features import Text
    >>> distinct = DistinctNgrams(1)
    >>> distinct.update(Outputs(Text(), predictions=["to be or", "not to be"], target=["", ""]))
    >>> distinct.distinct, distinct.total
    (4, 6.0)
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"ngrams": "own", "total": "own"}
    optional = ("light", "weights")
    weighted: ClassVar[bool] = True
    pools_tasks: ClassVar[bool] = True
    grows: ClassVar[bool] = True
    jackknifes: ClassVar[bool] = False

    def __init__(self, n: int) -> None:
        super().__init__(n=n)

    def reset(self) -> None:
        """Forget every row."""
        super().reset()
        self._ngrams: set[tuple[str, ...]] = set()
        self._light: dict[
            tuple[str, ...], float
        ] = {}  # those of texts that weigh less than 1, with the summed weights
        self.total = 0.0
        self._empty = True

    @property
    def empty(self) -> bool:
        """True until the first row."""
        return self._empty

    @property
    def distinct(self) -> float:
        """The number of distinct n-grams, those of light texts by their weights."""
        light = (min(weight, 1.0) for gram, weight in self._light.items() if gram not in self._ngrams)
        return len(self._ngrams) + math.fsum(light) if self._light else len(self._ngrams)

    def check(self, batch: Outputs) -> None:
        """Read the texts without adding them, so that they may be refused.

        Raises:
            MetricInputError: the predictions are not texts.
        """
        predicted_words(batch)

    def update(self, batch: Outputs) -> None:
        """Add one batch; rows of weight 0 add nothing."""
        n, add = self.params["n"], self._ngrams.update
        weights = [1.0] * len(batch) if batch.weight is None else batch.weight.tolist()
        for text, weight in zip(predicted_words(batch), weights, strict=True):
            if weight:
                grams = ngrams(text, n)
                if weight < 1:
                    self._weigh(grams, weight)
                else:
                    add(grams)
                self.total += weight * len(grams)
        self._empty = False

    def _weigh(self, grams: Iterable[tuple[str, ...]], weight: float) -> None:
        for gram in grams:
            self._light[gram] = self._light.get(gram, 0.0) + weight

    def state(self) -> dict[str, Tensor]:
        """Return the n-grams as one text, and their count; empty before the first row."""
        if self._empty:
            return {}
        total = torch.tensor(self.total, dtype=torch.float64)
        state = {"ngrams": _encode(sorted(self._ngrams)), "total": total}
        if self._light:
            weights = torch.tensor([*self._light.values()], dtype=torch.float64)
            state |= {"light": _encode(self._light), "weights": weights}
        return state

    def merge_state(self, state: Mapping[str, Tensor]) -> None:
        """Merge the `state()` of another statistic."""
        self._check_state(state)
        if state:
            self._ngrams.update(_decode(state["ngrams"]))
            self.total += float(state["total"])
            self._empty = False
        if "light" in state:
            for gram, weight in zip(_decode(state["light"]), state["weights"].tolist(), strict=True):
                self._weigh([gram], weight)

    def to(self, device: torch.device | str) -> None:
        """Do nothing: texts are on no device."""


def _encode(grams: Iterable[tuple[str, ...]]) -> Tensor:
    lines = "\n".join(map(" ".join, grams))
    return torch.from_numpy(np.frombuffer(lines.encode("utf8", "surrogatepass"), np.uint8).copy())


def _decode(encoded: Tensor) -> Iterator[tuple[str, ...]]:
    lines = encoded.cpu().numpy().tobytes().decode("utf8", "surrogatepass")
    return (tuple(line.split(" ")) for line in lines.split("\n") if line)
