"""`gdpo explain` in a terminal: the numbers that it prints, and the one clear line that it prints where it fails."""

import gzip
import json
import re
import subprocess
import sys
from base64 import b64decode

import pytest
from logs import gdpo

import gdpo_core as gc
from scripts.make_board import EXPLAIN, FILE

EXAMPLE = [[1, 1, 1], [1, 1, 0], [0, 1, 1], [1, 0, 1]]
RESPONSES = ["111", "110", "011", "101"]


def cells(text) -> dict[str, list[str]]:
    """Return the cells of each response in a printed table, by its number."""
    return {row[0]: row[1:] for row in (line.split() for line in text.splitlines()) if row and row[0].isdigit()}


def six(values) -> list[str]:
    return [f"{round(v, 6) + 0.0:.6f}" for v in values]


@pytest.mark.parametrize("method", gc.METHODS)
@pytest.mark.parametrize("key", gc.CONVENTIONS)
def test_every_step_of_every_convention_is_printed(capsys, method, key):
    convention, lengths = gc.CONVENTIONS[key], [5, 9, 2, 30]
    options = ["--method", method, "--convention", key, "--weights", "1,0.5,2", "--lengths", "5,9,2,30"]
    code, out, err = gdpo(capsys, "explain", *RESPONSES, *options)
    assert (code, err) == (0, "")
    e = gc.explain(EXAMPLE, method, weights=[1, 0.5, 2], lengths=lengths, convention=convention)
    for i, row in cells(out).items():
        i = int(i) - 1
        assert row[:3] == [f"{r}" for r in EXAMPLE[i]]
        assert row[-2:] == six([e.weighted_sums[i].item(), e.advantages[i].item()])
        if method == "gdpo":
            assert row[-5:-2] == six(e.z[i].tolist())
    assert len(cells(out)) == 4
    if isinstance(e.batch_std, float):
        assert f"std s = {e.batch_std:.6f}" in out


def test_without_a_command_it_says_which_there_are(capsys):
    code, out, err = gdpo(capsys)
    assert (code, err) == (0, "")
    commands = re.findall(r"^  (\w+) +\w.*\.$", out.partition("Commands:")[2], re.M)
    assert commands == [
        "explain",
        "audit",
        "check",
        "compare",
        "selftest",
    ]  # Beside each command stands a whole sentence.


def test_a_slash_starts_a_prompt(capsys):
    _, out, _ = gdpo(capsys, "explain", "10", "00", "/", "11", "00", "10")
    expected = gc.gdpo([[1, 0], [0, 0], [1, 1], [0, 0], [1, 0]], groups=[1, 1, 2, 2, 2])
    assert [row[-1] for row in cells(out).values()] == six(expected.tolist())
    assert "prompt 1" in out and "prompt 2" in out


def test_numbers_with_commas_may_be_anything_finite_or_missing(capsys):
    _, out, _ = gdpo(capsys, "explain", "0.25,-3", "nan,2", "-1e1,4", "--method", "grpo", "--convention", "ms-swift")
    expected = gc.grpo([[0.25, -3], [float("nan"), 2], [-10, 4]], convention=gc.MS_SWIFT)
    assert [row[-1] for row in cells(out).values()] == six(expected.tolist())


@pytest.mark.slow
def test_a_terminal_that_knows_no_greek_is_no_fault():
    program = re.sub("python[^/]*$", "gdpo", sys.executable)
    ran = subprocess.run([program, "explain", "10", "01"], env={"PYTHONIOENCODING": "ascii"}, capture_output=True)
    assert ran.returncode == 0 and ran.stderr == b"" and b"0.707107" in ran.stdout


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["11", "1"], "response 2: expected 2 rewards"),
        (["1a", "10"], "response 1: expected numbers with commas between them, or 0s and 1s, got '1a'"),
        (["/"], "prompt 1: expected at least one response"),
        (["\u0661,0", "1,1"], "response 1: expected numbers"),
        (["11", "10", "--convention", "foo"], "convention: expected one of paper, trl,"),
        (["11", "10", "--lengths", "3"], "lengths: expected 2 numbers, one per response, got 1"),
        (["11", "10", "--wieghts", "1,2"], "option: expected --method"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(capsys, arguments, named):
    code, out, err = gdpo(capsys, "explain", *arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1 and err.startswith(f"gdpo: {named}")


def test_a_board_to_play_with_is_written_beside_the_numbers(capsys, tmp_path):
    file = tmp_path / "board.html"
    code, out, _ = gdpo(capsys, "explain", "111", "110", "011", "--weights", "1,0.5,2", "--html", str(file))
    assert code == 0 and "w = 1, 0.5, 2" in out and list(cells(out)) == ["1", "2", "3"]
    assert file.read_text(encoding="utf-8").startswith("<!doctype html>")
    for arguments, named in (
        (["10", "/", "01"], "--html: expected the responses of one prompt, got those of 2"),
        (["1,nan", "0,1"], "--html: expected responses that have every reward, got a missing one"),
        (["10"], "rewards: expected 2 to 64 answers, got 1"),
    ):
        code, _, err = gdpo(capsys, "explain", *arguments, "--html", str(file))
        assert code == 2 and named in err


def unpacked(file) -> tuple[str, str]:
    """Return the text of a board's file without what is packed in it, with numbers of nine digits; and the packed
    text.
    """
    text = file.read_text(encoding="utf-8")
    packed = re.search(r'id="packed">(.*?)</script>', text)[1]
    said = re.sub(r"-?\d+\.\d{9,}(e-?\d+)?", lambda number: f"{float(number[0]):.9g}", text.replace(packed, ""))
    return said, gzip.decompress(b64decode(json.loads(packed))).decode()


def test_the_board_in_docs_is_the_one_that_the_command_writes(capsys, tmp_path):
    """If it is not, `python -m scripts.make_board` writes it anew."""
    assert gdpo(capsys, *EXPLAIN, tmp_path / "board.html")[0] == 0
    assert FILE.stat().st_size <= 60_000 and unpacked(FILE) == unpacked(tmp_path / "board.html")
    written = f"gdpo {' '.join(EXPLAIN)}"
    assert written in (FILE.parent / "library.md").read_text(encoding="utf-8")


def test_a_board_counts_the_lengths_that_the_numbers_do(capsys, tmp_path):
    file = tmp_path / "board.html"
    given = ("10", "01", "11", "00", "--convention", "verl", "--html", str(file))
    code, _, err = gdpo(capsys, "explain", *given, "--method", "grpo")
    assert code == 2 and "--html: expected --lengths" in err
    assert gdpo(capsys, "explain", *given, "--lengths", "1,100,5,50")[0] == 0
    assert '"lengths":[1,100,5,50]' in file.read_text(encoding="utf-8")


def test_a_file_that_cannot_be_named_is_one_line(capsys, tmp_path):
    loop = tmp_path / "loop.html"
    loop.symlink_to(loop)
    for path in (tmp_path / ("x" * 300), loop):
        code, _, err = gdpo(capsys, "explain", "10", "01", "--html", str(path))
        assert code == 2 and "html: expected a file that can be written" in err
    config = tmp_path / "train.sh"
    config.write_text("swift rlhf --rlhf_type grpo")
    code, _, err = gdpo(capsys, "check", str(config), "--json", str(tmp_path / ("x" * 300)))
    assert code == 2 and "json: expected a file that can be written" in err
    code, _, err = gdpo(capsys, "explain", "10", "01", "--html", "-")
    assert code == 2 and "html: expected a file in a directory that exists, got '-'" in err
