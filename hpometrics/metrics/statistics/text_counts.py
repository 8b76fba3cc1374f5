"""Words: how texts become tokens, once per batch for all metrics that count them in the same way."""

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
from .statistic import Reduction, Statistic

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
        if tokenizer is normalized_words:
            predictions = predicted_words(batch)
            cut = iter(_by_text(closed_references(batch)))
        else:
            predictions = [tokenizer(text) for text in batch.texts]
            cut = map(tokenizer, chain.from_iterable(batch.references))
        return Words(predictions, [[next(cut) for _ in row] for row in batch.references])

    return batch.block(f"words {name}", make)


def predicted_words(batch: Outputs) -> list[list[str]]:
    """The block of the normalized words of each prediction, whatever was right."""
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


def all_normalized(texts: Sequence[str]) -> list[list[str]]:
    """The words of each normalized text.

    >>> all_normalized(["The cat!", "a dog"])
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


def normalized(text: str) -> str:
    """Normalize as ParlAI does: lower case, no ASCII punctuation, no articles, single spaces.

    Punctuation becomes a space, so "don't" is two words; other than ASCII punctuation stays.

    >>> normalized("The cat, a dog; AN owl!")
    'cat dog owl'
    """
    return " ".join(normalized_words(text))


def normalized_words(text: str) -> list[str]:
    """The words of `normalized(text)`.

    >>> normalized_words("don't stop")
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
    """Normalize as SQuAD's evaluation does: punctuation is deleted, so "don't" is one word.

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


def summary_hits(predicted: Sequence[Tokens], right: Sequence[Tokens]) -> int:
    """The tokens of the right sentences that lie on a longest common subsequence with a predicted sentence.

    For each right sentence the subsequences with all predicted ones are united; a token counts no more often
    than it occurs on either side.

    Source: Lin 2004, ACL workshop Text Summarization Branches Out, section 3.2; ROUGE 1.5.5.

    >>> summary_hits([["a", "b", "f"], ["a", "c", "e"]], [["a", "b", "c", "d", "e"]])
    4
    """
    left = Counter(token for sentence in predicted for token in sentence)
    left &= Counter(token for sentence in right for token in sentence)
    hits = 0
    for sentence in right:
        united = sorted(set[int]().union(*(_on_subsequence(sentence, other) for other in predicted)))
        for place in united:
            if left[sentence[place]] > 0:
                left[sentence[place]] -= 1
                hits += 1
    return hits


def _on_subsequence(right: Tokens, predicted: Tokens) -> list[int]:
    """The places in `right` of one longest common subsequence, read from the end."""
    table = _lengths(right, predicted)
    row, column = len(right), len(predicted)
    places = []
    while row and column:
        if right[row - 1] == predicted[column - 1]:
            places.append(row - 1)
            row, column = row - 1, column - 1
        elif table[row][column - 1] > table[row - 1][column]:
            column -= 1
        else:
            row -= 1
    return places


def _lengths(right: Tokens, predicted: Tokens) -> list[list[int]]:
    """The lengths of the longest common subsequences of all prefixes."""
    table = [[0] * (len(predicted) + 1)]
    for token in right:
        above, row = table[-1], [0]
        for column, other in enumerate(predicted):
            row.append(above[column] + 1 if token == other else max(above[column + 1], row[column]))
        table.append(row)
    return table


class DistinctNgrams(Statistic):
    """The n-grams of the predicted texts, normalized: each once, and the (weighted) count of all.

    An n-gram of texts that weigh less than 1 together counts as much as they weigh. The state then has these
    n-grams apart, with their weights.

    The set is kept as Python holds it, so that adding costs what the batch has, not what the corpus has; as
    a state it is one tensor of UTF-8, an n-gram a line.

    >>> from hpometrics.metrics.features import Text
    >>> distinct = DistinctNgrams(1)
    >>> distinct.update(Outputs(Text(), predictions=["to be or", "not to be"], target=["", ""]))
    >>> distinct.distinct, distinct.total
    (4, 6.0)
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"ngrams": "own", "total": "own"}
    weighted: ClassVar[bool] = True
    pools_tasks: ClassVar[bool] = True
    grows: ClassVar[bool] = True

    def __init__(self, n: int) -> None:
        super().__init__(n=n)
        self.reset()

    def reset(self) -> None:
        """Forget every row."""
        super().reset()
        self._seen: set[tuple[str, ...]] = set()
        self._light: dict[tuple[str, ...], float] = {}  # those of texts that weigh less than 1, with the sum
        self.total = 0.0
        self._empty = True

    @property
    def empty(self) -> bool:
        """True until the first row."""
        return self._empty

    @property
    def distinct(self) -> float:
        """How many different n-grams there are."""
        light = (min(weight, 1.0) for gram, weight in self._light.items() if gram not in self._seen)
        return len(self._seen) + math.fsum(light) if self._light else len(self._seen)

    def check(self, batch: Outputs) -> None:
        """Read the texts; nothing is added yet, so that they may be refused.

        Raises:
            MetricInputError: they are none.
        """
        predicted_words(batch)

    def update(self, batch: Outputs) -> None:
        """Add one batch; rows of weight 0 add nothing."""
        n, see = self.params["n"], self._seen.update
        weights = [1.0] * len(batch) if batch.weight is None else batch.weight.tolist()
        for text, weight in zip(predicted_words(batch), weights, strict=True):
            if weight:
                found = ngrams(text, n)
                if weight < 1:
                    self._weigh(found, weight)
                else:
                    see(found)
                self.total += weight * len(found)
        self._empty = False

    def _weigh(self, found: Iterable[tuple[str, ...]], weight: float) -> None:
        for gram in found:
            self._light[gram] = self._light.get(gram, 0.0) + weight

    def state(self) -> dict[str, Tensor]:
        """The n-grams as one text and their count; empty before the first row."""
        if self._empty:
            return {}
        total = torch.tensor(self.total, dtype=torch.float64)
        state = {"ngrams": _encoded(sorted(self._seen)), "total": total}
        if self._light:
            weights = torch.tensor([*self._light.values()], dtype=torch.float64)
            state |= {"light": _encoded(self._light), "weights": weights}
        return state

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Replace what was seen by that of a state."""
        self.reset()
        self.merge_state(state)

    def merge_state(self, state: Mapping[str, Tensor]) -> None:
        """Take in what `state()` of another one gave."""
        self._check_state({name: state[name] for name in state if name not in ("light", "weights")})
        if state:
            self._seen.update(_decoded(state["ngrams"]))
            self.total += float(state["total"])
            self._empty = False
        if "light" in state:
            for gram, weight in zip(_decoded(state["light"]), state["weights"].tolist(), strict=True):
                self._weigh([gram], weight)

    def to(self, device: torch.device | str) -> None:
        """Stay: texts are on no device."""


def _encoded(grams: Iterable[tuple[str, ...]]) -> Tensor:
    lines = "\n".join(map(" ".join, grams))
    return torch.from_numpy(np.frombuffer(lines.encode("utf8", "surrogatepass"), np.uint8).copy())


def _decoded(encoded: Tensor) -> Iterator[tuple[str, ...]]:
    lines = encoded.cpu().numpy().tobytes().decode("utf8", "surrogatepass")
    return (tuple(line.split(" ")) for line in lines.split("\n") if line)
