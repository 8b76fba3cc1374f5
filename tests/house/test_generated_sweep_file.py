from __future__ import annotations

import re
from pathlib import Path

from docs._generate.sweep_file import page
from hpometrics.config.json_schema import json_schema

ROOT = Path(__file__).parents[2]


def test_the_page_is_printed_from_the_schema():
    """`make index` has been run since the last change of a key."""
    assert (ROOT / "docs/reference/sweep-file.md").read_text(encoding="utf8") == page()


def test_every_key_has_a_row_that_says_what_it_means():
    """No part of a file is left out, and no key of a part."""
    rows = [line.split(" | ") for line in page().splitlines() if line.startswith("| `")]
    schema = json_schema()
    keys = [key for part in (schema, *schema["definitions"].values()) for key in part["properties"]]
    assert sorted(row[0].strip("| `") for row in rows) == sorted(keys)
    assert all(row[1] and row[3] in ("yes", "no") and row[4].rstrip("| ") for row in rows)


def test_the_heads_are_type_default_and_required():
    """Of every table; the engine of a sweep file is required, its name is not."""
    heads = {line for line in page().splitlines() if line.startswith("| key")}
    assert heads == {"| key | type | default | required | meaning |"}
    assert re.search(r"^\| `engine` \| .* \|  \| yes \| ", page(), re.MULTILINE)
    assert re.search(r"^\| `name` \| .* \|  \| no \| ", page(), re.MULTILINE)


def test_values_are_told_in_words():
    """Bounds, durations, enumerations, lists and what stands elsewhere on the page."""
    text = page()
    assert "| `repeats` | a whole number from 1 | `1` | no |" in text
    assert "| `heartbeat` | a duration: `90s`, `10m`, `2h` | `15s` | no |" in text
    assert "| `report` | `html`, `md`, `none` | `none` | no |" in text
    assert (
        "text, [a mapping](#metrics-an-entry), [a mapping](#metrics-a-combination), a list of these" in text
    )
    assert "## metrics: an entry\n" in text
