"""docs/faq.md: each answer says where its evidence is, and what it names is there."""

import re
from pathlib import Path

from gdpo_audit.findings.findings import IDS
from views.studies.scenarios import load_scenarios

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "faq.md").read_text(encoding="utf-8")
SEEN = re.compile(r"`[\w-]+`|[Cc]hapters? \*|Train, \*|\]\(")  # a finding, an option, a chapter, a scenario, a link


def test_each_of_the_questions_has_a_few_sentences_that_say_where_the_answer_is_seen():
    answers = re.findall(r"^\*\*(\d+)\. [^*]+\?\*\* \([^)]+#\d+\)\s(.+?)\n\n", f"{TEXT}\n", re.M | re.S)
    assert [int(number) for number, _ in answers] == list(range(1, 37))
    assert sum(text.startswith("This cannot be answered") for _, text in answers) == 3
    for number, text in answers:
        assert 3 <= len(re.findall(r"[.?](?=\s[A-Z`]|$)", text)) <= 5 and SEEN.search(text), number
    rows = [line.split("|")[2:4] for line in TEXT.splitlines() if line.startswith(("| h", "| are"))]
    assert len(rows) == 6 and all(SEEN.search(cell) for row in rows for cell in row)


def test_what_it_names_is_there():
    options = (ROOT / "gdpo_cli.py").read_text(encoding="utf-8")
    for name in re.findall(r"`([\w-]+)`", TEXT):
        assert name in IDS or f"    {name[2:].replace('-', '_')}: " in options, name
    assert set(re.findall(r"hapters?\s\*([^*]+)\*", TEXT.replace("\n", " "))) == {"Lab", "Train", "Use it", "Your run"}
    trained = (ROOT / "docs" / "forecasts.md").read_text(encoding="utf-8")
    points = re.findall(r"([+−]\d\.\d)(?= and| points|\)|, the others|, and| with three)", TEXT)
    assert len(points) == 6 and all(re.search(rf"→ \**{re.escape(x)}", trained) for x in points), points
    verdicts = {f"*{s.title}*: {s.verdict}" for s in load_scenarios(ROOT / "data" / "scenarios.json")}
    assert set(re.findall(r"Train, (\*[^*]+\*: [^)]+)\)", TEXT)) <= verdicts
