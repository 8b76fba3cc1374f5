from __future__ import annotations

import base64
import csv
import html
import io
import json
import math
import random
import re
import shlex
from collections.abc import Callable
from urllib.parse import quote, quote_plus, unquote_plus
from xml.sax.saxutils import quoteattr

import pytest
import yaml
from markupsafe import escape

from hpometrics import _redaction
from hpometrics._redaction import HIDDEN, excerpt, hide, redacted, reveal
from hpometrics._text import one_line, printable, text_of
from hpometrics.config.yaml_text import dump_yaml, flow_yaml
from hpometrics.exceptions import ConfigError
from hpometrics.loggers.csv import cell


@pytest.fixture
def token(monkeypatch) -> str:
    """A secret in the environment, forgotten after the test."""
    monkeypatch.setattr("hpometrics._redaction._revealed", set())
    monkeypatch.setenv("HUB_TOKEN", "hf-0123.secret")
    return "hf-0123.secret"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://ada:pw@db:5432/studies", "postgresql://***@db:5432/studies"),
        ("mysql+pymysql://ada:p@w@db/x and redis://:pw@h", "mysql+pymysql://***@db/x and redis://***@h"),
        ("'https://ghp_abc@host/r'", "'https://***@host/r'"),
        ("sqlite:////tmp/a@b/study.db", "sqlite:////tmp/a@b/study.db"),
        ("https://h/p?user=a&api_key=k1&x=2#token=9", "https://h/p?user=a&api_key=***&x=2#token=9"),
        ("a@b.org: no URL, token=plain", "a@b.org: no URL, token=plain"),
    ],
)
def test_who_logs_in_is_hidden(text, shown):
    """Users, passwords and keys of a URL; the place itself stays readable."""
    assert redacted(text) == shown


def test_a_revealed_secret_is_hidden_wherever_it_turns_up(token):
    """From the moment on that this process knows it."""
    assert redacted(f"401 for {token}") == f"401 for {token}"
    assert reveal("HUB_TOKEN") == token
    assert redacted(f"401 for {token}, Bearer {token}!") == "401 for ***, Bearer ***!"


def test_a_missing_variable_is_named(monkeypatch):
    """An empty one is none."""
    monkeypatch.setenv("HUB_TOKEN", "")
    with pytest.raises(
        ConfigError, match="the environment variable HUB_TOKEN is not set, and a secret is read from"
    ):
        reveal("HUB_TOKEN")


@pytest.mark.parametrize("turn", [1, 2])
def test_no_test_hides_the_words_of_another(turn):
    """The password of a URL may be a word that messages have; in the second turn it is known no more."""
    assert redacted("never the secret") == "never the secret"
    hide("secret")
    assert redacted("never the secret") == "never the ***"


def csv_of(text: str) -> str:
    """A row of a table."""
    file = io.StringIO()
    csv.writer(file).writerow([cell(text), text])
    return file.getvalue()


def as_bytes(text: str) -> bytes:
    """What a program sends that has read a text from its environment."""
    return text.encode("utf8", "surrogateescape")


WRITERS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "text of an error": lambda text: text_of(ValueError(text)),
    "line of an error": lambda text: one_line(ValueError(text)),
    "printable": printable,
    "repr": repr,
    "repr in a mapping": lambda text: repr({"q'": [text]}),
    "ascii": ascii,
    "repr of bytes": lambda text: repr(as_bytes(text)),
    "error of a key": lambda text: str(KeyError(text)),
    "JSON": json.dumps,
    "JSON of any script": lambda text: json.dumps({"a": text}, ensure_ascii=False, indent=1),
    "URL": lambda text: quote(as_bytes(text)),
    "part of a URL": lambda text: quote(as_bytes(text), safe=""),
    "query": lambda text: quote_plus(as_bytes(text)),
    "HTML": html.escape,
    "HTML of a template": lambda text: str(escape(text)),
    "XML": quoteattr,
    "ASCII with references": lambda text: text.encode("ascii", "xmlcharrefreplace").decode(),
    "YAML": lambda text: dump_yaml({"a": [text]}),
    "YAML on a line": flow_yaml,
    "YAML in double quotes": lambda text: yaml.dump(text, default_style='"', width=math.inf),
    "CSV": csv_of,
    "shell": shlex.quote,
    "hex": lambda text: as_bytes(text).hex(),
    "hex in capitals": lambda text: as_bytes(text).hex().upper(),
}
NO_SURROGATES = {"YAML", "YAML on a line", "YAML in double quotes"}  # the library refuses them
TEXTS_IN_CODES = {"plain", "JSON"}  # what is coded is what is sent
PRINTABLE = {"printable", "line of an error", "CSV"}  # they escape ends of lines, and leave backslashes
PEM = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEF+/AS\nggSjAgEAAoIBAQC7VJ/+Eu==\n-----END KEY-----\n"
SECRETS = {
    "plain": "hf-0123.ghp",
    "four": "q7#Z",
    "lines": "hunter2\nGEHEIM99",
    "short lines": "a1\nb2\nc3",
    "backslash": r"C:\new\x41\u00e9",
    "both quotes": "it's \"7\" o'c",
    "letters": "pässwörd€𝄞ß",
    "surrogate": "pw\udcff\udc80xyz",
    "controls": "pw\x1b[0m\x07\x85\u2028\u202e",
    "markup": "<b>&amp;7</b>?a=1+1%20",
    "spaces": "correct horse battery  staple ",
    "PEM": PEM,
    "key file": json.dumps({"key": PEM, "client_email": "ada@iam"}, indent=2),
}
CHARACTERS = "aZ7.'\"\\\n\t &<>%+/=;é€𝄞\x1b\x85\u2028\udc80"


def drawn(count: int, characters: str = CHARACTERS) -> list[str]:
    """Texts of four to thirty characters, mostly odd ones."""
    draw = random.Random(7)
    texts = ("".join(draw.choices(characters, k=draw.randint(4, 30))) for _ in range(count))
    return [text for text in texts if len(text.strip()) >= 4]


def unescaped(text: str) -> str:
    """What a literal of Python, JSON or YAML stands for; bytes are read as UTF-8."""
    letters = dict(zip("abtnvfre0NL_P", "\a\b\t\n\v\f\r\x1b\0\x85\u2028\xa0\u2029", strict=True))

    def meant(found: re.Match[str]) -> str:
        return chr(int(found[1][1:], 16)) if found[1][1:] else letters.get(found[1], found[1])

    text = re.sub(r"(?s)\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U000[0-9a-fA-F]{5}|.)", meant, text)
    text = text.encode("utf16", "surrogatepass").decode("utf16", "surrogatepass")
    return re.sub("[\x80-\xff]+", lambda run: run[0].encode("latin1").decode("utf8", "surrogateescape"), text)


def from_hex(text: str) -> str:
    """The bytes that stand in a text."""
    return re.sub("(?i)(?:[0-9a-f]{2})+", lambda run: bytes.fromhex(run[0]).decode("utf8", "replace"), text)


READERS: tuple[Callable[[str], str], ...] = (
    lambda text: re.sub(r"\s+", " ", text),
    unescaped,
    html.unescape,
    lambda text: unquote_plus(text, errors="surrogateescape"),
    lambda text: text.replace("''", "'"),
    lambda text: text.replace('""', '"'),
    from_hex,
)


def readings(text: str, turns: int) -> set[str]:
    """All that somebody could read in a text who tries every decoding on the results of every other."""
    found = {text}
    for _ in range(turns):
        found |= {read(one) for one in found for read in READERS}
    return found


def parts(secret: str) -> set[str]:
    """Any four characters of a secret that would say something of it."""
    some = {secret[start : start + 4] for start in range(len(secret) - 3)}
    return {part for part in some if any(map(str.isalnum, part))}


def applied(names: tuple[str, ...], text: str) -> str:
    """What the writers make of a text, the last one first."""
    for name in reversed(names):
        text = WRITERS[name](text)
    return text


def leaks(secret: str, *names: str) -> set[str]:
    """The parts of a secret that can be read in what the writers make of a text that it stands in."""
    if NO_SURROGATES & {*names} and re.search("[\ud800-\udfff]", secret):
        return set()
    shown = redacted(applied(names, f"(to {secret} of)"))
    assert HIDDEN in shown
    around, read = (" ".join(readings(text, len(names))) for text in (applied(names, "(to  of)"), shown))
    return {part for part in parts(secret) if part in read and part not in around}


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_hidden_in_every_form(name):
    """Whatever its characters are, and in whatever Python or a writer of ours has written it."""
    hide(SECRETS[name])
    for writer in WRITERS:
        assert not leaks(SECRETS[name], writer), writer
    for line in SECRETS[name].splitlines():
        assert len(line) < 4 or line.strip() not in redacted(f"line {line} of it")


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_hidden_in_forms_of_forms(name):
    """The repr of a request holds JSON; the JSON of a record, the repr of an error."""
    hide(SECRETS[name])
    for outer in WRITERS:
        for inner in WRITERS:
            if outer.startswith("hex") and inner not in TEXTS_IN_CODES:
                continue
            if outer in PRINTABLE and inner == "YAML":  # a backslash that ends a line has lost its line
                continue
            assert not leaks(SECRETS[name], outer, inner), (outer, inner)


def test_any_secret_is_hidden_in_every_form(monkeypatch):
    """Of any characters, in an order that nobody has thought of."""
    for secret in drawn(60):
        monkeypatch.setattr("hpometrics._redaction._revealed", {secret})
        for writer in WRITERS:
            assert not leaks(secret, writer), (secret, writer)


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_hidden_in_base64(name):
    """Wherever it begins among the bytes, in both alphabets, on one line or on many."""
    secret, data = SECRETS[name], as_bytes(SECRETS[name])
    hide(secret)
    for front in (b"", b"a", b"ada:", b"Basic "):
        for encode in (base64.b64encode, base64.urlsafe_b64encode, base64.encodebytes):
            shown = redacted(f"got {encode(front + data + b'@h').decode()}")
            assert HIDDEN in shown
            left = re.sub(r"\s", "", shown.removeprefix("got ")).translate(str.maketrans("-_", "+/"))
            for run in re.split(r"\*+", left):
                for cut in range(4):
                    bits = run[cut : cut + (len(run) - cut) // 4 * 4]
                    seen = base64.b64decode(bits).decode("utf8", "surrogateescape")
                    assert not any(part in seen for part in parts(secret)), shown


def test_nothing_else_is_hidden():
    """Not what is like a secret, nor less than four characters of one, nor a part of it."""
    hide("it's-7é")
    hide("abc")
    for text in ("its-7é", "abc", "it's", "7é", "%27", "aXQn", "&#x27;", ""):
        assert redacted(text) == text
    for text in drawn(300, "\\\\\\xuUdD083eE%%&#;+/=\n ''\"\"é\udc80"):
        assert redacted(text) == text


def test_a_text_is_cut_when_its_secrets_are_hidden():
    """The start of one would be shown by a cut in its midst."""
    hide("hf-0123.secret")
    assert excerpt({"token": "hf-0123.secret"}, 16) == "{'token': '***'}"
    assert excerpt("x" * 90, 80) == "x" * 80


def test_what_hides_secrets_is_made_once():
    """For a set of secrets, however many texts are read; another secret makes it anew."""
    _redaction._pattern.cache_clear()
    for secret in ("hf-0123.secret", PEM):
        hide(secret)
        for line in range(50):
            redacted(f"line {line}")
    assert _redaction._pattern.cache_info().misses == 2
