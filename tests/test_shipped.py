"""Files of data that are missing or have changed: a sentence where their chapter was, and the others go on."""

from dataclasses import replace

import pytest

import gdpo_core as gc
from views import lab, prompts, results, run, shipped, train
from views.link import Session

DATA = shipped.ROOT / "data"
CHANGED = "expected the file that was shipped, got another: its SHA-256 is not the one in data/README.md"


@pytest.fixture
def other(monkeypatch):
    """Makes a file of data one that is not as it was shipped, or that is not there."""
    real = shipped.checksums()
    prompts.published.cache_clear()
    results.results.cache_clear()

    def change(file: str, missing: bool = False) -> None:
        # What is compared is nudged instead of the file, which other tests read at the same time.
        assert missing or file in real
        monkeypatch.setattr(shipped, "checksums", lambda: real | {file: "0" * 64})

    return change


def test_every_file_of_data_is_listed_and_as_it_was_shipped():
    files = {path.relative_to(shipped.ROOT).as_posix() for path in DATA.rglob("*") if path.is_file()}
    assert set(shipped.checksums()) == files - {"data/README.md"}
    assert shipped.shipped(DATA) == DATA


def test_a_file_that_has_changed_is_named_and_so_is_one_that_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(shipped, "ROOT", tmp_path)
    (tmp_path / "data/tasks").mkdir(parents=True)
    one = "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"  # of 1, from sha256sum
    monkeypatch.setattr(shipped, "checksums", lambda: {"data/tasks/1.json": one, "data/tasks2.json": one})
    file = tmp_path / "data/tasks/1.json"
    for path in (file, file.parent):
        with pytest.raises(gc.InputError, match=r"data/tasks/1\.json: expected the file .* got No such file"):
            shipped.shipped(path)
        file.write_text("1")
        (file.parent / "of a teacher.json").write_text("{}")
        assert shipped.shipped(path) == path
        file.write_text("2")
        with pytest.raises(gc.InputError, match=rf"data/tasks/1\.json: {CHANGED}"):
            shipped.shipped(path)
        file.unlink()
    assert shipped.shipped(file.parent / "of a teacher.json")


def test_a_changed_task_closes_the_lab(other):
    other("data/tasks/2_hotel.json")
    assert f"The Lab is closed: data/tasks/2_hotel.json: {CHANGED}" in lab.chapter(DATA / "tasks", Session.of({})).text


@pytest.mark.parametrize("file", ["data/scenarios.json", "data/gallery.json"])
def test_a_changed_scenario_or_picture_closes_training(other, file):
    other(file)
    assert f"This chapter can't be shown. {file}: {CHANGED}" in train.chapter(DATA, Session.of({})).text


def test_published_answers_that_changed_close_the_evidence(other):
    from views import evidence

    other("data/bfcl_rewards.parquet")
    shown = evidence.chapter(DATA / "bfcl_rewards.parquet", Session.of({}))
    assert f"cannot be shown. data/bfcl_rewards.parquet: {CHANGED}" in shown.text


def test_a_table_of_the_paper_that_changed_is_a_sentence_among_the_others(other):
    from views.evidence import part

    other("data/paper_results.csv")
    data = prompts.published(DATA / "bfcl_rewards.parquet")
    assert f"data/paper_results.csv: {CHANGED}" in part(data, "paper-table", prompts.Choice())


def test_a_sample_whose_step_is_missing_is_refused_and_the_next_is_read(other):
    other("data/samples/verl_v1/99.jsonl", missing=True)
    with pytest.raises(gc.InputError, match=r"data/samples/verl_v1/99\.jsonl: expected the file that was shipped"):
        run._of_sample(run.SAMPLES[-1], run.Reading())
    assert run._of_sample(run.SAMPLES[1], run.Reading()).run.rewards


def test_the_lab_asks_once_for_each_visitor_and_never_at_a_flip(monkeypatch):
    asked = []
    monkeypatch.setattr(shipped, "checksums", lambda: asked.append(1) or {})
    session = Session.of({})
    lab.chapter(DATA / "tasks", session)
    assert asked == [1]
    session.lab._asked(vars(replace(session.lab.state, marks=((1, 0, 1),) * 12)))
    assert asked == [1]
