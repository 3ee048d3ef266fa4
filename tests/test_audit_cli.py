"""`gdpo audit`: what it prints and writes, which paths are a run, and the one clear line that it prints where it
fails.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from io import StringIO
from pathlib import Path

import audited
import pytest
from logs import audit_cli as run
from rich.console import Console

import gdpo_audit as ga
import gdpo_cli
from gdpo_audit.command import cli
from gdpo_audit.findings.finding import Finding
from gdpo_audit.report import brief
from gdpo_audit.report.printing import printed_tables, terminal
from gdpo_audit.report.sections import sections
from gdpo_audit.report.verdict import POINTS
from gdpo_audit.trials.recommending import INTERVAL
from gdpo_audit.trials.run_forecast import DIRECTION_ALONE

ROOT = Path(__file__).parent.parent
TRL = str(ROOT / "data/samples/trl_gdpo")
SWIFT = str(ROOT / "data/samples/ms_swift")


@pytest.mark.slow
def test_what_the_readme_says_of_an_audit_is_what_the_command_prints(capsys):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    command = re.search(r"^\.venv/bin/gdpo audit (data/.+)$", text, re.MULTILINE)[1].split()
    quoted = re.search(r"^```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[1].splitlines()
    code, out, _ = run(capsys, str(ROOT / command[0]), *command[1:])
    printed = "\n".join(" ".join(line.split()) for line in out.splitlines())
    assert code == 0 and len(quoted) == 4
    assert all("\n" + " ".join(line.removesuffix(" …").split()) in f"\n{printed}" for line in quoted)


def refuse(text):
    raise AssertionError(f"JSON has no {text}")


def parsed(text):
    return json.loads(text, parse_constant=refuse)


def table(tmp_path, name="run.csv", rows=32):
    """Write a log whose second reward is the opposite of the first, with names beyond ASCII, and return its path."""
    path = tmp_path / name
    lines = [f"{i // 8},{i % 3},{i % 2},{1 - i % 2}" for i in range(rows)]
    path.write_text("\n".join(["prompt,juste_é,a=b,🙂", *lines]), encoding="utf-8")
    return path


# --- what it prints --------------------------------------------------------------------------------------------------


def test_the_verdict_and_what_the_run_did(capsys):
    code, out, err = run(capsys, TRL)
    what_to_do, what_ran, *_ = out.splitlines()
    assert (code, err) == (0, "")
    assert what_to_do.startswith("This log is too short to judge: it holds 128 responses in 16 groups. Take what ")
    assert what_ran.startswith("The logged advantages are GDPO")
    assert len(out.splitlines()) <= 40 and "threshold" not in out
    assert "all 128 rows in 16 groups: " in out and "  4 steps, from step: " in out and "▁" in out
    _, whole, _ = run(capsys, TRL, "--explain")
    assert whole.splitlines()[:2] == [what_to_do, what_ran]
    assert re.search(r"^convention +TRL \(", whole, re.M)
    assert "4 files, 4 steps, 128 responses in 16 groups of 8" in whole
    # This is the course of the rewards.
    assert "in the first quarter of the run (at least one step) → " in whole and "▁" in whole


def test_several_runs_stand_below_each_other_and_the_files_of_a_directory_are_one(capsys, tmp_path):
    _, out, _ = run(capsys, TRL, SWIFT)
    assert out.count("Findings:") == 2 and out.index(f"\n{TRL}\n") < out.index(f"\n{SWIFT}\n")
    found = parsed(run(capsys, TRL, SWIFT, "--json", "-")[1])
    assert found["schema"] == 1 and [r["source"]["framework"] for r in found["runs"]] == ["trl", "ms_swift"]
    files = sorted(Path(TRL).glob("*.parquet"))
    # A file that is spelled in two ways counts once.
    again = f"{files[0].parent}/../{files[0].parent.name}/{files[0].name}"
    found, whole = (parsed(run(capsys, *paths, "--json", "-")[1]) for paths in ([*files, again], [TRL]))
    assert found["source"].pop("path") != whole["source"].pop("path") and found == whole


def test_what_the_caller_names_is_used(capsys, tmp_path):
    arguments = ["--group", "prompt", "--reward", "a=b", "--reward", "🙂", "--weight", "a=b=3", "--weight", "🙂=1"]
    found = parsed(run(capsys, table(tmp_path), *arguments, "--primary", "a=b", "--asked", "GDPO", "--json", "-")[1])
    assert found["source"]["rewards"] == ["a=b", "🙂"] and found["source"]["groups"] == 4
    assert found["run"]["weights_used"] == {"a=b": 3.0, "🙂": 1.0} and found["run"]["primary"] == "a=b"
    assert found["run"]["asked"] == "gdpo"
    # The primary reward decides, because it weighs 3 against 1.
    assert found["methods"]["grpo"]["inversions"] == 0.0
    sized = ["--group-size", 4, "--reward", "a=b", "--reward", "🙂", "--columns", "step=prompt", "--json", "-"]
    found = parsed(run(capsys, table(tmp_path), *sized)[1])["source"]
    assert (found["group_size"], found["steps"]) == (4, 4)


# --- the look in a terminal ------------------------------------------------------------------------------------------


class Screen(StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


@pytest.fixture
def screen(monkeypatch):
    def shown(reports, columns, explain=False):
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("TERM", "xterm-256color")
        monkeypatch.delenv("NO_COLOR", raising=False)
        file = Screen()
        terminal.print_reports(reports, file, explain=explain)
        return re.sub(r"\x1b\[[\d;]*m", "", file.getvalue()), file.getvalue()

    return shown


@pytest.mark.parametrize("columns", [80, 60])
@pytest.mark.parametrize("explain", [False, True])
def test_it_fits_a_narrow_terminal_but_for_what_is_to_be_copied(screen, columns, explain):
    report = audited.report()
    text, _ = screen([report], columns, explain)
    fix = report.findings[0].fix.split("\n")
    lines = text.split("\n")
    assert all(line in lines for line in fix)  # Each line of the fix stands there as a whole, with nothing around it.
    assert max(len(line) for line in lines if line not in fix) <= columns
    assert "correctness makes most of the update" in " ".join(text.split()) and "GDPO" in text
    assert ("Under GRPO, correctness accounts for" in text) == explain


SAMPLES = sorted((ROOT / "data" / "samples").iterdir())


@pytest.fixture(scope="module", params=SAMPLES, ids=lambda path: path.name)
def reports(request):
    """The reports of a sample without a primary reward, and with its first reward as the primary one."""
    run = ga.read_run(request.param)
    return ga.audit(run), ga.audit(run, primary=run.rewards[0])


def test_a_sample_is_told_in_forty_lines_and_no_line_ends_in_a_blank(screen, reports):
    for report in reports:
        for columns, most in ((100, 40), (160, 40), (80, 54)):
            text, explained = (screen([report], columns, explain)[0] for explain in (False, True))
            assert text.count("\n") <= most, (columns, text)
            for lines in (text.split("\n"), explained.split("\n")):
                assert not [line for line in lines if line != line.rstrip()], columns


def test_an_interval_in_the_first_lines_says_for_which_models_it_is_one(reports):
    for report in reports:
        said = report.what_first
        assert (INTERVAL in said) == (DIRECTION_ALONE in said) == (POINTS in said)


def test_how_the_log_was_read_is_a_line_for_each_claim_at_a_hundred_columns(screen, reports):
    for report in reports:
        lines = screen([report], 100)[0].split("\n")
        at = lines.index("How the log was read") + 1
        for claim, line in zip(report.reading, lines[at:], strict=False):
            assert line.split()[:2] == [claim.what, claim.evidence] and claim.taken in line
            # What is left of the reason are its first words, each of them whole.
            left = line.partition(f"{claim.taken}: ")[2].partition(" (otherwise ")[0]
            assert not left or f"{claim.because} ".startswith(f"{left.removesuffix('…').rstrip()} ")
            assert (claim.otherwise in line) == (claim.evidence == "assumed") or not claim.otherwise
        assert lines[at + len(report.reading)] == ""


def test_a_finding_is_one_line_and_explain_holds_its_message_and_what_columns_mean(screen, reports):
    for report in reports:
        text, whole = (screen([report], 100, explain)[0] for explain in (False, True))
        below = text.partition("\nFindings: ")[2].split("\n")[1:]
        assert len([line for line in below if line]) <= len(report.findings)
        assert all(any(f.title in line for line in below) for f in report.findings if f.id != "reward-starved")
        in_words = " ".join(whole.split())
        assert all(" ".join(f.message.split()) in in_words for f in report.findings)
        tables = [table for part in sections(report) for table in part.tables if table and table.on_screen != 0]
        meanings = {meaning for table in tables for meaning in table.meanings}
        assert meanings and all(meaning in in_words for meaning in meanings)
        assert not any(meaning in " ".join(text.split()) for meaning in meanings)


def test_findings_that_say_the_same_are_one_line(screen):
    def of(id_, reward, share, severity="warning"):
        evidence = {"reward": reward, "update_share": share}
        return Finding(id=id_, severity=severity, title=f"{reward} has {share}", message="…", evidence=evidence)

    found = [of("reward-dominates", "a", 0.9), of("reward-starved", "b", 0.04), of("reward-starved", "c", 0.06)]
    found += [of("reward-dead", "d", 1.0), of("reward-dead", "e", 1.0), of("reward-starved", "f", 0.01, "info")]
    text, _ = screen([audited.report(findings=found)], 160)
    assert text.partition("\nFindings: ")[2].split("\n")[1:-1] == [
        "warning  reward-dominates, reward-starved  a has 0.9, b for 4 % and c for 6 %",
        "warning  reward-dead  d has 1.0; also e",
        "info  reward-starved  f has 0.01",
    ]


def test_the_lines_to_copy_stand_below_what_to_do_and_axolotls_only_where_axolotl_wrote_the_log(screen):
    report = ga.audit(ga.read_run(ROOT / "data/samples/pays_5_grpo"), primary="correctness")
    line = next(row.lines for row in report.plan if row.recommended).split("\n")
    assert line[1].startswith("# axolotl: ")
    of_axolotl = replace(report, run=report.run | {"convention": "axolotl_async"})
    for explain in (False, True):
        text = screen([report], 300, explain)[0].split("\n")
        assert text[0].startswith("Use GDPO: ")
        assert text.count(line[0]) == 1 and text.index(line[0]) < text.index("How the log was read")
        assert "axolotl: " not in "\n".join(text)
        assert screen([of_axolotl], 300, explain)[0].split("\n").count(line[1]) == 1


def test_missing_values_are_a_column_only_where_some_are_missing(screen, reports):
    for report in reports:
        for explain in (False, True):
            text = screen([report], 200, explain)[0].partition("What each reward did")[2]
            lines = text.split("\n")
            at = next(n for n, line in enumerate(lines) if line.startswith("reward "))
            head, rows = lines[at], lines[at + 2 : at + 2 + len(report.rewards)]
            missing = [reward["missing"] for reward in report.rewards]
            assert head.endswith("missing") == any(missing)
            assert not any(missing) or [int(row.split()[-1].replace(",", "")) for row in rows] == missing


def numbers_of(tables) -> list[tuple]:
    """Return for each table that a terminal shows the table and how often each of its numbers stands in its cells."""
    shown = [table for table in tables if table and table.on_screen != 0]
    cells = (" ".join(x for row in table.rows[: table.on_screen] for x in row[1:]) for table in shown)
    return [(table, Counter(re.findall(r"\S*\d\S*", text))) for table, text in zip(shown, cells, strict=True)]


def test_no_number_of_a_table_is_cut_at_any_width(reports):
    """Whoever reads "15." for 15.3 reads another number."""
    for report in reports:
        both = (sections(report), brief.brief_sections(report))
        tables = numbers_of(table for part in both for section in part for table in section.tables)
        for nth, (table, numbers) in enumerate(tables):
            for width in range(60 + nth % 3, 201, 3):  # tables take turns with the widths, which are many
                output = Console(file=StringIO(), width=width, force_terminal=True, color_system=None)
                printed_tables.show_table(output, table)
                printed = Counter(output.file.getvalue().split())
                assert not numbers - printed, (width, table.title)


def test_a_number_that_is_not_on_the_screen_is_in_what_explains_it(screen, reports):
    for report in reports:
        whole = Counter(screen([report], 200, explain=True)[0].split())
        for part in (sections(report), brief.brief_sections(report)):
            for table, numbers in numbers_of(table for section in part for table in section.tables):
                assert not numbers - whole, table.title


def test_a_column_in_which_all_rows_agree_is_told_in_a_sentence(reports):
    for report in reports:
        for section in brief.brief_sections(report):
            for table in section.tables:
                optional = [
                    k for k, head in enumerate(table.head) if head in ("constant", "tied pairs", "silent groups")
                ]
                several = len(table.rows) > 1
                assert all(len({row[k] for row in table.rows}) > 1 for k in optional if several), table.head


# --- what it writes --------------------------------------------------------------------------------------------------


def test_files_are_written_beside_what_is_printed(capsys, tmp_path):
    page, data = tmp_path / "audit.html", tmp_path / "audit.json"
    data.write_text("old")
    code, out, _ = run(capsys, TRL, "--html", page, "--json", data)
    assert code == 0 and "\nThe logged advantages are GDPO" in out
    assert parsed(data.read_text())["run"]["method"] == "gdpo"
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_log_is_never_written_over(capsys, tmp_path):
    folder = tmp_path / "completions"
    shutil.copytree(TRL, folder)
    first = sorted(folder.glob("*.parquet"))[0]
    content = first.read_bytes()
    (tmp_path / "link.html").symlink_to(first)
    for target in (first, tmp_path / "link.html", folder / ".." / "completions" / first.name):
        code, out, err = run(capsys, folder, "--html", target)
        assert (code, out) == (2, "") and "html: expected another file than the log" in err
    assert first.read_bytes() == content


FULL = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no full device")


@FULL
def test_two_reports_are_never_written_to_one_file(capsys, tmp_path):
    """Neither under one name nor under two names of the same file; where nothing is kept, there is no harm."""
    log, file, other = tmp_path / "log.jsonl", tmp_path / "report", tmp_path / "link"
    other.symlink_to(file)
    rows = [{"step": 0, "prompt": "p", "acc": i % 2, "style": i % 3} for i in range(4)]
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for json_file in (file, other):
        status, out, err = run(capsys, log, "--html", file, "--json", json_file)
        assert (status, out) == (2, "") and not file.exists()
        assert err == f"gdpo: json: expected another file than that of --html, got {str(json_file)!r}\n"
    assert run(capsys, log, "--html", os.devnull, "--json", os.devnull)[0] == 0


def test_a_full_disk_is_one_line(capsys):
    code, out, err = run(capsys, TRL, "--html", "/dev/full")
    expected = "gdpo: html: expected a file that can be written, got '/dev/full' (No space left on device)\n"
    assert (code, out, err) == (2, "", expected)


@FULL
@pytest.mark.parametrize("command", [["audit", TRL], ["--help"]])
def test_output_that_cannot_be_written_is_one_line(capsys, monkeypatch, command):
    with open("/dev/full", "w") as full, pytest.raises(SystemExit) as stopped:
        monkeypatch.setattr(sys, "stdout", full)
        gdpo_cli.main(command)
    assert stopped.value.code == 2
    expected = "gdpo: standard output: expected one that can be written, got No space left on device\n"
    assert capsys.readouterr().err == expected and full.closed


# --- in a pipeline ---------------------------------------------------------------------------------------------------


def pipeline(capsys, monkeypatch, findings, *arguments) -> tuple[int, str, str]:
    """Run `gdpo audit` with a report that holds these findings; return its exit status, its output and its errors."""
    monkeypatch.setattr(cli, "audit", lambda *_, **__: audited.report(path=TRL, findings=findings))
    return run(capsys, TRL, *arguments)


DEAD = {"id": "reward-dead", "title": "It is", "message": "It is.", "evidence": {}}
CONFLICT = Finding(message="50 % of it.", evidence={}, id="conflict", title="They conflict")


@pytest.mark.parametrize(
    ("fail_on", "findings", "status"),
    [
        ("error", [CONFLICT], 0),
        ("warning", [CONFLICT], 1),
        ("conflict", [CONFLICT], 1),
        ("reward-dead", [CONFLICT], 0),
        ("reward_dead,conflict,conflict,error", [CONFLICT], 1),
        ("error,reward-dead", [Finding(**DEAD, severity="info")], 1),
        ("warning", [Finding(**DEAD, severity="info")], 0),
        (None, [CONFLICT], 0),
    ],
)
def test_a_finding_that_was_asked_for_is_the_status(capsys, monkeypatch, fail_on, findings, status):
    arguments = [] if fail_on is None else ["--fail-on", fail_on]
    code, out, err = pipeline(capsys, monkeypatch, findings, *arguments)
    assert code == status and out
    assert err == (f"gdpo: fail-on: {TRL}: {findings[0].id}\n" if status else "")


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "Missing argument 'PATH...'"),
        (["nowhere"], "nowhere: expected a file or directory"),
        ([TRL, "--foo"], "No such option"),
        ([TRL, "--primary"], "Option '--primary' requires an argument"),
        ([TRL, "--weight", "format_reward"], "weight: expected NAME=NUMBER, got 'format_reward'"),
        ([TRL, "--weight", "format_reward=nan"], "weight: expected NAME=NUMBER"),
        ([TRL, "--weight", "format_reward=1e300"], "weight: expected a number of at most 1e+30"),
        ([TRL, "--weight", "a=1", "--weight", "a=2"], "weight: expected each reward once, got 'a' twice"),
        ([TRL, *(f"--weight={name}=0" for name in ga.read_run(TRL).rewards)], "weight: expected one that is not 0"),
        ([TRL, "--group-size", "0"], "group-size: expected a whole number from 1, got '0'"),
        ([TRL, "--group-size", "1" * 10], "group-size: expected a whole number from 1 with at most 9 digits, got '1"),
        ([TRL, "--json", "{tmp}"], "json: expected a file in a directory that exists, got '{tmp}'"),
        ([TRL, "--html", "{tmp}/no/x.html"], "html: expected a file in a directory that exists"),
        ([TRL, "--columns", "step"], "columns: expected step=NAME, advantage=NAME or length=NAME, with commas"),
        ([TRL, "--columns", "stap=a"], "columns: expected step, advantage or length"),
        ([TRL, "--columns", "step=a,step=b"], "columns: expected each of step, advantage and length once"),
        ([TRL, "--fail-on", "erorr"], "fail-on: expected error, warning, info or the id of a finding: advantage"),
        ([TRL, SWIFT, "--primary", "Format"], f"{TRL}: primary: expected one of correctness_reward"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(capsys, tmp_path, arguments, named):
    code, out, err = run(capsys, *(a.replace("{tmp}", str(tmp_path)) for a in arguments))
    assert (code, out) == (2, "")
    assert err.count("\n") == 1 and err.startswith(f"gdpo: {named.replace('{tmp}', str(tmp_path))}")
    assert not list(tmp_path.iterdir())


def test_one_bad_run_of_several_leaves_no_part_of_a_verdict(capsys, tmp_path):
    code, out, err = run(capsys, TRL, tmp_path / "nowhere", "--html", tmp_path / "x.html")
    assert (code, out) == (2, "") and "nowhere" in err and not (tmp_path / "x.html").exists()


# --- the command as a process ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "status"),
    [(["audit", TRL, "--json", "-"], 0), (["--help"], 0), (["audit", TRL, "--fail-on", "info"], 1)],
)
def test_a_reader_who_leaves_ends_it_quietly_and_the_status_stands(capsys, monkeypatch, command, status):
    read, write = os.pipe()
    os.close(read)
    with suppress(BrokenPipeError), open(write, "w") as pipe, pytest.raises(SystemExit) as stopped:
        monkeypatch.setattr(sys, "stdout", pipe)
        # Click puts another stderr in its place, and monkeypatch undoes that.
        monkeypatch.setattr(sys, "stderr", sys.stderr)
        gdpo_cli.main(command)
    # The status is not 1, which is kept for findings.
    assert stopped.value.code == status == capsys.readouterr().err.count("\n")


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_it_stops_quietly_when_told_to():
    script = (
        "import sys, time, gdpo_cli\nfrom gdpo_audit.command import cli\n"
        "def wait(*_, **__):\n    print('reading', file=sys.stderr, flush=True)\n"
        "    for _ in range(600):\n        time.sleep(0.1)  # Python 3.14 may notice a signal only after one\n"
        f"cli.read_run = wait\ngdpo_cli.main(['audit', {TRL!r}])"
    )
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stderr.readline() == "reading\n"
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=20)
    assert (child.returncode, out, err) == (130, "", "")
