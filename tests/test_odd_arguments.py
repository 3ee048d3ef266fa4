"""Arguments that no log or caller should hold: each is refused in one sentence."""

import pytest

import gdpo_core as gc

ROWS = [{"prompt": "ab"[i // 4], "correct": float(i % 2), "short": float(i % 3 == 0)} for i in range(8)]


@pytest.mark.parametrize("asked", [[], {}, 3, "GDPO"])
def test_a_method_of_another_type_is_refused(asked):
    with pytest.raises(gc.InputError, match="asked: expected one of"):
        gc.audit(gc.read_run(ROWS), asked=asked)


@pytest.mark.parametrize("weight", [10**400, float("nan"), float("-inf"), True, "1e309"])
def test_a_weight_that_no_float_can_hold_is_refused(weight):
    with pytest.raises(gc.InputError, match="weights, correct: expected a finite number"):
        gc.audit(gc.read_run(ROWS), [weight, 1])


def test_a_home_of_nobody_is_no_path():
    with pytest.raises(gc.InputError, match="~nobody-of-this-name/log: expected a file or directory"):
        gc.read_run("~nobody-of-this-name/log")


def test_a_list_of_dicts_may_hold_half_a_character():
    half = [{**row, "prompt": row["prompt"] + "\ud800", "note\ud800": "x"} for row in ROWS]
    assert gc.read_run(half).left_out == (r"note\ud800",)


def test_a_number_type_that_polars_does_not_know_is_refused():
    arrow = pytest.importorskip("pyarrow")
    wide = arrow.table({"prompt": ["a", "a"], "correct": arrow.array([1, 2]).cast(arrow.decimal256(70, 2))})
    with pytest.raises(gc.InputError, match="table: expected a table whose columns polars can take"):
        gc.read_run(wide)


def test_a_url_that_names_no_file_is_refused():
    with pytest.raises(gc.InputError, match=r"HF://nothing\.csv: expected a log that can be read as a table"):
        gc.read_run("HF://nothing.csv")


def test_a_glob_that_meets_a_folder_again_through_a_link_reads_each_file_once(tmp_path):
    (tmp_path / "log.csv").write_text("prompt,correct\na,1\na,0\nb,1\nb,1\n")
    (tmp_path / "again").symlink_to(tmp_path)
    assert len(gc.read_run(f"{tmp_path}/**/*.csv").table) == 4
