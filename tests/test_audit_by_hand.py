"""The audit by hand finds what `gdpo audit` finds, with which it shares no code, and says where it finds nothing."""

import runpy
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import gdpo_audit as ga

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "data" / "samples"
HAND = runpy.run_path(str(ROOT / "examples" / "audit_by_hand.py"))


def test_the_audit_by_hand_has_at_most_120_lines_and_imports_none_of_ours():
    text = (ROOT / "examples" / "audit_by_hand.py").read_text("utf-8")
    assert len(text.splitlines()) <= 120 and "import gdpo" not in text and "from gdpo" not in text


@pytest.mark.parametrize("name", ["pays_5_grpo", "pays_5_gdpo", "trl_gdpo"])
def test_the_audit_by_hand_equals_the_audit(name):
    report = ga.audit(ga.read_run(SAMPLES / name)).to_dict()
    names, r, advantage, group, step = HAND["read"](SAMPLES / name)
    method, w, off = HAND["find_method"](r, advantage, group, step)
    assert names == [reward["name"] for reward in report["rewards"]]
    assert (len(r), group[-1] + 1, step[-1] + 1) == tuple(report["source"][k] for k in ("responses", "groups", "steps"))
    assert report["run"]["reproduced"] and method == report["run"]["method"] and off < 1e-5
    assert w.tolist() == list(report["run"]["weights"].values())
    for shown in ("grpo", "grpo_no_std", "gdpo"):
        parts = HAND["parts_of"](shown, r, w, group, step)
        for reward, share, push in zip(
            report["rewards"], HAND["shares"](parts), HAND["pushes"](parts, r, group), strict=True
        ):
            assert share == pytest.approx(reward["update_share"][shown], abs=2e-5)
            assert push == pytest.approx(reward["push"][shown], abs=2e-5)
    dominate = [f["evidence"]["reward"] for f in report["findings"] if f["id"] == "reward-dominates"]
    share = HAND["shares"](HAND["parts_of"](method, r, w, group, step))
    assert [names[k] for k in HAND["dominating"](share, w)] == dominate


def test_a_reward_dominates_from_sixty_percent_and_twice_its_weight_on():
    ones, heavy = np.ones(3), np.array([1, 1, 3.0])  # by their weights, a third each, and 9/11 of the last
    assert HAND["dominating"](np.array([0.2, 0.2, 0.6]), ones) == []  # less than 2/3
    assert HAND["dominating"](np.array([0.16, 0.16, 0.68]), ones) == [2]
    assert HAND["dominating"](np.array([0.1, 0.1, 0.8]), heavy) == []
    four = np.ones(4)
    assert HAND["dominating"](np.array([0.2, 0.1, 0.1, 0.6]), four) == [3]
    assert HAND["dominating"](np.array([0.2, 0.1, 0.11, 0.59]), four) == []


def test_the_audit_by_hand_prints_what_it_found_and_nothing_where_no_method_fits(tmp_path, capsys):
    HAND["main"](SAMPLES / "pays_5_grpo")
    said = capsys.readouterr().out
    assert (
        said.startswith("grpo with the weights [1.0, 1.0, 1.0] is nearest") and "conciseness accounts for 78%" in said
    )
    shutil.copytree(SAMPLES / "trl_gdpo", tmp_path / "log")
    for file in (tmp_path / "log").iterdir():  # an advantage that no method gives
        pl.read_parquet(file).with_columns(pl.col("advantage").clip(-1, 1)).write_parquet(file)
    with pytest.raises(SystemExit, match="So none of the three methods made this log"):
        HAND["main"](tmp_path / "log")
    assert "accounts for" not in capsys.readouterr().out
