"""The schemas in docs are up to date, and fit what the commands write; test_reports.py compares every report with
one.
"""

import json
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import audited
import jsonschema
import pytest
from logs import audit_cli, gdpo

import gdpo_audit as ga

ROOT = Path(__file__).parent.parent
SCHEMA = json.loads((ROOT / "docs/report.schema.json").read_text(encoding="utf-8"))
VALID = jsonschema.Draft202012Validator(SCHEMA)
COMPARED = json.loads((ROOT / "docs/compare.schema.json").read_text(encoding="utf-8"))
LOGS = [path for path in sorted((ROOT / "data/samples").iterdir()) if path.name != "published_answers.zip"]


def test_the_schema_is_what_the_types_say():
    """If it is not, `python -m scripts.make_schema` writes it anew."""
    code = (
        "from scripts.make_schema import files\n"
        "for file, text in files().items(): assert file.read_text(encoding='utf-8') == text, file"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
    for schema in (SCHEMA, COMPARED):
        jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.slow
def test_what_the_command_prints_of_one_run_and_of_several_fits(capsys):
    setting = ["--what-if", "method=grpo_no_std"]
    for logs, more in ((LOGS[:1], []), (LOGS[:2], []), (LOGS[:1], setting), (LOGS[:2], setting)):
        VALID.validate(json.loads(audit_cli(capsys, *logs, *more, "--json", "-")[1]))


def test_what_compare_prints_fits(capsys):
    logs = (ROOT / "data/samples" / log for log in ("trl_gdpo", "ms_swift"))
    made = json.loads(gdpo(capsys, "compare", *logs, "--json", "-")[1])
    fits = jsonschema.Draft202012Validator(COMPARED)
    fits.validate(made)
    assert set(made) == set(COMPARED["$defs"]["Changes"]["properties"]) and next(iter(made)) == "schema"
    for wrong in ({"schema": 2}, {"figures": [{"figure": "mean"}]}, {"level": "0.95"}):
        assert not fits.is_valid(made | wrong)


@pytest.mark.parametrize(
    ("where", "wrong"),
    [
        (["schema"], 2),
        (["rewards", 0, "name"], None),
        (["findings", 0, "severity"], "fatal"),
        (["what_if"], {"before": {}, "after": {}, "fix": None, "notes": []}),
        (["steps", 0, "mean:correctness"], "high"),
    ],
)
def test_what_is_no_report_does_not_fit(where, wrong):
    good = json.loads(json.dumps(ga.audit(ga.read_run(ROOT / "data/samples/trl_gdpo")).to_dict()))
    bad = part = deepcopy(good)
    for key in where[:-1]:
        part = part[key]
    part[where[-1]] = wrong
    assert VALID.is_valid(good) and not VALID.is_valid(bad)


def test_a_figure_that_is_no_number_is_null():
    assert audited.report(findings=[]).to_dict()["methods"]["grpo_no_std"]["inversions"] is None
