"""`gdpo audit`: what it prints and writes, which paths are a run, and one clear line where it can't."""

import ast
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from io import StringIO
from pathlib import Path

import audited
import pytest

import gdpo_core as gc
from gdpo_core import cli
from gdpo_core.report import terminal
from gdpo_core.runs.audit_report import NAME_PRIMARY
from gdpo_core.runs.facts import Finding
from gdpo_core.runs.findings import IDS

try:
    import resource
except ImportError:
    resource = None

ROOT = Path(__file__).parent.parent
TRL = str(ROOT / "data/samples/trl_gdpo")
SWIFT = str(ROOT / "data/samples/ms_swift")
OTHERS = ("verl_legacy", "verl_v1", "ms_swift")
GDPO = re.sub("python[^/]*$", "gdpo", sys.executable)


def run(capsys, *arguments) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["audit", *map(str, arguments)])
    printed = capsys.readouterr()
    return stopped.value.code, printed.out, printed.err


def refuse(text):
    raise AssertionError(f"JSON has no {text}")


def parsed(text):
    return json.loads(text, parse_constant=refuse)


def table(tmp_path, name="run.csv", rows=32):
    """A log whose second reward is the opposite of the first, with names that are no ASCII."""
    path = tmp_path / name
    lines = [f"{i // 8},{i % 3},{i % 2},{1 - i % 2}" for i in range(rows)]
    path.write_text("\n".join(["prompt,juste_é,a=b,🙂", *lines]), encoding="utf-8")
    return path


# --- what it prints --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_verdict_and_what_the_run_did(capsys):
    code, short, err = run(capsys, TRL)
    assert (code, err) == (0, "")
    what_to_do, what_ran, *_ = short.splitlines()
    assert (
        what_to_do
        == f"Too few to judge (128 responses in 16 groups). So far: no finding asks for a change yet. {NAME_PRIMARY}"
    )
    assert what_ran.startswith("The logged advantages are GDPO")
    assert len(short.splitlines()) <= 40 and "threshold" not in short
    code, out, err = run(capsys, TRL, "--verbose")
    assert out.splitlines()[:2] == [what_to_do, what_ran] and "threshold" in out
    assert re.search(r"^method +GDPO *$", out, re.M)
    assert re.search(r"^weights +correctness_reward 1, format_reward 0.5, length_reward 2 *$", out, re.M)
    assert re.search(r"^reproduced +yes", out, re.M)
    assert "4 files, 4 steps, 128 responses" in out and "16 of 8" in out


def test_json_alone_is_the_report(capsys):
    code, out, err = run(capsys, TRL, "--json", "-")
    assert (code, err) == (0, "")
    found = parsed(out)
    assert found["schema"] == 1 and found["run"]["method"] == "gdpo" and found["source"]["responses"] == 128
    assert out.isascii()


def test_several_runs_are_compared(capsys):
    _, out, _ = run(capsys, TRL, SWIFT)
    assert out.lstrip().startswith("2 runs")
    assert re.search(r"^ method +GDPO", out, re.M)
    assert out.count("Findings:") == 2
    found = parsed(run(capsys, TRL, SWIFT, "--json", "-")[1])
    assert found["schema"] == 1 and [r["source"]["framework"] for r in found["runs"]] == ["trl", "ms_swift"]


def test_the_files_of_a_directory_are_one_run(capsys):
    files = sorted(Path(TRL).glob("*.parquet"))
    found = parsed(run(capsys, *files, "--json", "-")[1])
    whole = parsed(run(capsys, TRL, "--json", "-")[1])
    assert found["source"].pop("path") != whole["source"].pop("path")
    assert found == whole
    assert parsed(run(capsys, *files[:2], "--json", "-")[1])["source"]["steps"] == 2


def test_what_the_caller_names_is_used(capsys, tmp_path):
    arguments = ["--group", "prompt", "--reward", "a=b", "--reward", "🙂", "--weight", "a=b=3", "--weight", "🙂=1"]
    found = parsed(run(capsys, table(tmp_path), *arguments, "--primary", "a=b", "--asked", "GDPO", "--json", "-")[1])
    assert found["source"]["rewards"] == ["a=b", "🙂"] and found["source"]["groups"] == 4
    assert found["run"]["weights_used"] == {"a=b": 3.0, "🙂": 1.0} and found["run"]["primary"] == "a=b"
    assert found["run"]["asked"] == "gdpo"
    assert found["methods"]["grpo"]["inversions"] == 0.0  # 3 against 1: the primary reward decides


def test_the_group_size_can_be_given(capsys, tmp_path):
    rewards = ["--reward", "a=b", "--reward", "🙂", "--json", "-"]
    assert parsed(run(capsys, table(tmp_path), "--group-size", 4, *rewards)[1])["source"]["group_size"] == 4


def test_broken_lines_can_be_left_out(capsys, tmp_path):
    log = tmp_path / "log.jsonl"
    lines = [f'{{"group": {i // 4}, "a": {i % 2}, "b": {i % 3}}}' for i in range(16)]
    log.write_text("\n".join([*lines, "{broken"]))
    code, out, err = run(capsys, log)
    assert (code, out) == (2, "") and "line 17" in err
    assert "1 broken line left out" in run(capsys, log, "--skip-bad-lines")[1]


LOGS = sorted((ROOT / "tests/goldens/logs/trl").iterdir()) + [ROOT / f"tests/goldens/logs/{n}" for n in OTHERS]


@pytest.mark.slow
@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.name)
def test_real_logs_become_json_and_a_page(capsys, tmp_path, log):
    code, out, err = run(capsys, log, "--json", tmp_path / "a.json", "--html", tmp_path / "a.html")
    found = parsed((tmp_path / "a.json").read_text())
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    to_do, what_ran, *_ = out.splitlines()
    assert (code, err) == (0, "") and what_ran in found["verdict"]
    few = to_do.startswith("Too few to judge (")
    assert few is (found["source"]["groups"] < 30) and to_do.rpartition(" So far: ")[2] in found["verdict"]
    assert len(out.splitlines()) <= 40
    assert [f["id"] for f in found["findings"]] == re.findall(r"<code>\w+ · ([\w-]+)</code></h4>", page)
    assert all(f"{f['severity']}  {f['id']}  {f['title']}\n" in out for f in found["findings"])


# --- the look in a terminal ------------------------------------------------------------------------------------------


class Screen(StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


@pytest.fixture
def screen(monkeypatch):
    def shown(reports, columns, verbose=False):
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("TERM", "xterm-256color")
        monkeypatch.delenv("NO_COLOR", raising=False)
        file = Screen()
        terminal.show(reports, file, verbose)
        return re.sub(r"\x1b\[[\d;]*m", "", file.getvalue()), file.getvalue()

    return shown


@pytest.mark.parametrize("columns", [80, 60])
def test_it_fits_a_narrow_terminal_but_for_what_is_to_be_copied(screen, columns):
    report = audited.report()
    text, _ = screen([report], columns, verbose=True)
    fix = report.findings[0].fix.split("\n")
    lines = text.split("\n")
    assert all(line in lines for line in fix)  # whole, and nothing around it
    assert max(len(line) for line in lines if line not in fix) <= columns
    assert "Under GRPO, correctness makes" in text and "106 %" in text and "GDPO" in text


def test_every_table_says_what_its_columns_mean(screen):
    text, _ = screen([audited.report()], 80, verbose=True)
    flat = " ".join(text.split())
    for meaning in (
        "An advantage is a sum of one part per reward",
        "A tie: different",
        "Silent groups: every",
        "Inversions: of the",
    ):
        assert meaning in flat


def test_severity_is_a_word_and_a_colour(screen):
    text, coloured = screen([audited.report()], 80)
    assert [line.split()[0] for line in text.split("\n") if re.match("(error|warning|info)  ", line)] == [
        "error",
        "warning",
        "info",
    ]
    assert re.search(r"\x1b\[1;31merror", coloured) and re.search(r"\x1b\[1;33mwarning", coloured)


def test_many_runs_become_several_tables(screen):
    text, _ = screen([audited.report(path=f"run-{i}") for i in range(5)], 80)
    assert text.count("5 runs") == 3 and all(f"run-{i}" in text for i in range(5))
    assert re.search(r"5 runs +run-0 +run-1 *\n", text) and max(map(len, text.split("\n"))) <= 80


def test_a_log_cannot_steer_the_terminal(screen):
    nasty = "\x1b[2Jx\x07[red]"
    finding = Finding("info", nasty, {nasty: nasty}, nasty, id="reward-dead", title=nasty, to_do=nasty)
    report = audited.report((nasty, "b"), path=nasty, findings=[finding])
    text, coloured = screen([report, report], 100)
    assert "\x1b[2J" not in coloured and "\x07" not in coloured
    assert "\\x1b[2Jx\\x07[red]" in text


def test_a_pipe_gets_a_line_a_sentence(capsys):
    report = audited.report(findings=[Finding("warning", "word " * 200, {}, id="conflict", title="word")])
    terminal.show([report], sys.stdout)
    assert ("word " * 200).rstrip() in capsys.readouterr().out


def test_progress_is_shown_on_a_terminal_once_it_takes_a_while(monkeypatch):
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with cli._progress("run 1 of 2: ") as count:
        count(1000)
    assert "responses" not in screen.getvalue()
    monkeypatch.setattr(cli, "_PATIENCE", 0.0)
    with cli._progress("run 1 of 2: ") as count:
        count(1000)
        count(234)
    assert "run 1 of 2: 1,234 responses" in screen.getvalue()
    monkeypatch.setattr(sys, "stderr", StringIO())
    with cli._progress("") as count:
        assert count is None


# --- what it writes --------------------------------------------------------------------------------------------------


def test_files_are_written_beside_what_is_printed(capsys, tmp_path):
    page, data = tmp_path / "audit.html", tmp_path / "audit.json"
    data.write_text("old")
    code, out, _ = run(capsys, TRL, "--html", page, "--json", data)
    assert code == 0 and "\nThe logged advantages are GDPO" in out
    assert parsed(data.read_text())["run"]["method"] == "gdpo"
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["audit.html", "audit.json"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no full device")
@pytest.mark.parametrize("option", ["--json", "--html"])
def test_a_file_that_cannot_be_written_is_one_line(capsys, option):
    code, out, err = run(capsys, TRL, option, "/dev/full")
    expected = f"gdpo: {option[2:]}: expected a file that can be written, got '/dev/full' (No space left on device)\n"
    assert (code, out, err) == (2, "", expected)


@pytest.mark.skipif(resource is None, reason="limits of POSIX")
def test_a_disk_that_is_full_is_one_sentence(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(gc.InputError, match=r"html: .* got '.*' \(File too large\)"):
            cli._write(tmp_path / "audit.html", "x" * 1001, "html")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--json", "--html"])
def test_a_log_is_never_written_over(capsys, tmp_path, option):
    folder = tmp_path / "completions"
    shutil.copytree(TRL, folder)
    first = sorted(folder.glob("*.parquet"))[0]
    content = first.read_bytes()
    (tmp_path / "link.html").symlink_to(first)
    for path in (folder, tmp_path / "completions" / "*.parquet", tmp_path):
        for target in (first, tmp_path / "link.html", tmp_path / "completions" / ".." / "completions" / first.name):
            code, out, err = run(capsys, path, option, target)
            assert (code, out) == (2, "") and f"{option[2:]}: expected another file than the log" in err
    assert first.read_bytes() == content
    code, _, err = run(capsys, folder, "--json", folder / "new.json")
    assert code == 2 and "json: expected a file that is not taken for a part of the log" in err
    assert run(capsys, folder, "--html", folder / "audit.html", "--json", tmp_path / "new.json")[0] == 0


def test_a_directory_spelled_twice_is_one_run(capsys, tmp_path):
    shutil.copytree(TRL, tmp_path / "o")
    code, out, _ = run(capsys, tmp_path / "o", f"{tmp_path}/o/../o", tmp_path / "o" / ".", "--json", "-")
    assert code == 0 and parsed(out)["schema"] == 1 and "runs" not in parsed(out)
    file = sorted((tmp_path / "o").glob("*.parquet"))[0]
    one = parsed(run(capsys, file, "--json", "-")[1])
    assert parsed(run(capsys, file, f"{tmp_path}/o/../o/{file.name}", "--json", "-")[1])["source"] == one["source"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no full device")
@pytest.mark.parametrize(
    "command", [["audit", TRL], ["audit", TRL, "--json", "-"], ["explain", "10", "01"], ["--help"]]
)
def test_output_that_cannot_be_written_is_one_line(capsys, monkeypatch, command):
    with open("/dev/full", "w") as full, pytest.raises(SystemExit) as stopped:
        monkeypatch.setattr(sys, "stdout", full)
        cli.main(command)
    assert stopped.value.code == 2
    expected = "gdpo: standard output: expected one that can be written, got No space left on device\n"
    assert capsys.readouterr().err == expected and full.closed


def test_a_closed_output_is_one_line(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(SystemExit) as stopped:
        cli.main(["audit", TRL])
    assert stopped.value.code == 2
    assert capsys.readouterr().err == "gdpo: standard output: expected one that can be written, got none\n"


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no full device")
def test_python_adds_nothing_at_the_end_of_a_process_whose_output_fails():
    with open("/dev/full", "w") as full:
        ran = subprocess.run([GDPO, "explain", "10", "01"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert ran.returncode == 2
    assert ran.stderr.startswith("gdpo: standard output: expected") and ran.stderr.count("\n") == 1


def test_a_device_is_written_to_and_not_replaced(capsys):
    code, out, _ = run(capsys, TRL, "--json", os.devnull)
    assert code == 0 and out and not Path(os.devnull).is_file()


# --- in a pipeline ---------------------------------------------------------------------------------------------------


def pipeline(capsys, monkeypatch, findings, *arguments) -> tuple[int, str, str]:
    """What `gdpo audit` does with a report that holds these findings."""
    monkeypatch.setattr("gdpo_core.runs.audit.audit", lambda *_, **__: audited.report(path=TRL, findings=findings))
    return run(capsys, TRL, *arguments)


CONFLICT = Finding("warning", "50 % of it.", {}, id="conflict", title="They conflict")


@pytest.mark.parametrize(
    ("fail_on", "findings", "status"),
    [
        ("error", [CONFLICT], 0),
        ("warning", [CONFLICT], 1),
        ("info", [CONFLICT], 1),
        ("conflict", [CONFLICT], 1),
        ("reward-dead", [CONFLICT], 0),
        (" Reward-Dead , conflict", [CONFLICT], 1),
        ("reward_dead,conflict,conflict,error", [CONFLICT], 1),
        ("error,reward-dead", [Finding("info", "It is.", {}, id="reward-dead", title="It is")], 1),
        ("warning", [Finding("error", "It is.", {}, id="reward-dead", title="It is")], 1),
        ("warning", [Finding("info", "It is.", {}, id="reward-dead", title="It is")], 0),
        ("info", [], 0),
        (None, [CONFLICT], 0),
    ],
)
def test_a_finding_that_was_asked_for_is_the_status(capsys, monkeypatch, fail_on, findings, status):
    arguments = [] if fail_on is None else ["--fail-on", fail_on]
    code, out, err = pipeline(capsys, monkeypatch, findings, *arguments)
    assert code == status and out
    assert err == (f"gdpo: fail-on: {TRL}: {findings[0].id}\n" if status else "")


def test_all_that_was_asked_for_counts_though_it_was_asked_for_twice(capsys, monkeypatch):
    for order in (["conflict", "error"], ["error", "conflict"]):
        arguments = [part for name in order for part in ("--fail-on", name)]
        assert pipeline(capsys, monkeypatch, [CONFLICT], *arguments)[0] == 1


@pytest.mark.slow
def test_every_id_fails_by_its_name_and_by_its_level(capsys, monkeypatch):
    levels = ("error", "warning", "info")
    findings = [Finding(levels[k % 3], "So.", {}, id=id, title="So") for k, id in enumerate(IDS)]
    for name in IDS:
        assert pipeline(capsys, monkeypatch, findings, "--fail-on", name)[2] == f"gdpo: fail-on: {TRL}: {name}\n"
    for k, level in enumerate(levels):
        code, _, err = pipeline(capsys, monkeypatch, findings, "--fail-on", level)
        named = re.split(", | and ", err.strip().partition(f"{TRL}: ")[2])
        assert code == 1 and named == [f.id for f in findings if f.severity in levels[: k + 1]]


def test_the_report_is_whole_where_a_finding_fails_the_pipeline(capsys, tmp_path):
    found = ("blind-zero-std-metric", "ties-hide-signal")
    options = ["--fail-on", ",".join(found), "--html", tmp_path / "a.html"]
    code, out, err = run(capsys, TRL, SWIFT, *options, "--json", "-")
    assert code == 1 and len(parsed(out)["runs"]) == 2 and (tmp_path / "a.html").exists()
    assert err == "".join(f"gdpo: fail-on: {log}: {id_}\n" for log, id_ in zip((TRL, SWIFT), found, strict=True))


def test_the_status_stands_though_the_reader_has_left(monkeypatch):
    read, write = os.pipe()
    os.close(read)
    with suppress(BrokenPipeError), open(write, "w") as pipe, pytest.raises(SystemExit) as stopped:
        monkeypatch.setattr(sys, "stdout", pipe)
        monkeypatch.setattr(sys, "stderr", StringIO())
        cli.main(["audit", TRL, "--fail-on", "info"])
    assert stopped.value.code == 1


def test_the_ids_to_fail_on_are_those_of_the_findings():
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "gdpo_core/runs").glob("findings_*.py")]
    found = [of for tree in trees for of in tree.body if isinstance(of, ast.FunctionDef)]
    looks = {of.name for of in found if of.name[0] != "_" and "Iterator[Finding]" in ast.unparse(of.returns or of)}
    assert {look.replace("_", "-") for look in looks} == set(IDS) and list(IDS) == sorted(set(IDS))


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "Missing argument 'PATH...'"),
        (["nowhere"], "nowhere: expected a file or directory"),
        ([TRL, "--foo"], "No such option"),
        ([TRL, "--primary"], "Option '--primary' requires an argument"),
        ([TRL, "--weight", "format_reward"], "weight: expected NAME=NUMBER, got 'format_reward'"),
        ([TRL, "--weight", "format_reward=much"], "weight: expected NAME=NUMBER"),
        ([TRL, "--weight", "format_reward=nan"], "weight: expected NAME=NUMBER"),
        ([TRL, "--weight", "format_reward=1_0"], "weight: expected NAME=NUMBER"),
        ([TRL, "--weight", "format_reward=１"], "weight: expected NAME=NUMBER"),
        ([TRL, "--weight", "format_reward=1e300"], "weight: expected a number of at most 1e+30"),
        ([TRL, "--weight", "=1"], "weight: expected NAME=NUMBER"),
        ([TRL, "--weight", "a=1", "--weight", "a=2"], "weight: expected each reward once, got 'a' twice"),
        (
            [TRL, *(f"--weight={name}=0" for name in gc.read_run(TRL).rewards)],
            "weight: expected one that is not 0, got 0 for every reward",
        ),
        ([TRL, "--weight", "nope=1"], "weights: expected names of rewards"),
        ([TRL, "--group-size", "0"], "group-size: expected a whole number from 1, got '0'"),
        ([TRL, "--group-size", "-8"], "group-size: expected a whole number from 1"),
        (
            [TRL, "--group-size", "1" * 10],
            "group-size: expected a whole number from 1 with at most 9 digits, got '1111",
        ),
        ([TRL, "--group-size", "eight"], "group-size: expected a whole number from 1, got 'eight'"),
        ([TRL, "--group-size", "7"], f"{TRL}/completions_00001.parquet: expected rows that groups of 7 divide"),
        ([TRL, "--primary", "nope"], "primary: expected one of correctness_reward"),
        ([TRL, "--asked", "ppo"], "asked: expected one of grpo"),
        ([TRL, "--framework", "foo"], "framework: expected one of trl"),
        ([TRL, "--reward", "nope"], f"{TRL}/completions_00001.parquet: expected a column 'nope'"),
        ([TRL, "--json", "{tmp}"], "json: expected the name of a file, got the directory '{tmp}'"),
        ([TRL, "--html", "{tmp}/no/x.html"], "html: expected a file in a directory that exists"),
        ([TRL, "--html", "-"], "html: expected the name of a file, got '-'"),
        ([TRL, "--html", "{tmp}/x", "--json", "{tmp}/x"], "json: expected another file than for the other option"),
        ([f"{TRL}/completions_00001.parquet", "--html", f"{TRL}/completions_00001.parquet"], "html: expected another"),
        (
            [TRL, "--fail-on", "erorr"],
            "fail-on: expected error, warning, info or the id of a finding: advantage-impossible, advantages-not-",
        ),
        ([TRL, "--fail-on", "error,"], "fail-on: expected error, warning"),
        ([TRL, "--fail-on", "", "--html", "{tmp}/x"], "fail-on: expected error, warning"),
        ([TRL, SWIFT, "--primary", "Format"], f"{TRL}: primary: expected one of correctness_reward"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(capsys, tmp_path, arguments, named):
    code, out, err = run(capsys, *(a.replace("{tmp}", str(tmp_path)) for a in arguments))
    assert (code, out) == (2, "")
    assert err.count("\n") == 1 and err.startswith(f"gdpo: {named.replace('{tmp}', str(tmp_path))}")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.parquet", b""),
        ("random.parquet", bytes(range(256)) * 4),
        ("cut.parquet", Path(TRL, "completions_00001.parquet").read_bytes()[:2000]),
        ("broken.jsonl", b'{"a": 1, "b": 2}\n{"a": '),
        ("text.csv", b"name,said\na,b\nc,d\n"),
        ("binary.csv", b"\xff\xfe\x00\x01" * 50),
        ("not.zip", b"PK\x03\x04 nothing"),
        ("odd\nname\x1b.csv", b""),
    ],
)
def test_a_bad_file_is_one_line_that_names_it(capsys, tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    code, out, err = run(capsys, tmp_path / name)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1 and "\x1b" not in err
    assert name.split("\n")[0] in err


def test_one_bad_run_of_several_leaves_no_part_of_a_verdict(capsys, tmp_path):
    code, out, err = run(capsys, TRL, tmp_path / "nowhere", "--html", tmp_path / "x.html")
    assert (code, out) == (2, "") and "nowhere" in err and not (tmp_path / "x.html").exists()


# --- as a process ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        ["explain", "10", "01"],
        ["audit", TRL],
        ["audit", TRL, "--json", "-"],
        ["--help"],
        ["--version"],
    ],
)
def test_a_reader_who_leaves_ends_it_quietly(capsys, monkeypatch, command):
    read, write = os.pipe()
    os.close(read)
    with suppress(BrokenPipeError), open(write, "w") as pipe, pytest.raises(SystemExit) as stopped:
        monkeypatch.setattr(sys, "stdout", pipe)
        monkeypatch.setattr(sys, "stderr", sys.stderr)  # Click puts another in its place
        cli.main(command)
    assert stopped.value.code == 0 and capsys.readouterr().err == ""  # 1 is for findings


@pytest.mark.slow
@pytest.mark.parametrize("command", [["explain", "10", "01"], ["audit", TRL, "--json", "-"]])
def test_python_adds_nothing_at_the_end_of_a_process_whose_reader_has_left(command):
    read, write = os.pipe()
    os.close(read)
    ran = subprocess.run([GDPO, *command], stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert (ran.returncode, ran.stderr) == (0, b"")


@pytest.mark.slow
def test_a_terminal_that_knows_ascii_alone_is_no_fault(tmp_path):
    command = [GDPO, "audit", str(table(tmp_path)), "--group", "prompt", "--reward", "juste_é", "--reward", "🙂"]
    ran = subprocess.run(command, env={"PYTHONIOENCODING": "ascii"}, capture_output=True)
    assert (ran.returncode, ran.stderr) == (0, b"") and b"juste_?" in ran.stdout


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_it_stops_quietly_when_told_to():
    script = (
        "import sys, time\nfrom gdpo_core import cli\nfrom gdpo_core.runs import read\n"
        "def wait(*_, **__):\n    print('reading', file=sys.stderr, flush=True)\n"
        "    for _ in range(600):\n        time.sleep(0.1)  # Python 3.14 may notice a signal only after one\n"
        f"read.read_run = wait\ncli.main(['audit', {TRL!r}])"
    )
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stderr.readline() == "reading\n"
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=20)
    assert (child.returncode, out, err) == (130, "", "")
