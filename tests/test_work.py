"""The places where people work: the hook of pre-commit, the action of workflows, and the skill of assistants."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from logs import gdpo
from test_check import GDPO_VERL, axolotl, verl
from test_release import WORKFLOWS
from typer.main import get_command

import gdpo_cli
from gdpo_core.checking.check import ConfigCheck
from gdpo_core.checking.traps import FoundTrap

ROOT = Path(__file__).parent.parent
ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
(HOOK,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
SKILL = ROOT / "skills" / "gdpo" / "SKILL.md"
BAD = verl(GDPO_VERL.replace("n=8", "n=1"))


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """Return a folder with a configuration that runs, one with an error, and a file that is none."""
    (tmp_path / "configs" / "more").mkdir(parents=True)
    (tmp_path / "configs" / "gdpo.yaml").write_text(axolotl(""))
    (tmp_path / "configs" / "bad.sh").write_text(BAD)
    (tmp_path / "configs" / "more" / "my own.yaml").write_text(axolotl("", rl="grpo"))
    (tmp_path / "notes.yaml").write_text("steps: [1]\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


# --- pre-commit ------------------------------------------------------------------------------------------------------


def test_the_hook_passes_what_runs_and_fails_at_an_error_and_at_what_is_no_configuration(capsys, checkout):
    command, *options = shlex.split(HOOK["entry"])
    assert command == "gdpo" and HOOK["language"] == "python"
    for files, status in (
        (["configs/gdpo.yaml", "configs/more/my own.yaml"], 0),
        (["configs/gdpo.yaml", "configs/bad.sh"], 1),
        (["notes.yaml", "configs/bad.sh"], 2),
    ):
        assert gdpo(capsys, *options, *files)[0] == status


def test_the_hook_takes_the_files_whose_names_say_that_they_are_configurations():
    fits = re.compile(HOOK["files"]).search
    assert all(fits(name) for name in ("train_GRPO.sh", "configs/gdpo/a.yaml"))
    assert not any(fits(name) for name in ("train.sh", ".github/workflows/test.yml", "gopro.yaml"))


# --- the action ------------------------------------------------------------------------------------------------------


def test_the_action_is_pinned_and_its_scripts_hold_nothing_that_somebody_else_may_write():
    steps = ACTION["runs"]["steps"]
    (used,) = (step["uses"] for step in steps if "uses" in step)
    assert re.fullmatch(r"actions/setup-python@[0-9a-f]{40}", used) and any(used in text for text in WORKFLOWS)
    assert not [step["run"] for step in steps if "${{" in step.get("run", "")]
    given = " ".join(str(step.get("env", "")) for step in steps)
    assert set(re.findall(r"inputs\.(\w+)", given)) == set(ACTION["inputs"])


def action(tmp_path: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the action's last step as a runner does, in the folder where the caller stands, with this Python's gdpo.

    inputs: the inputs of the action that are not the defaults.
    """
    program = tmp_path / "runner" / "gdpo" / "bin" / "gdpo"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "from gdpo_cli import main; main()" "$@"\n')
    program.chmod(0o755)
    given = {name: one.get("default", "") for name, one in ACTION["inputs"].items()} | inputs
    step = ACTION["runs"]["steps"][-1]
    named = {key: given[re.fullmatch(r"\$\{\{ inputs\.(\w+) \}\}", value)[1]] for key, value in step["env"].items()}
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    places = {"RUNNER_TEMP": str(tmp_path / "runner"), "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, env=os.environ | named | places, capture_output=True, text=True, timeout=60)


def test_the_action_marks_the_files_that_its_patterns_name(checkout):
    ran = action(checkout, files="configs/*.sh\nconfigs/gdpo.yaml\nconfigs/more/my own.yaml\n")
    first, mark, *rest = ran.stdout.splitlines()
    assert ran.returncode == 1 and ran.stderr == "" and first.endswith("(configs/bad.sh)")
    assert mark.startswith("::error file=configs/bad.sh,line=3,title=gdpo verl-one-answer::")
    assert [line.partition("(")[2] for line in rest if "::" not in line] == [
        "configs/gdpo.yaml)",
        "configs/more/my own.yaml)",
    ]
    assert action(checkout, files="configs/bad.sh", strict="false").returncode == 0


def test_the_action_takes_files_together_and_the_trainer_that_is_given(checkout):
    (checkout / "more.yaml").write_text("algorithm: {gamma: 1}\n")
    ran = action(checkout, files="configs/bad.sh\nmore.yaml", each="false", trainer="verl==0.8.0")
    assert ran.returncode == 1 and "(configs/bad.sh and more.yaml)" in ran.stdout.splitlines()[0]
    ran = action(checkout, files="configs/gdpo.yaml", trainer="verl")
    assert ran.returncode == 2 and ran.stdout.startswith("::error title=gdpo check::")


@pytest.mark.parametrize("files", ["nothing/*.yaml", "", "none.yaml", "notes.yaml", "$(touch run).yaml", "--help"])
def test_the_action_says_in_one_line_what_it_cannot_check(checkout, files):
    ran = action(checkout, files=files)
    assert ran.returncode == 2 and not (checkout / "run").exists()
    assert ran.stdout.startswith("::error title=gdpo check::") and ran.stdout.count("\n") == 1


# --- the skill -------------------------------------------------------------------------------------------------------


def test_the_skill_has_a_name_and_a_description_that_assistants_read():
    _, front, _ = SKILL.read_text("utf-8").split("---\n", 2)
    about = yaml.safe_load(front)
    assert about["name"] == SKILL.parent.name and 40 < len(about["description"]) <= 1024
    assert set(about) == {"name", "description"}


def commands() -> list[str]:
    return re.findall(r"^```\n(gdpo .+)\n```$", SKILL.read_text("utf-8"), re.MULTILINE)


def test_the_commands_of_the_skill_run_and_print_the_members_that_it_names(capsys):
    before, after = commands()
    text = SKILL.read_text("utf-8")
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    named = {title: set(re.findall(r"^- `(\w+)`", body, re.MULTILINE)) for title, body in sections.items()}
    log, sample = ROOT / "tests/configs/verl/gdpo_qwen3_8b_fsdp.sh", ROOT / "data/samples/pays_5_grpo"
    code, out, err = gdpo(capsys, *shlex.split(before.replace("FILES", str(log)))[1:])
    check = json.loads(out)
    assert (code, err) == (0, "") and named["Before a run"] <= set(check) and len(named["Before a run"]) == 5
    assert set(re.findall(r"`(says|severity|line)`", sections["Before a run"])) <= set(check["traps"][0])
    given = after.replace("OUT", str(sample)).replace("REWARD", "correctness")
    code, out, err = gdpo(capsys, *shlex.split(given)[1:])
    report = json.loads(out)
    assert (code, err) == (0, "") and named["After a run"] <= set(report) and len(named["After a run"]) == 4
    assert {"message", "fix"} <= set(report["findings"][0]) and {"recommended", "cost", "forecast"} <= set(
        report["plan"][0]
    )
    assert {claim["evidence"] for claim in report["reading"]} <= {"proved", "agrees", "assumed"}
    options = {option for command in ("check", "audit") for p in get_command(gdpo_cli.app).commands[command].params
               for option in p.opts}  # fmt: skip
    assert set(re.findall(r"(--\w+)\b", text)) <= options
    assert {"headline", "unread", "facts"} <= set(ConfigCheck.__dataclass_fields__)
    assert {"ends", "versions"} <= set(FoundTrap.__dataclass_fields__)
