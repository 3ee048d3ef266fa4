"""The glossary: one sentence per term, and every term in use."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ENTRY = re.compile(r"- \*\*(?P<term>[^*]+)\*\*(?: \((?P<others>[^)]+)\))? — (?P<sentence>.+)")
LINES = [line for line in (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").splitlines() if "**" in line]
ENTRIES = [match for line in LINES if (match := ENTRY.fullmatch(line))]
NAMES = [name for entry in ENTRIES for name in (entry["term"], *(entry["others"] or "").split(", ")) if name]
DOCS = [ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in ("page", "library", "audit"))]
USED = [*DOCS, ROOT / "app.py", *(f for d in ("views", "gdpo_core", "gdpo_audit") for f in (ROOT / d).rglob("*.py"))]
TEXT = " ".join(" ".join(path.read_text(encoding="utf-8") for path in USED).lower().split())


def test_every_line_with_a_term_is_an_entry():
    assert len(ENTRIES) == len(LINES) >= 12


def test_a_name_stands_for_one_term():
    names = [name.lower() for name in NAMES]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["term"])
def test_a_term_has_one_short_sentence(entry):
    sentence = entry["sentence"]
    assert sentence[0].isupper() and sentence.endswith(".")
    assert ". " not in sentence
    assert len(sentence.split()) <= 35


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_in_use(name):
    assert re.search(rf"\b{re.escape(name.lower())}s?\b", TEXT)
