from __future__ import annotations

import pytest

from hpometrics.exceptions import ConfigError
from hpometrics.redaction import hide, redacted, reveal


@pytest.fixture
def token(monkeypatch) -> str:
    """A secret in the environment, forgotten after the test."""
    monkeypatch.setattr("hpometrics.redaction._revealed", set())
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
    with pytest.raises(ConfigError, match="the environment has no HUB_TOKEN, from which a secret is to be"):
        reveal("HUB_TOKEN")


@pytest.mark.parametrize("turn", [1, 2])
def test_no_test_hides_the_words_of_another(turn):
    """The password of a URL may be a word that messages have; in the second turn it is known no more."""
    assert redacted("never the secret") == "never the secret"
    hide("secret")
    assert redacted("never the secret") == "never the ***"
