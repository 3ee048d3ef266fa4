"""Your run without a browser: the samples are what they say, and any upload ends in a report or one sentence."""

import html as html_module
import importlib
import io
import json
import math
import re
import sys
import zipfile
from collections import Counter
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

import gdpo_core as gc
from gdpo_core.bfcl import load_published
from gdpo_core.report import body, details, figures, front
from views.html import board_or_reason
from views.nav import Nav
from views.run import choose, downloads, groups, show
from views.run import log as logs
from views.run.log import audit_log, named_weights, read
from views.run.samples import SAMPLES

ROOT = Path(__file__).parent.parent
GRPO_RUN, GDPO_RUN, MADE, TRL, SAME_NAME, MS_SWIFT, VERL = SAMPLES


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
    log = read(sample)
    return audit_log(log, log.primary, "")


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
    assert f"style pays 0 or {pays['style']} and" in MADE.source_note


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
    told = read(MADE).source_note
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


@pytest.mark.slow
def test_several_files_and_a_zip_of_them_read_as_one_log():
    several, one = read(MADE, files_of(TRL)), read(MADE, [zipped(files_of(TRL))])
    found = (several, one, read(TRL))
    tables = [downloads.downloads(log, audit_log(log, None, ""))[2][2]() for log in found]
    assert tables[0] == tables[1] == tables[2]
    assert "Your files: completions_00001.parquet and 3 more" in several.source_note
    assert "Your file: run.zip" in one.source_note
    assert several.primary is None


def test_an_upload_is_kept_nowhere_but_a_sample_is_read_once():
    before = logs._of_sample.cache_info().currsize, logs._audit_of_sample.cache_info().currsize
    log = read(MADE, files_of(SAME_NAME))
    audit_log(log, None, "")
    assert (logs._of_sample.cache_info().currsize, logs._audit_of_sample.cache_info().currsize) == before
    assert read(TRL) is read(TRL)
    log = read(TRL)
    assert audit_log(log, None, "") is audit_log(log, None, "")
    assert audit_log(log, None, "format_reward=2") is not audit_log(log, None, "")


def test_a_name_in_a_file_is_text_on_the_page():
    [file, *_] = files_of(TRL)
    table = pl.read_parquet(file.contents).rename({"format_reward": "<b id=own>"})
    content = io.BytesIO()
    table.write_parquet(content)
    log = read(MADE, [uploaded("<i>x.parquet", content.getvalue())])
    found = audit_log(log, None, "")
    shown = (
        show.source_note(log).text + body(found) + front(found) + "".join(draw() for draw in details(found).values())
    )
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
        log = read(MADE, [uploaded(name, content)])
        audit_log(log, None, "")
    assert "\n" not in str(caught.value)


def test_uploads_have_a_limit_together_and_names_of_their_own(monkeypatch):
    monkeypatch.setattr(logs.sessions, "LARGEST", 20_000)
    with pytest.raises(gc.InputError, match=r"upload: expected at most 0 MB in all, got 0\.0 MB"):
        read(MADE, files_of(TRL))
    first, second, *_ = files_of(TRL)
    with pytest.raises(gc.InputError, match=r"files of different names.*got two called completions_00001"):
        read(MADE, [first, uploaded(first.name, second.contents)])


def test_a_zip_that_leads_elsewhere_or_swells_is_refused():
    for name, content in {"../completions_00001.parquet": b"x", "completions.jsonl": b"0" * 30_000_000}.items():
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(name, content)
        with pytest.raises(gc.InputError, match=r"run\.zip"):
            read(MADE, [uploaded("run.zip", packed.getvalue())])


def test_a_correction_by_hand_is_obeyed():
    halves = read(TRL, group_size="4").run
    assert halves.group_size == 4 and halves.table["group"].n_unique() == 32
    one = read(TRL, framework="generic", rewards="length_reward", group="prompt").run
    assert one.framework == "generic" and one.rewards == ("length_reward",)
    with pytest.raises(gc.InputError, match="5"):
        read(TRL, group_size="5")
    with pytest.raises(gc.InputError, match="accuracy"):
        read(TRL, rewards="accuracy")


@pytest.mark.parametrize("size", ["0", "-8", "2.5", "eight", "²"])
def test_a_group_size_that_is_none_is_refused(size):
    with pytest.raises(gc.InputError, match="responses per prompt: expected a whole number from 1"):
        logs.parse_corrections(None, size, "", "")


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
        named_weights(text)


@pytest.mark.parametrize("text", ["format_reward=nan", "format_reward=-inf", "length=1"])
def test_weights_of_nothing_or_without_end_are_refused(text):
    with pytest.raises(gc.InputError, match=text.split("=")[0]):
        audit_log(read(TRL), None, text)


# --- what can be taken away ------------------------------------------------------------------------------------------


def test_the_downloads_open_and_hold_the_report():
    log = read(MADE)
    found = audit_log(log, "correctness", "")
    files = {name: content() for _, name, content in downloads.downloads(log, found)}
    data = json.loads(files["audit.json"])
    note = data.pop("note")
    assert data == found.to_dict()
    page = files["audit.html"].decode()
    assert "no training run" in note and note in html_module.unescape(page) and "<" not in note
    assert page.lower().startswith("<!doctype html>") and all(finding.id in page for finding in found.findings)
    assert pl.read_csv(files["responses.csv"]).equals(log.run.table, null_equal=True)


@pytest.mark.slow
def test_the_downloads_of_an_upload_hold_the_report_alone():
    log = read(MADE, files_of(TRL))
    found = audit_log(log, None, "")
    files = {name: content() for _, name, content in downloads.downloads(log, found)}
    assert json.loads(files["audit.json"]) == found.to_dict()
    assert "Your file" not in files["audit.html"].decode()


# --- the page --------------------------------------------------------------------------------------------------------


def front_of(sample=MADE):
    log = read(sample)
    return show.front(audit_log(log, log.primary, "")).text


def test_the_claim_says_in_sixty_words_what_a_log_must_hold_and_what_it_cannot_tell():
    claim, lead = choose.OPENING.split("\n\n")
    assert claim.startswith("# ") and len(lead.split()) <= 60
    assert "one column per reward and the advantages" in lead and "verl" in lead and "NeMo-RL" in lead


def test_the_default_shows_the_findings_of_the_made_sample():
    found = report(MADE)
    assert found.run["primary"] == "correctness"
    # The page adds what saves a figure.
    pieces = re.split("<figure[^>]*>|</figure>", front(found, guide=show.guide))
    text = show.front(found).text
    assert len(pieces) == 3 and all(piece in text for piece in pieces)


def test_the_worst_finding_is_open_and_its_line_is_copied_with_a_click():
    text = front_of()
    [dominates] = [f for f in report(MADE).findings if f.id == "reward-dominates"]
    assert text.index("<details") == text.index('<details class="card warning" open=""')
    assert f'data-copy="{html_module.escape(dominates.fix)}"' in text.replace("&#34;", "&quot;")


def test_each_first_finding_has_the_picture_that_explains_it():
    found = {sample: re.search(r"<figcaption><b>(.*?)</b>", front_of(sample)) for sample in SAMPLES}
    assert found[MADE][1] == "Which reward makes the update"
    assert found[TRL][1] == "Constant rewards over the run"
    assert found[MS_SWIFT][1] == "Which reward would have made the update"
    assert found[SAME_NAME] is None  # one reward: there is nothing to draw


def test_the_first_chart_has_no_rows_that_say_the_same_twice():
    first = figures.picture(report(MADE))
    assert "GRPO without std" not in first.drawn and "grpo_no_std" in first.rows[0]


@pytest.mark.parametrize("sample", [SAME_NAME, VERL], ids=lambda sample: sample.title)
def test_what_one_column_cannot_tell_is_not_shown(sample):
    found = report(sample)
    told = front(found) + "".join(draw() for draw in details(found).values()) + body(found)
    assert "tied pairs" not in told and "that tie" not in told and "update, GRPO" not in told
    assert "does not hold each reward in a column of its own" in told
    assert all(method["groups_with_ties"] == 0 for method in found.to_dict()["methods"].values())  # the JSON stays


def written(page):
    """What the address holds."""
    return {key: text for key, text in page.controls.items() if text}


def test_an_upload_stays_out_of_the_address():
    page = Nav({"run-primary": "format_reward", "run-weights": "format_reward=2"}, False)
    log = read(MADE, files_of(TRL))
    corrections = choose.corrections(page, MADE, files_of(TRL))
    assert choose.primary(page, log).value is None and not any(corrections.value.values())
    values, _ = choose.address(MADE, {"weights": "secret=2"}, log, "secret")
    assert values == {"run-sample": MADE.id, "run-weights": None, "run-primary": None}


def test_an_address_brings_sample_primary_and_corrections_which_another_sample_has_not():
    asked = {"run-sample": "trl_gdpo", "run-primary": "format_reward", "run-weights": "format_reward=2"}
    page = Nav(asked, False)
    sample = choose.sample(page).value
    corrections = choose.corrections(page, sample, ())
    primary = choose.primary(page, read(sample))
    assert sample is TRL and primary.value == "format_reward"
    assert corrections.value["weights"] == "format_reward=2" and not page.unread
    page.write("run", *choose.address(sample, corrections.value, read(sample), primary.value))
    assert written(page) == asked
    assert choose.corrections(page, MADE, ()).value["weights"] == ""
    assert choose.primary(page, read(MADE)).value == "correctness"


def test_what_stands_untouched_stays_out_of_the_address():
    page = Nav({}, False)
    log = read(GRPO_RUN)
    page.write("run", *choose.address(GRPO_RUN, choose.corrections(page, GRPO_RUN, ()).value, log, log.primary))
    assert written(page) == {}
    page.write("run", *choose.address(GRPO_RUN, choose.corrections(page, GRPO_RUN, ()).value, log, None))
    assert written(page) == {"run-primary": "none"}


def test_an_address_with_an_unknown_sample_is_noted_once():
    page = Nav({"run-sample": "mine", "run-primary": "speed"}, False)
    for _ in range(2):
        assert choose.sample(page).value is GRPO_RUN
        assert choose.primary(page, read(GRPO_RUN)).value == "correctness"
    assert page.unread


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.id)
def test_the_program_prints_what_the_report_shows(sample, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    found = report(sample)
    program = logs.program(read(sample), found, "")
    assert program.count("\n") <= 15
    exec(program, {})
    printed = capsys.readouterr().out
    assert printed.startswith(f"{found.run['method']} {found.run['convention']} {found.run['weights_used']}")
    for reward in found.rewards:
        assert f"{reward['name']} {reward['dead_groups']} {reward['update_share']}" in printed
    for finding in found.findings:
        assert f"{finding.severity} {finding.id}" in printed


# --- groups, and what if ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.id)
def test_each_group_that_shows_a_finding_opens_on_the_board_with_the_cores_numbers(sample):
    audit = report(sample)
    choice = groups.choice(audit)
    shown = list(choice.options.values())
    assert {id(group) for group in shown} == set(map(id, audit.groups)) and choice.value == next(iter(shown), None)
    for group in shown:
        if any(map(math.isnan, chain(*group.rewards))):
            continue
        board, convention = groups.board(group, audit), gc.CONVENTIONS[group.convention]
        lengths = [max(1, round(n)) for n in group.lengths or [1] * len(group.rewards)]
        given = {"weights": group.weights, "convention": convention}
        given |= {"lengths": lengths} if convention.last_step == "tokens" else {}
        assert board.rewards.tolist() == pytest.approx(np.array(group.rewards), rel=1e-6)
        for side, method in enumerate(("grpo", "gdpo")):
            a = gc.advantages(group.rewards, method, **given).tolist()
            assert board.drawing["a"][side] == pytest.approx(a, abs=1e-6)
        if group.completions:
            assert board.answers[0].startswith(group.completions[0][:100])
        assert "Groups that show it" in groups.group_view(audit, choice, board_or_reason(lambda one=board: one)).text


def test_a_group_that_the_board_cannot_show_is_a_sentence():
    rows = [{"prompt": "x", "a": i % 2, "b": i % 3, "completion": f"<i>{i}"} for i in range(65)]
    missing = [{"prompt": "x", "a": i % 2, "b": None if i == 1 else 1 - i % 2, "completion": "y"} for i in range(4)]
    for log, said in ((rows, "expected 2 to 64 answers, got 65"), (missing, "got nan in answer 2, reward 2")):
        audit = gc.audit(gc.read_run(log, group_size=len(log)))
        choice = groups.choice(audit)
        html = groups.group_view(
            audit, choice, board_or_reason(lambda one=choice, of=audit: groups.board(one.value, of))
        ).text
        assert said in html and "<i>" not in html
    assert groups.group_view(None, groups.choice(None), None).text == ""


def test_a_setting_gives_the_numbers_of_the_core_for_a_sample_and_for_an_upload_alike():
    controls = groups.setting(Nav({"run-sample": "trl_gdpo", "run-if_method": "grpo"}, False), TRL, read(TRL))
    assert controls.value == {"if_method": "grpo", "if_weights": ""}
    setting = groups.what_if_arguments({"if_method": "grpo", "if_weights": "length_reward=0.2"})
    assert setting == {"method": "grpo", "weights": {"length_reward": 0.2}} and not groups.what_if_arguments(
        {"if_method": "", "if_weights": ""}
    )
    mine = gc.audit(gc.read_run(ROOT / "data/samples" / TRL.path)).what_if(**setting)
    for log in (read(TRL), read(TRL, files_of(TRL))):
        found = logs.what_if(log, audit_log(log, None, ""), "", setting)
        assert found.to_dict() == mine.to_dict()
        assert "would have" in groups.what_if_view(controls, found).text
    with pytest.raises(gc.InputError, match="what_if, weights"):
        logs.what_if(read(TRL), report(TRL), "", {"weights": {"nothing": 1.0}})
    assert "what_if" in groups.what_if_view(controls, gc.InputError("what_if: no")).text


def test_a_setting_goes_into_the_address_of_a_sample():
    page = Nav({}, False)
    values, untouched = choose.address(TRL, {"if_method": "grpo", "if_weights": "a=1"}, read(TRL), None)
    page.write("run", values, untouched)
    assert written(page) == {"run-sample": "trl_gdpo", "run-if_method": "grpo", "run-if_weights": "a=1"}
