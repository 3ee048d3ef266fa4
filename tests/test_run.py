"""The chapter Your run without a browser: the samples are what they say, and any upload ends in a report or one
sentence.
"""

import ast
import html as html_module
import importlib
import json
import math
import re
import sys
import zipfile
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

import gdpo_audit as ga
import gdpo_core as gc
from views.bfcl import prompts
from views.chapters.run import choose, downloads, groups, show
from views.chapters.run import log as logs
from views.chapters.run.log import audit_log, read_log
from views.chapters.run.run_words import on_page
from views.chapters.run.samples import SAMPLES
from views.widgets.html import board_or_reason
from views.widgets.nav import Nav

ROOT = Path(__file__).parent.parent
_, _, _, MADE, TRL, SAME_NAME, _, VERL = SAMPLES


def uploaded(name, contents):
    return SimpleNamespace(name=name, contents=contents)


def files_of(sample):
    folder = ROOT / "data" / "samples" / sample.path
    return [uploaded(path.name, path.read_bytes()) for path in sorted(folder.iterdir())]


def report(sample):
    log = read_log(sample)
    return audit_log(log, log.primary, "")


def ids(report):
    return {finding.id for finding in report.findings}


# --- the samples ------------------------------------------------------------------------------------------------------


def test_the_made_sample_is_what_its_script_makes(monkeypatch):
    with zipfile.ZipFile(ROOT / "data" / "samples" / MADE.path) as packed:
        made = pl.concat([pl.read_parquet(packed.read(name)) for name in packed.namelist()])
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    make_samples = importlib.import_module("make_samples")
    again = pl.concat(list(make_samples.steps()))
    assert again.schema == made.schema
    assert again.drop("advantage").equals(made.drop("advantage"))
    # The last bit of float32 may differ between machines.
    assert (again["advantage"] - made["advantage"]).abs().max() < 1e-6
    sys.modules.pop("make_samples")


def test_the_words_on_the_made_sample_have_the_numbers_of_its_data():
    data = prompts.load_once(ROOT / "data" / "bfcl_rewards.parquet")
    assert f"{len(data.models)} configurations of {prompts.models(data)} models" in MADE.source_note


# --- what the reader gives -------------------------------------------------------------------------------------------


def test_an_upload_is_kept_nowhere_but_a_sample_is_read_once():
    before = logs._of_sample.cache_info().currsize, logs._audit_of_sample.cache_info().currsize
    log = read_log(None, files_of(SAME_NAME))
    audit_log(log, None, "")
    assert (logs._of_sample.cache_info().currsize, logs._audit_of_sample.cache_info().currsize) == before
    assert read_log(TRL) is read_log(TRL)
    log = read_log(TRL)
    assert audit_log(log, None, "") is audit_log(log, None, "")
    assert audit_log(log, None, "format_reward=2") is not audit_log(log, None, "")


def test_uploads_have_a_limit_together_and_names_of_their_own(monkeypatch):
    monkeypatch.setattr(logs.sessions, "LARGEST_UPLOAD", 20_000)
    with pytest.raises(gc.InputError, match=r"upload: expected at most 0 MB in all, got 0\.0 MB"):
        read_log(None, files_of(TRL))
    first, second, *_ = files_of(TRL)
    with pytest.raises(gc.InputError, match=r"files of different names.*got two called completions_00001"):
        read_log(None, [first, uploaded(first.name, second.contents)])


def test_a_correction_by_hand_is_obeyed():
    halves = read_log(TRL, group_size="4").run
    assert halves.group_size == 4 and halves.table["group"].n_unique() == 32
    one = read_log(TRL, framework="generic", rewards="length_reward", group="prompt").run
    assert one.framework == "generic" and one.rewards == ("length_reward",)
    with pytest.raises(gc.InputError, match="5"):
        read_log(TRL, group_size="5")
    with pytest.raises(gc.InputError, match="accuracy"):
        read_log(TRL, rewards="accuracy")


# --- what can be taken away ------------------------------------------------------------------------------------------


def test_the_downloads_open_and_hold_the_report():
    log = read_log(MADE)
    found = audit_log(log, "correctness", "")
    files = {name: content() for _, name, content in downloads.downloads(log, found)}
    data = json.loads(files["audit.json"])
    note = data.pop("note")
    assert data == found.to_dict()
    page = files["audit.html"].decode()
    assert "no training run" in note and note in html_module.unescape(page) and "<" not in note
    assert page.lower().startswith("<!doctype html>") and all(finding.id in page for finding in found.findings)
    assert pl.read_csv(files["responses.csv"]).equals(log.run.table, null_equal=True)


# --- the page --------------------------------------------------------------------------------------------------------


def written(page):
    """Return what the page writes into its address, by key, without what is empty."""
    return {key: text for key, text in page.controls.items() if text}


def test_an_upload_stays_out_of_the_address():
    page = Nav({"run-primary": "format_reward", "run-weights": "format_reward=2"}, False)
    log = read_log(None, files_of(TRL))
    corrections = choose.corrections(page, None)
    assert choose.primary(page, log).value is None and not any(corrections.value.values())
    values, _ = choose.address(None, {"weights": "secret=2"}, log, "secret")
    assert values == {"run-sample": None, "run-weights": None, "run-primary": None}


def test_an_address_brings_sample_primary_and_corrections_which_another_sample_has_not():
    asked = {"run-sample": "trl_gdpo", "run-primary": "format_reward", "run-weights": "format_reward=2"}
    page = Nav(asked, False)
    sample = choose.sample(page, ()).value
    corrections = choose.corrections(page, sample)
    primary = choose.primary(page, read_log(sample))
    assert sample is TRL and primary.value == "format_reward"
    assert corrections.value["weights"] == "format_reward=2" and not page.unread
    page.write("run", *choose.address(sample, corrections.value, read_log(sample), primary.value))
    assert written(page) == asked
    assert choose.corrections(page, MADE).value["weights"] == ""
    assert choose.primary(page, read_log(MADE)).value == "correctness"


@pytest.mark.parametrize("sample", [TRL, VERL], ids=lambda sample: sample.id)
def test_the_program_prints_what_the_report_shows(sample, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    found = report(sample)
    program = logs.audit_program(read_log(sample), found, "")
    assert program.count("\n") <= 15
    exec(program, {})
    printed = capsys.readouterr().out
    assert printed.startswith(f"{found.run['method']} {found.run['convention']} {found.run['weights_used']}")
    for reward in found.rewards:
        assert f"{reward['name']} {reward['dead_groups']} {reward['update_share']}" in printed
    for finding in found.findings:
        assert f"{finding.severity} {finding.id}" in printed


OPTIONS = (
    "reward|primary|group|group-size|parts|weight|framework|what-if|skip-bad|debug|steps|"
    "not-steps|last|by|asked|columns"
)


def test_no_sentence_of_the_page_names_an_option_of_the_command_line():
    """Each text of the audit that names an option is looked at, except for those that only a terminal shows."""
    of_a_terminal = ("cli.py", "watch.py", "engine_ray.py", "compare.py", "terminal.py", "json_types.py")
    files = [path for path in (ROOT / "gdpo_audit").rglob("*.py") if path.name not in of_a_terminal]
    option = re.compile(rf"(?<![\w-])--({OPTIONS})(?![\w-])")
    found = 0
    for path in files:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        first = (
            node.body[0] for node in ast.walk(tree) if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)
        )
        docstrings = {node.value for node in first if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docstrings:
                found += bool(option.search(node.value))
                assert not option.search(on_page(node.value)), (path.name, node.value)
    assert found >= 8
    log = read_log(SAMPLES[0])
    assert "(--primary)" in audit_log(log, None, "").what_first
    shown = show.report_front(audit_log(log, None, "")).text
    assert "--primary" not in shown and "matters most (with the buttons above): correctness" in shown
    rows = b"a,b\n" + b"1,0\n0,1\n" * 8
    with pytest.raises(gc.InputError) as refused:
        audit_log(read_log(None, [uploaded("log.csv", rows)]), None, "")
    assert "--group" in str(refused.value) and "in “Responses per prompt”" in show.refusal_box(refused.value, {}).text


# --- groups, and what if ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.id)
def test_each_group_that_shows_a_finding_opens_on_the_board_with_the_cores_numbers(sample):
    audit = report(sample)
    choice = groups.group_choice(audit)
    shown = list(choice.options.values())
    assert {id(group) for group in shown} == set(map(id, audit.groups)) and (choice.value in shown or not shown)
    for group in shown:
        if any(map(math.isnan, chain(*group.rewards))):
            continue
        board, convention = groups.group_board(group, audit), gc.CONVENTIONS[group.convention]
        lengths = [max(1, round(n)) for n in group.lengths or [1] * len(group.rewards)]
        given = {"weights": group.weights, "convention": convention}
        given |= {"lengths": lengths} if convention.last_step == "tokens" else {}
        assert board.rewards.tolist() == pytest.approx(np.array(group.rewards), rel=1e-6)
        for side, method in enumerate(("grpo", "gdpo")):
            a = gc.advantages(group.rewards, method, **given).tolist()
            assert board.drawing["a"][side] == pytest.approx(a, abs=1e-6)
        if group.completions:
            assert board.answers[0].startswith(group.completions[0][:100])
        drawn = board_or_reason(lambda one=board: one)
        assert "Groups that show the findings" in groups.group_view(audit, choice, drawn).text


def test_the_first_group_shown_is_one_where_the_recommendation_helps():
    """The pairs in the right order are counted in plain loops, under GRPO as it ran and under GDPO."""
    audit = report(SAMPLES[0])
    choice = groups.group_choice(audit)
    assert [row.title for row in audit.plan if row.recommended] == ["GDPO, same weights"]

    def ordered(group, method):
        a = gc.advantages(group.rewards, method, weights=group.weights, convention=gc.CONVENTIONS[group.convention])
        first = [answer[0] for answer in group.rewards]
        n = range(len(first))
        return sum(first[i] > first[j] and bool(a[i] - a[j] > 0.005 * abs(a).max()) for i in n for j in n)

    helped = {name: ordered(group, "gdpo") - ordered(group, "grpo") for name, group in choice.options.items()}
    assert helped[choice.selected_key] == max(helped.values()) > 0
    unsaid = groups.group_choice(audit_log(read_log(SAMPLES[0]), None, ""))
    assert unsaid.value is next(iter(unsaid.options.values()))


def test_a_group_that_the_board_cannot_show_is_a_sentence():
    rows = [{"prompt": "x", "a": i % 2, "b": i % 3, "completion": f"<i>{i}"} for i in range(65)]
    missing = [{"prompt": "x", "a": i % 2, "b": None if i == 1 else 1 - i % 2, "completion": "y"} for i in range(4)]
    for log, said in ((rows, "expected 2 to 64 answers, got 65"), (missing, "got nan in answer 2, reward 2")):
        audit = ga.audit(ga.read_run(log, group_size=len(log)))
        choice = groups.group_choice(audit)
        drawn = board_or_reason(lambda one=choice, of=audit: groups.group_board(one.value, of))
        html = groups.group_view(audit, choice, drawn).text
        assert said in html and "<i>" not in html
    assert groups.group_view(None, groups.group_choice(None), None).text == ""
