"""The schemas in docs: up to date, and held against the reports of every sample and every recorded log."""

import json
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import audited
import jsonschema
import pytest

import gdpo_audit as ga
import gdpo_cli

ROOT = Path(__file__).parent.parent
SCHEMA = json.loads((ROOT / "docs/report.schema.json").read_text(encoding="utf-8"))
VALID = jsonschema.Draft202012Validator(SCHEMA)
COMPARED = json.loads((ROOT / "docs/compare.schema.json").read_text(encoding="utf-8"))
LOGS = [path for path in sorted((ROOT / "data/samples").iterdir()) if path.name != "published_answers.zip"]
FOLDER = ROOT / "tests/goldens/logs"
RECORDED = [path for path in sorted([*FOLDER.glob("*"), *(FOLDER / "trl").iterdir()]) if path.name != "trl"]


def report(log) -> dict:
    return ga.audit(ga.read_run(log)).to_dict()


@pytest.mark.slow
def test_the_schema_is_what_the_types_say():
    code = (
        "from scripts.make_schema import files\n"
        "for file, text in files().items(): assert file.read_text(encoding='utf-8') == text, file"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
    for schema in (SCHEMA, COMPARED):
        jsonschema.Draft202012Validator.check_schema(schema)


SLOW = [pytest.param(log, marks=pytest.mark.slow) for log in (*RECORDED, ROOT / "data/samples/published_answers.zip")]


@pytest.mark.parametrize("log", [*LOGS, *SLOW], ids=lambda path: path.name)
def test_the_report_of_a_log_fits(log):
    VALID.validate(json.loads(json.dumps(report(log))))


@pytest.mark.slow
def test_what_the_command_prints_of_one_run_and_of_several_fits(capsys):
    setting = ["--what-if", "method=grpo_no_std"]
    for logs, more in ((LOGS[:1], []), (LOGS[:2], []), (LOGS[:1], setting), (LOGS[:2], setting)):
        with pytest.raises(SystemExit):
            gdpo_cli.main(["audit", *map(str, logs), *more, "--json", "-"])
        VALID.validate(json.loads(capsys.readouterr().out))


def test_what_compare_prints_fits(capsys):
    with pytest.raises(SystemExit):
        gdpo_cli.main(
            ["compare", *(str(ROOT / "data/samples" / log) for log in ("trl_gdpo", "ms_swift")), "--json", "-"]
        )
    made = json.loads(capsys.readouterr().out)
    fits = jsonschema.Draft202012Validator(COMPARED)
    fits.validate(made)
    assert set(made) == set(COMPARED["$defs"]["Changes"]["properties"]) and next(iter(made)) == "schema"
    for wrong in ({"schema": 2}, {"figures": [{"figure": "mean"}]}, {"level": "0.95"}):
        assert not fits.is_valid(made | wrong)


def test_every_member_of_a_report_is_described():
    whole = ga.audit(ga.read_run(ROOT / "data/samples/trl_gdpo")).to_dict(groups=True)
    parts = {name: set(part["properties"]) for name, part in SCHEMA["$defs"].items()}
    assert set(whole) | {"what_if"} == parts["ReportPart"] and set(whole["source"]) == parts["SourcePart"]
    assert set(whole["run"]) == parts["RunPart"] and set(whole["rewards"][0]) == parts["RewardPart"]
    assert set(whole["findings"][0]) == parts["FindingPart"] and set(whole["methods"]["gdpo"]) == parts["MethodPart"]
    assert set(whole["steps"][0]) > parts["StepPart"]


@pytest.mark.parametrize(
    ("where", "wrong"),
    [
        (["schema"], 2),
        (["source", "steps"], "4"),
        (["run", "method"], 3),
        (["rewards", 0, "name"], None),
        (["methods", "gdpo", "levels"], "many"),
        (["findings", 0, "severity"], "fatal"),
        (["what_if"], {"before": {}, "after": {}, "fix": None, "notes": []}),
        (["steps", 0, "mean:correctness"], "high"),
    ],
)
def test_what_is_no_report_does_not_fit(where, wrong):
    good = json.loads(json.dumps(report(ROOT / "data/samples/trl_gdpo")))
    bad = part = deepcopy(good)
    for key in where[:-1]:
        part = part[key]
    part[where[-1]] = wrong
    assert VALID.is_valid(good) and not VALID.is_valid(bad)


def test_a_figure_that_is_no_number_is_null():
    assert audited.report(findings=[]).to_dict()["methods"]["grpo_no_std"]["inversions"] is None
