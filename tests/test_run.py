"""Your run without a browser: the samples are what they say, and any upload ends in a report or one sentence."""

import ast
import html as html_module
import importlib
import io
import json
import math
import re
import shutil
import sys
import zipfile
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

import gdpo_core as gc
from gdpo_core.bfcl import load_published
from gdpo_core.report import behind, body, front
from views import run
from views.link import Session
from views.run import SAMPLES, Reading, audited, read, weighted

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
    pays = {"correctness": 1, "style": 5, "conciseness": 1}
    every = {
        task: Counter(map(tuple, answers))
        for task, answers in zip(published.tasks, published.rewards(tuple(pays)).tolist(), strict=True)
    }
    groups = made.partition_by("prompt", maintain_order=True)
    assert [group["prompt"][0] for group in groups] == list(published.tasks[: len(groups)])
    assert {len(group) for group in groups} == {12}
    for group in groups:
        marks = Counter((c, s / 5, b) for c, s, b in group.select(*pays).iter_rows())
        assert marks <= every[group["prompt"][0]]
    assert set(made["completion"]) == {""}
    assert f"style pays 0 or {pays['style']} and" in MADE.told


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
    assert {"reward-dominates", "priority-inversion"} <= ids(found)
    [dominates] = [finding for finding in found.findings if finding.id == "reward-dominates"]
    assert dominates.evidence["reward"] == "style" and dominates.effect["update_share"][1] < 0.5
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
    logs = (several, one, read(TRL, (), FOUND_OUT))
    tables = [run.downloads(log, audited(log, None, ""))[-1][2]() for log in logs]
    assert tables[0] == tables[1] == tables[2]
    assert "Your files: completions_00001.parquet and 3 more" in several.told
    assert "Your file: run.zip" in one.told
    assert several.primary is None


def test_a_sample_that_is_missing_is_a_sentence_and_the_others_are_read(tmp_path, monkeypatch):
    real = run.SAMPLES[1]
    shutil.copytree(run.DATA / "samples" / real.path, tmp_path / "samples" / real.path)
    monkeypatch.setattr(run, "DATA", tmp_path)  # without the published answers
    run._of_sample.cache_clear()
    assert run._of_sample(real, run.Reading()).run.rewards
    with pytest.raises(gc.InputError, match="samples/verl_v1: expected the files of a log, got none"):
        run._of_sample(run.SAMPLES[-1], run.Reading())
    run._of_sample.cache_clear()


def test_an_upload_is_kept_nowhere_but_a_sample_is_read_once():
    before = run._of_sample.cache_info().currsize, run._audit_of_sample.cache_info().currsize
    log = read(MADE, files_of(SAME_NAME), FOUND_OUT)
    audited(log, None, "")
    assert (run._of_sample.cache_info().currsize, run._audit_of_sample.cache_info().currsize) == before
    assert read(TRL, (), FOUND_OUT) is read(TRL, (), FOUND_OUT)
    log = read(TRL, (), FOUND_OUT)
    assert audited(log, None, "").report is audited(log, None, "").report
    assert audited(log, None, "format_reward=2").report is not audited(log, None, "").report


def test_a_name_in_a_file_is_text_on_the_page():
    [file, *_] = files_of(TRL)
    table = pl.read_parquet(file.contents).rename({"format_reward": "<b id=own>"})
    content = io.BytesIO()
    table.write_parquet(content)
    log = read(MADE, [uploaded("<i>x.parquet", content.getvalue())], FOUND_OUT)
    found = audited(log, None, "").report
    shown = run.whose(log) + body(found) + front(found) + "".join(draw() for draw in behind(found).values())
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
    monkeypatch.setattr(run.limits, "LARGEST", 20_000)
    with pytest.raises(gc.InputError, match=r"upload: expected at most 0 MB in all, got 0\.0 MB"):
        read(MADE, files_of(TRL), FOUND_OUT)
    first, second, *_ = files_of(TRL)
    with pytest.raises(gc.InputError, match=r"files of different names.*got two called completions_00001"):
        read(MADE, [first, uploaded(first.name, second.contents)], FOUND_OUT)


def test_a_reader_is_told_to_wait_for_large_files_alone():
    assert not run.large(()) and not run.large(files_of(TRL))
    half = uploaded("a.csv", bytes(run.LARGE // 2 + 1))
    assert run.large([half, half])
    assert "Auditing your files" in run.waiting("Auditing")


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
    with pytest.raises(gc.InputError, match="responses per prompt: expected a whole number from 1"):
        run.reading(None, size, "", "")


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
    files = {name: content() for _, name, content in run.downloads(log, found)}
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
    files = {name: content() for _, name, content in run.downloads(log, found)}
    assert json.loads(files["audit.json"]) == found.report.to_dict()
    assert "Your file" not in files["audit.html"].decode()


def test_a_large_table_is_parquet(monkeypatch):
    monkeypatch.setattr(run, "LARGEST_CSV", 100)
    log = read(TRL, (), FOUND_OUT)
    *_, (label, name, content) = run.downloads(log, audited(log, None, ""))
    assert (label, name) == ("Table (Parquet)", "responses.parquet")
    assert pl.read_parquet(content()).equals(log.run.table)


# --- the page --------------------------------------------------------------------------------------------------------


def shown(sample=MADE, files=(), primary=None, asked=None, session=None):
    """What the cells of the chapter show, and the session after them."""
    session = session or Session()
    asked = {"framework": None, "group_size": "", "rewards": "", "group": "", "weights": "", **(asked or {})}
    given = run.read_or_why(sample, files, asked)
    if given.log is None:
        return given.shown.text, session
    return given.shown.text + run.audited_or_why(given, primary or given.log.primary, session).text, session


def test_the_claim_says_in_sixty_words_what_a_log_must_hold_and_what_it_cannot_tell():
    claim, lead = run.opening().split("\n\n")
    assert claim.startswith("# ") and len(lead.split()) <= 60
    assert "one column per reward and the advantages" in lead and "verl" in lead and "NeMo-RL" in lead


def test_the_tour_hears_of_a_sample_that_was_chosen_and_of_files_but_not_of_what_was_there():
    for link in ({}, {"run-sample": "trl_gdpo"}):
        session = Session.of(link)
        first = run.samples(session).value
        other = next(sample for sample in SAMPLES if sample is not first)
        assert 'data-deed="audited"' not in shown(first, session=session)[0]
        assert 'data-deed="audited"' in shown(other, session=session)[0]
        assert 'data-deed="audited"' in shown(first, files_of(TRL), session=session)[0]


def test_the_default_shows_the_findings_of_the_made_sample():
    text, session = shown()
    assert "no training run" in text
    report = audited(read(MADE, (), FOUND_OUT), "correctness", "").report
    # The page adds what saves a figure.
    pieces = re.split("<figure[^>]*>|</figure>", front(report, guide=run.guide))
    assert len(pieces) == 2 * len(report.findings) + 3 and all(piece in text for piece in pieces)
    assert session.audited.run["primary"] == "correctness"


def test_the_worst_finding_is_open_and_its_line_is_copied_with_a_click():
    text, session = shown()
    [dominates] = [f for f in session.audited.findings if f.id == "reward-dominates"]
    assert text.index("<details") == text.index('<details class="card warning" open=""')
    assert f'data-copy="{html_module.escape(dominates.fix)}"' in text.replace("&#34;", "&quot;")


def test_each_first_finding_has_the_picture_that_explains_it():
    titles = {}
    for sample in SAMPLES:
        text, _ = shown(sample)
        titles[sample] = re.search(r"<figcaption><b>(.*?)</b>", text)[1]
    assert titles[MADE] == "Which reward makes the update"
    assert titles[TRL] == "Groups in which a reward is constant"
    assert titles[SAME_NAME] == titles[MS_SWIFT] == titles[VERL] == "What this log holds"


@pytest.mark.parametrize("sample", [SAME_NAME, VERL], ids=lambda sample: sample.title)
def test_what_one_column_cannot_tell_is_not_shown(sample):
    found = report(sample)
    told = front(found) + "".join(draw() for draw in behind(found).values()) + body(found)
    assert "tied pairs" not in told and "that tie" not in told and "update, GRPO" not in told
    assert "does not hold each reward in a column of its own" in told
    assert all(method["groups_with_ties"] == 0 for method in found.to_dict()["methods"].values())  # the JSON stays


def test_an_upload_comes_before_the_sample_and_its_names_stay_out_of_links():
    session = Session()
    text, _ = shown(files=files_of(TRL), session=session)
    assert "Your files: completions_00001.parquet" in text and "no training run" not in text
    log = read(MADE, files_of(TRL), FOUND_OUT)
    element = run.primary(log, session)
    assert element.value is None and "run-primary" not in session.query("run")


def test_a_bad_upload_is_a_sentence():
    text, session = shown(files=[uploaded("completions_00001.parquet", b"PAR1 no more")])
    assert "completions_00001.parquet" in text and "Traceback" not in text and 'class="audit' not in text
    assert session.audited is None


def test_an_audit_that_fails_takes_the_last_ones_program_away():
    _, session = shown()
    text, _ = shown(asked={"weights": "accuracy=1"}, session=session)
    assert "accuracy" in text and session.audited is None and "run" not in session.programs


def test_a_link_brings_sample_primary_and_corrections():
    asked = {"run-sample": "trl_gdpo", "run-primary": "format_reward", "run-weights": "format_reward=2"}
    session = Session.of(asked)
    sample = run.samples(session).value
    element = run.corrections(session)
    log = read(sample, (), Reading())
    assert sample is TRL and run.primary(log, session).value == "format_reward"
    assert element.value["weights"] == "format_reward=2" and not session.notes
    for key, value in asked.items():
        assert f"{key}={value.replace('=', '%3D')}" in session.query("run")


def test_a_link_with_an_unknown_sample_is_noted():
    session = Session.of({"run-sample": "mine", "run-primary": "speed"})
    assert run.samples(session).value is MADE
    assert run.primary(read(MADE, (), FOUND_OUT), session).value == "correctness"
    assert len(session.notes) == 2


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.id)
def test_the_program_prints_what_the_report_shows(sample, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    _, session = shown(sample)
    program = session.programs["run"]()
    assert program.count("\n") <= 15
    exec(program, {})
    printed, found = capsys.readouterr().out, session.audited
    assert printed.startswith(f"{found.run['method']} {found.run['convention']} {found.run['weights_used']}")
    for reward in found.rewards:
        assert f"{reward['name']} {reward['dead_groups']} {reward['update_share']}" in printed
    for finding in found.findings:
        assert f"{finding.severity} {finding.id}" in printed


def test_no_cell_of_the_chapter_depends_on_another_chapter():
    tree = ast.parse((ROOT / "app.py").read_text(encoding="utf-8"))
    cells = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("run_")]
    assert 4 <= len(cells) <= 8
    names = {argument.arg for cell in cells for argument in cell.args.args}
    assert all(name in ("session", "edit", "run") or name.startswith("run_") for name in names)
