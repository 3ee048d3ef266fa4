"""The glossary: one sentence per term, and every term in use."""

import re
from pathlib import Path

import pytest
from test_house import APP, CORE, SCRIPTS, TOOLS, VIEWS, bindings, relative, said

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


# In these files the page, the report and the documents speak: in strings of Python, and in other files as a whole.
SPOKEN = [APP, *CORE, *VIEWS, *SCRIPTS, ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
SPOKEN += [
    *(ROOT / "data").glob("*.json"),
    *(ROOT / "data" / "tasks").glob("*.json"),
    *(ROOT / "gdpo_core").glob("*.toml"),
]
# No text says these words. They are now the wrong order, the batch step and the infinite-group limit. “The first and
# the last step” is of a window of training, and a word alone is a key or an id.
RETIRED = re.compile(
    r"wrong (?:one |answer )?(?:is )?first\b|wrong way round|(?<!first and the )\blast step|endless group"
    r"|(?<=\w )inversions?\b|\binversions?(?= \w)",
    re.IGNORECASE,
)
# These files quote what reports said before.
QUOTING = {"docs/glossary.md", "docs/forecasts.md", "docs/logs.md"}


def test_no_text_says_a_word_that_the_glossary_retired():
    for path in SPOKEN:
        texts = said(path) if path.suffix == ".py" else [path.read_text(encoding="utf-8")]
        if relative(path) not in QUOTING:
            assert not [text[:80] for text in texts if RETIRED.search(text)], relative(path)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_in_use(name):
    assert re.search(rf"\b{re.escape(name.lower())}s?\b", TEXT)


# In these files a name of the glossary may be bound, with the glossary's meaning; elsewhere a thing has another name.
# No thing is called a take. The public `steps_to(level=…)`, and `level` in the JSON of a comparison, keep their names.
HOMES = {
    # What a claim, or a reading, took.
    "take": r"gdpo_audit/(records|facts/claims(_of_rows)?|logs/columns/copies)\.py",
    "level": r"gdpo_core/(numerics/pairs|ties|training|board/\w+)|gdpo_audit/(command/cli|json_types|report/comparison)"
    r"|gdpo_audit/(findings/examples|sums/sums)|views/chapters/(evidence/opened|lab/books)|benchmarks/toys/",
    "part": r"gdpo_core/(bounds/means|ties|board/result)|gdpo_cli|views/chapters/run/log|gdpo_audit/command/cli"
    r"|gdpo_audit/(logs/|unexplained/readings\.py)",  # of a total, and of a log whose run began again
    "form": r"gdpo_audit/logs/(columns/|forms/|groups/rows\.py|read\.py|shapes/|trainers/)",
    "setting": r"gdpo_core/shared/parsing|gdpo_audit/(?!logs/)|views/(chapters/evidence/forecasts|studies/results)",
    "entry": r"gdpo_core/checking/",
    "methods": r"gdpo_core/(methods|registry|__init__)\.py",
}
SPELLED = {"take": r"takes?|taken", "entry": r"Entry", "methods": r"METHODS"}


@pytest.mark.parametrize("word", HOMES)
def test_a_name_has_one_meaning(word):
    form = re.compile(SPELLED.get(word, rf"(?i:{word}s?)"))
    elsewhere = [path for path in [*CORE, *VIEWS, *TOOLS, APP] if not re.match(HOMES[word], relative(path))]
    for path in elsewhere:
        bound = list(filter(form.fullmatch, bindings(path)))
        assert not bound, f"{relative(path)}: {bound} means something else in docs/glossary.md; choose another noun"
