"""Section 8 without a browser: the samples are what they say, and any upload ends in a report or one sentence."""

import ast
import html as html_module
import importlib
import io
import json
import math
import re
import sys
import zipfile
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from helpers import html_of
from views.own_run import SAMPLES, Reading, audited, read, weighted

import gdpo_core as gc
from app import app
from gdpo_core.bfcl import load_published
from views import own_run

ROOT = Path(__file__).parent.parent
MADE, TRL, SAME_NAME, MS_SWIFT, VERL = SAMPLES
FOUND_OUT = Reading()


def uploaded(name, contents):
    return SimpleNamespace(name=name, contents=contents)


def files_of(sample):
    folder = ROOT / "data" / "samples" / sample.path
    return [uploaded(path.name, path.read_bytes()) for path in sorted(folder.iterdir())]


def zipped(files):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in files:
            packed.writestr(f"run/completions/{file.name}", file.contents)
    return uploaded("run.zip", content.getvalue())


def report(sample):
    log = read(sample, (), FOUND_OUT)
    return audited(log, log.primary, "").report


def ids(report):
    return {finding.id for finding in report.findings}


@pytest.fixture(scope="module")
def made():
    """The table of the made sample, as it is in the zip."""
    with zipfile.ZipFile(ROOT / "data" / "samples" / MADE.path) as packed:
        return pl.concat([pl.read_parquet(packed.read(name)) for name in packed.namelist()])


# --- the samples ------------------------------------------------------------------------------------------------------


def test_the_made_sample_is_what_its_script_makes(made, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    make_samples = importlib.import_module("make_samples")
    again = pl.concat(list(make_samples.steps()))
    assert again.schema == made.schema
    assert again.drop("advantage").equals(made.drop("advantage"))
    # The last bit of float32 may differ between machines.
    assert (again["advantage"] - made["advantage"]).abs().max() < 1e-6
    sys.modules.pop("make_samples")


@pytest.mark.slow
def test_the_made_sample_holds_verdicts_of_the_real_batch(made):
    published = load_published(ROOT / "data" / "bfcl_rewards.parquet")
    pays = {"correctness": 1, "style": 1, "conciseness": 5}
    every = {
        task: Counter(map(tuple, answers))
        for task, answers in zip(published.tasks, published.rewards(tuple(pays)).tolist(), strict=True)
    }
    groups = made.partition_by("prompt", maintain_order=True)
    assert [group["prompt"][0] for group in groups] == list(published.tasks[: len(groups)])
    assert {len(group) for group in groups} == {12}
    for group in groups:
        marks = Counter((c, s, b / 5) for c, s, b in group.select(*pays).iter_rows())
        assert marks <= every[group["prompt"][0]]
    assert set(made["completion"]) == {""}
    assert f"conciseness pays 0 or {pays['conciseness']} and" in MADE.told


def test_the_made_advantages_are_trls_grpo_by_hand(made):
    for group in made.partition_by("prompt", maintain_order=True)[::97]:
        sums = [sum(row) for row in group.select("correctness", "style", "conciseness").iter_rows()]
        mean = sum(sums) / len(sums)
        std = math.sqrt(sum((x - mean) ** 2 for x in sums) / (len(sums) - 1))
        for advantage, x in zip(group["advantage"], sums, strict=True):
            assert advantage == pytest.approx((x - mean) / (std + 1e-4), abs=2e-6)


def test_the_made_sample_has_findings_worth_reading():
    found = report(MADE)
    assert found.run["method"] == "grpo" and found.run["reproduced"]
    assert found.run["max_error"] < 2e-6
    assert {"reward-dominates", "ties-hide-signal", "priority-inversion"} <= ids(found)
    [dominates] = [finding for finding in found.findings if finding.id == "reward-dominates"]
    assert dominates.evidence["reward"] == "conciseness"
    assert "normalize_then_sum" in dominates.fix


def test_the_made_sample_says_that_it_is_no_training_run():
    told = read(MADE, (), FOUND_OUT).told
    assert "no training run" in told
    published = load_published(ROOT / "data" / "bfcl_rewards.parquet")
    assert f"{len(published.models)} configurations of 50 models" in told


def test_each_real_sample_has_its_verdict():
    trl, same, swift, verl = map(report, (TRL, SAME_NAME, MS_SWIFT, VERL))
    assert trl.run["method"] == "gdpo" and trl.run["reproduced"]
    assert list(trl.run["weights"].values()) == pytest.approx([1, 0.5, 2], rel=1e-3)
    assert "reward-columns-merged" in ids(same)
    assert swift.source["framework"] == "ms_swift" and swift.source["responses"] == 32
    assert "no-components" in ids(verl)


# --- what the reader gives -------------------------------------------------------------------------------------------


def test_several_files_and_a_zip_of_them_read_as_one_log():
    several, one = read(MADE, files_of(TRL), FOUND_OUT), read(MADE, [zipped(files_of(TRL))], FOUND_OUT)
    assert several.run.table.equals(one.run.table)
    assert several.run.table.equals(read(TRL, (), FOUND_OUT).run.table)
    assert "Your files: completions_00001.parquet and 3 more" in several.told
    assert "Your file: run.zip" in one.told
    assert several.primary is None


def test_an_upload_is_kept_nowhere_but_a_sample_is_read_once():
    before = len(own_run._logs._kept), len(own_run._audits._kept)
    log = read(MADE, files_of(SAME_NAME), FOUND_OUT)
    audited(log, None, "")
    assert (len(own_run._logs._kept), len(own_run._audits._kept)) == before
    assert read(TRL, (), FOUND_OUT) is read(TRL, (), FOUND_OUT)
    log = read(TRL, (), FOUND_OUT)
    assert audited(log, None, "") is audited(log, None, "")
    assert audited(log, None, "format_reward=2") is not audited(log, None, "")


def test_a_name_in_a_file_is_text_on_the_page():
    [file, *_] = files_of(TRL)
    table = pl.read_parquet(file.contents).rename({"format_reward": "<b id=own>"})
    content = io.BytesIO()
    table.write_parquet(content)
    log = read(MADE, [uploaded("<i>x.parquet", content.getvalue())], FOUND_OUT)
    shown = own_run.whose(log) + audited(log, None, "").html
    assert "<b id=own>" in log.run.rewards
    assert "<b id=own>" not in shown and "<i>x" not in shown
    assert "&lt;b id=own&gt;" in shown


BAD = {
    "nothing": b"",
    "random bytes": bytes(range(256)) * 8,
    "a cut file": files_of(TRL)[0].contents[:3000],
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD)
@pytest.mark.parametrize("name", ["completions_00001.parquet", "completions.jsonl", "run.zip", "rewards.csv"])
def test_a_file_that_is_no_log_is_one_sentence(name, content):
    with pytest.raises(gc.InputError) as caught:
        log = read(MADE, [uploaded(name, content)], FOUND_OUT)
        audited(log, None, "")
    assert "\n" not in str(caught.value)


def test_uploads_have_a_limit_together_and_names_of_their_own(monkeypatch):
    monkeypatch.setattr(own_run, "LARGEST", 20_000)
    with pytest.raises(gc.InputError, match=r"upload: expected at most 0 MB in all, got 0\.0 MB"):
        read(MADE, files_of(TRL), FOUND_OUT)
    first, second, *_ = files_of(TRL)
    with pytest.raises(gc.InputError, match=r"files of different names.*got two called completions_00001"):
        read(MADE, [first, uploaded(first.name, second.contents)], FOUND_OUT)


def test_a_reader_is_told_to_wait_for_large_files_alone():
    assert not own_run.large(()) and not own_run.large(files_of(TRL))
    half = uploaded("a.csv", bytes(own_run.LARGE // 2 + 1))
    assert own_run.large([half, half])
    assert "Auditing your files" in own_run.waiting("Auditing")


def test_a_zip_that_leads_elsewhere_or_swells_is_refused():
    for name, content in {"../completions_00001.parquet": b"x", "completions.jsonl": b"0" * 30_000_000}.items():
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(name, content)
        with pytest.raises(gc.InputError, match=r"run\.zip"):
            read(MADE, [uploaded("run.zip", packed.getvalue())], FOUND_OUT)


def test_a_correction_by_hand_is_obeyed():
    halves = read(TRL, (), Reading(group_size=4)).run
    assert halves.group_size == 4 and halves.table["group"].n_unique() == 32
    one = read(TRL, (), Reading(framework="generic", rewards=("length_reward",), group="prompt")).run
    assert one.framework == "generic" and one.rewards == ("length_reward",)
    with pytest.raises(gc.InputError, match="5"):
        read(TRL, (), Reading(group_size=5))
    with pytest.raises(gc.InputError, match="accuracy"):
        read(TRL, (), Reading(rewards=("accuracy",)))


@pytest.mark.parametrize("size", ["0", "-8", "2.5", "eight", "²"])
def test_a_group_size_that_is_none_is_refused(size):
    with pytest.raises(gc.InputError, match="responses a group: expected a whole number from 1"):
        own_run.reading(None, size, "", "")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("style", "weights: expected NAME=NUMBER, with commas between several, got 'style'"),
        ("style=much", "weights: expected NAME=NUMBER, with commas between several, got 'style=much'"),
        ("style=1, style = 2", "weights: expected each reward once, got 'style' twice"),
        ("style=1,,", "got ''"),
    ],
)
def test_weights_that_are_none_are_refused(text, told):
    with pytest.raises(gc.InputError, match=re.escape(told)):
        weighted(text)


@pytest.mark.parametrize("text", ["format_reward=nan", "format_reward=-inf", "length=1"])
def test_weights_of_nothing_or_without_end_are_refused(text):
    with pytest.raises(gc.InputError, match=text.split("=")[0]):
        audited(read(TRL, (), FOUND_OUT), None, text)


# --- what can be taken away ------------------------------------------------------------------------------------------


def test_the_downloads_open_and_hold_the_report():
    log = read(MADE, (), FOUND_OUT)
    found = audited(log, "correctness", "")
    files = {name: content() for _, name, content in own_run.downloads(log, found)}
    data = json.loads(files["audit.json"])
    note = data.pop("note")
    assert data == found.report.to_dict()
    page = files["audit.html"].decode()
    assert "no training run" in note and note in html_module.unescape(page) and "<" not in note
    assert page.lower().startswith("<!doctype html>") and all(finding.id in page for finding in found.report.findings)
    assert pl.read_csv(files["responses.csv"]).equals(log.run.table, null_equal=True)


def test_the_downloads_of_an_upload_hold_the_report_alone():
    log = read(MADE, files_of(TRL), FOUND_OUT)
    found = audited(log, None, "")
    files = {name: content() for _, name, content in own_run.downloads(log, found)}
    assert json.loads(files["audit.json"]) == found.report.to_dict()
    assert "Your file" not in files["audit.html"].decode()


def test_a_large_table_is_parquet(monkeypatch):
    monkeypatch.setattr(own_run, "LARGEST_CSV", 100)
    log = read(TRL, (), FOUND_OUT)
    *_, (label, name, content) = own_run.downloads(log, audited(log, None, ""))
    assert (label, name) == ("Table (Parquet)", "responses.parquet")
    assert pl.read_parquet(content()).equals(log.run.table)


# --- the page --------------------------------------------------------------------------------------------------------


def page(files=(), sample=MADE):
    return app.run(defs={"own_files": SimpleNamespace(value=tuple(files)), "own_sample": SimpleNamespace(value=sample)})


def test_the_default_shows_the_findings_of_the_made_sample(default_page):
    outputs, defs = default_page
    text = html_of(outputs)
    assert "Check your own run" in text and "no training run" in text
    assert audited(defs["own_log"], "correctness", "").html in text


def test_an_upload_comes_before_the_sample():
    outputs, defs = page(files_of(TRL))
    assert defs["own_log"].run.rewards == ("correctness_reward", "format_reward", "length_reward")
    assert "Your files: completions_00001.parquet" in html_of(outputs)
    assert "no training run" not in html_of(outputs)


def test_a_bad_upload_is_a_sentence_and_the_page_goes_on():
    outputs, defs = page([uploaded("completions_00001.parquet", b"PAR1 no more")])
    text = html_of(outputs)
    assert "completions_00001.parquet" in text and "Traceback" not in text
    assert defs.get("own_audit") is None and 'class="audit' not in text
    assert "Where rewards are independent" in text


def test_nothing_of_section_8_runs_again_when_a_mark_is_flipped():
    tree = ast.parse((ROOT / "app.py").read_text(encoding="utf-8"))
    cells = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("own_")]
    assert len(cells) >= 4
    assert all(argument.arg.startswith("own_") for cell in cells for argument in cell.args.args)
