"""The first line of a check: whether the run starts, which method runs with how many rewards, and what is not told."""

import json
import re
from pathlib import Path

import pytest
from logs import gdpo
from test_check import (
    CASES,
    CONFIGS,
    GDPO_NEMO,
    GDPO_SWIFT,
    GDPO_TRL,
    GDPO_VERL,
    RULES,
    SUFFIXES,
    axolotl,
    nemo,
    swift,
    trl,
    verl,
)

import gdpo_core as gc
from gdpo_core.conventions import NAMES

V1 = GDPO_VERL.replace("trainer.use_v1=False ", "")
TWO_TRAPS = GDPO_VERL + "algorithm.use_kl_in_reward=True algorithm.norm_adv_by_std_in_grpo=False"
SAYS = {"start": "Will not start", "update": "Will end before its first update"}
TRL, VERL, SWIFT, AXOLOTL = ("TRL 1.16.0", "verl 0.9.1", "ms-swift 4.6.0", "axolotl 0.21.0")
NEMO = "NeMo-RL main of 22 August 2026"


@pytest.mark.parametrize(
    ("text", "name", "trainer", "says"),
    [
        (trl(GDPO_TRL), "a.py", None, f"Will run GDPO with 2 rewards, by the rules of {TRL}."),
        (trl(funcs="accuracy"), "a.py", None, f"Will run GRPO with 1 reward, by the rules of {TRL}."),
        (trl("scale_rewards=False"), "a.py", None, f"Will run GRPO without std with 2 rewards, by the rules of {TRL}."),
        (trl("", "RLOOConfig"), "a.py", None, f"Will run RLOO with 2 rewards, by the rules of {TRL}."),
        (trl("num_generations=1"), "a.py", None, f"Will not start, by the rules of {TRL}."),
        (trl("num_generations=1") + trl(), "a.py", None,
         f"The first of several runs will not start, by the rules of {TRL}."),
        (trl("scale_rewards='gdpo'"), "a.py", None, f"Will end before its first update, by the rules of {TRL}."),
        (trl(GDPO_TRL + "scale_rewards='gdpo'"), "a.py", None, f"Will run GDPO with 2 rewards, by the rules of {TRL}."),
        (trl("scale_rewards=how"), "a.py", None, "Not told which method runs."),
        (verl(GDPO_VERL), "a.sh", None, f"Will run GDPO with 2 rewards, by the rules of {VERL}."),
        (verl("algorithm.adv_estimator=grpo"), "a.sh", None, f"Will run GRPO, by the rules of {VERL}."),
        (verl("data.train_batch_size=8"), "a.sh", None, f"Will run PPO with a critic (gae), by the rules of {VERL}."),
        (verl("algorithm.adv_estimator=remax"), "a.sh", None, f"Will run remax, by the rules of {VERL}."),
        (verl("algorithm.adv_estimator=$1"), "a.sh", None, "Not told which method runs."),
        # A trap that only some versions have: of a version that is given it is told, of another one it is not there.
        (verl(V1), "a.sh", "verl==0.9.0", f"Will end before its first update, by the rules of {VERL}."),
        (verl(V1), "a.sh", "verl==0.8.9", f"Will run GDPO with 2 rewards, by the rules of {VERL}."),
        (
            verl(V1), "a.sh", None,
            f"Will end before its first update in versions from 0.9 on, by the rules of {VERL}; no version is given.",
        ),
        (verl(V1 + "\npython3 -m verl.trainer.main_ppo a=1"), "a.sh", "verl==0.9.1",
         f"The first of several runs will end before its first update, by the rules of {VERL}."),
        # An error that makes something else run than the configuration says ends nothing.
        (verl(GDPO_VERL + "algorithm.use_kl_in_reward=True"), "a.sh", None,
         f"Will run GDPO with 2 rewards, by the rules of {VERL}."),
        ("source settings.sh\n" + verl(GDPO_VERL), "a.sh", None,
         f"Will run GDPO with 2 rewards, by the rules of {VERL}, unless what was not looked into says otherwise."),
        (swift(GDPO_SWIFT), "a.sh", None, f"Will run GDPO with 2 rewards, by the rules of {SWIFT}."),
        (swift("--rlhf_type dpo"), "a.sh", None, f"Will run dpo, by the rules of {SWIFT}."),
        ("swift sft --model m --num_generations 8 --reward_funcs a", "a.sh", None,
         f"Will run supervised training, by the rules of {SWIFT}."),
        (nemo(GDPO_NEMO), "a.sh", None, f"Will run GDPO, by the rules of {NEMO}."),
        (nemo(GDPO_NEMO + "grpo.adv_estimator.normalize_rewards=false"), "a.sh", None,
         f"Will run GDPO's batch step without its normalisation of each reward, by the rules of {NEMO}."),
        (axolotl("trl: {reward_funcs: [m.a, m.b, m.c]}"), "a.yaml", None,
         f"Will run GDPO with 3 rewards, by the rules of {AXOLOTL}."),
        (axolotl("", rl="dpo"), "a.yaml", None, f"Will run dpo, by the rules of {AXOLOTL}."),
        ("base_model: m\nrl: grpo\nhatchery:\n  a: 1\n", "a.yaml", None, "Not told which method runs."),
    ],
)  # fmt: skip
def test_the_first_line_says_what_runs_and_no_more_than_was_read(text, name, trainer, says):
    check = gc.check_config({name: text}, trainer)
    assert check.headline == says
    assert check.to_dict()["headline"] == says and str(check).startswith(says + "\n")


@pytest.mark.parametrize("trap", CASES)
def test_a_trap_that_ends_the_run_is_the_first_line_where_it_is_and_not_beside_it(trap):
    (rule,) = (rule for rules in RULES.values() for rule in rules.traps if rule.id == trap)
    suffix = SUFFIXES[trap.partition("-")[0]]
    (holds, at), (near, beside) = (case if isinstance(case, tuple) else (case, None) for case in CASES[trap])
    check = gc.check_config({f"train{suffix}": holds}, at)
    (found,) = (one for one in check.traps if one.id == trap)
    assert found.ends == rule.ends
    fatal = {one.ends for one in check.traps if one.ends and one.severity == "error"}
    said = next((word for start, word in SAYS.items() if start in fatal), None)
    assert check.headline.startswith(said or ("Will run", "Not told"))
    others = {one.ends for one in gc.check_config({f"train{suffix}": near}, beside).traps if one.id != trap}
    assert gc.check_config({f"train{suffix}": near}, beside).headline.startswith(("Will run", "Not told")) or others


# These words of a sentence say that the trainer refuses to start, or that an error ends the run.
ENDS = re.compile(r"\brefuse[sd]?\b|\bstops with an? |run stops|IndexError ends|has no (GDPO|rl: gdpo|multi)")


def test_a_trap_whose_sentence_says_that_the_run_ends_is_known_to_end_it():
    traps = [trap for rules in RULES.values() for trap in rules.traps if trap.severity == "error"]
    said = {trap.id for trap in traps if ENDS.search(trap.says)}
    assert {trap.id for trap in traps if trap.ends} == said
    assert not [trap.id for rules in RULES.values() for trap in rules.traps if trap.ends and trap.severity != "error"]
    later = {trap.id for trap in traps if trap.ends == "update"}
    assert {name.partition("-")[0] for name in later - {"trl-scale-is-no-method"}} == {"verl", "nemo"}


@pytest.mark.parametrize("file", sorted(CONFIGS.glob("*/*.*")), ids=lambda path: path.name)
def test_a_real_configuration_gets_a_first_line_that_its_facts_bear_out(file):
    try:
        check = gc.check_config(str(file))
    except gc.InputError:
        return
    if check.method and not any(trap.ends for trap in check.errors):
        assert NAMES[check.method] in check.headline
        told = re.search(r"with (\d+) rewards?,", check.headline)
        assert (int(told[1]) if told else None) == (len(check.rewards) if check.rewards else None)
    elif check.headline.startswith("Not told"):
        assert check.method is None
    else:
        assert any(trap.ends for trap in check.errors) or check.method is None


# --- how it is printed -----------------------------------------------------------------------------------------------


def test_errors_stand_before_the_facts_and_milder_traps_behind_them(capsys, tmp_path):
    (tmp_path / "a.sh").write_text(verl(TWO_TRAPS))
    code, out, err = gdpo(capsys, "check", tmp_path / "a.sh")
    assert (code, err) == (0, "")
    places = [out.index(text) for text in ("error  verl-kl-vanishes", "\ntrainer ", "warning  verl-std-stays")]
    assert out.splitlines()[0] == f"Will run GDPO with 2 rewards, by the rules of {VERL}." and places == sorted(places)


def test_each_file_is_its_own_configuration_and_one_that_cannot_be_read_holds_up_no_other(
    capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.sh").write_text(verl(GDPO_VERL))
    (tmp_path / "b.yaml").write_text(axolotl("trl: {num_generations: 1}"))
    (tmp_path / "c.yaml").write_text("steps: [1]\n")
    a, b, c = "a.sh", "b.yaml", "c.yaml"
    assert gdpo(capsys, "check", a, b)[0] == 2  # together they are a configuration of two trainers
    code, out, err = gdpo(capsys, "check", a, b, "--each")
    assert (code, err) == (0, "") and out.count("Will ") == 2 and "\n\nWill not start" in out
    assert [gdpo(capsys, "check", *files, "--each", "--strict")[0] for files in ([a], [a, b], [c, b])] == [0, 1, 2]
    code, out, err = gdpo(capsys, "check", a, c, b, "--each", "--json", "-")
    told = json.loads(out)
    assert code == 2 and [one["files"] for one in told["checks"]] == [[a], [b]]
    assert [f"gdpo: {text}\n" for text in told["refused"]] == [err] and "c.yaml" in err


def parts(line: str) -> tuple[str, dict[str, str], str]:
    """Return the name, the properties and the message of a command, read as GitHub's runner reads it."""
    name, given, message = re.fullmatch(r"::(\w+) ([^:]*)::(.*)", line).groups()
    properties = dict(pair.split("=", 1) for pair in given.split(","))

    def meant(text, codes):
        for code, sign in codes:
            text = text.replace(code, sign)
        return text

    data = [("%0D", "\r"), ("%0A", "\n"), ("%25", "%")]
    in_property = [("%3A", ":"), ("%2C", ","), *data]
    return name, {key: meant(value, in_property) for key, value in properties.items()}, meant(message, data)


def test_github_gets_a_command_for_each_trap_at_its_file_and_line(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "a,b:100%.sh"
    Path(name).write_text(verl(TWO_TRAPS))
    code, out, err = gdpo(capsys, "check", name, "--format", "github", "--strict")
    first, *rest = out.splitlines()
    assert (code, err) == (1, "") and first == f"Will run GDPO with 2 rewards, by the rules of {VERL}. ({name})"
    (kind, where, says), (second, *_) = map(parts, rest)
    assert (kind, second) == ("error", "warning")
    assert where == {"file": name, "line": "3", "title": "gdpo verl-kl-vanishes"}
    assert says.startswith("The KL penalty vanishes") and "\nWrite: " in says and "%0A" not in says
    Path("one.yaml").write_text(axolotl(""))
    old = ("one.yaml", "--format", "github", "--trainer", "axolotl==0.13.1")
    ((kind, where, _), (told, beside, _)) = map(parts, gdpo(capsys, "check", *old)[1].splitlines()[1:])
    assert kind == "error" and where == {"file": "one.yaml", "line": "2", "title": "gdpo axolotl-before-gdpo"}
    assert told == "notice" and beside["title"] == "gdpo axolotl-broken-groups-of-a-process"
    # A trap without a place stands in the one file; among several files it names none.
    Path("v.sh").write_text(verl("algorithm.adv_estimator=gdpo trainer.use_v1=False actor_rollout_ref.rollout.n=4"))
    Path("v.yaml").write_text("algorithm: {gamma: 1}\n")
    for files, expected in ((["v.sh"], "v.sh"), (["v.sh", "v.yaml"], None)):
        lines = gdpo(capsys, "check", *files, "--format", "github")[1].splitlines()[1:]
        told = [where for _, where, _ in map(parts, lines) if "no-keys" in where["title"]]
        assert told and all(where.get("file") in (expected, "v.sh") for where in told)


def test_github_is_told_no_line_of_a_notebook_and_no_command_that_a_configuration_holds(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = swift(GDPO_SWIFT + "--multi_objective_aggregation x").splitlines(True)
    cells = [{"cell_type": "code", "source": ["!" + "".join(source)]}]
    Path("a.ipynb").write_text(json.dumps({"cells": cells}))
    _, *lines = gdpo(capsys, "check", "a.ipynb", "--format", "github")[1].splitlines()
    ((_, where, says),) = (one for one in map(parts, lines) if "no-aggregation" in one[1]["title"])
    assert "line" not in where and where["file"] == "a.ipynb" and "a.ipynb:" in says
    Path("b.sh").write_text(verl("algorithm.adv_estimator='##[error]x'"))
    out = gdpo(capsys, "check", "b.sh", "--format", "github")[1]
    assert "error" in out and "##[" not in out


def test_what_github_cannot_be_told_is_refused_in_one_sentence(capsys, tmp_path):
    (tmp_path / "a.sh").write_text(verl(GDPO_VERL))
    for options, says in {
        ("--format", "xml"): "--format: expected text or github, got 'xml'",
        ("--format", "github", "--json", "-"): "--format: expected no --json - beside github, got one",
        ("--format", "github", "--log", "x.csv"): "--format: expected no --log beside github, got one",
    }.items():
        assert gdpo(capsys, "check", tmp_path / "a.sh", *options) == (2, "", f"gdpo: {says}\n")
    code, out, err = gdpo(capsys, "check", tmp_path / "none.sh", "--format", "github")
    assert code == 2 and err.count("\n") == 1 and parts(out.strip())[2] == err.removeprefix("gdpo: ").strip()
