"""The lines of configuration, read back as what they are: Python, a shell's arguments or YAML."""

import ast
import functools
import json
import math
import shlex
from dataclasses import asdict
from decimal import Decimal
from fractions import Fraction

import pytest
import torch

import gdpo_core as gc
from gdpo_audit.logs.trainers.trainer_forms import FORMS
from gdpo_core import config_lines
from gdpo_core.conventions import NAMES
from gdpo_core.frameworks import ALL_CONVENTIONS, CONVENTIONS, FRAMEWORKS, READABLE, framework_named

REWARDS, WEIGHTS = ["correct", "format", "brief"], [1.0, 0.5, 2.0]


def keywords(line):
    """Return the name of the function in a call, and its keyword arguments."""
    call = ast.parse(line).body[0].value
    return ast.unparse(call.func), {k.arg: ast.literal_eval(k.value) for k in call.keywords}


def code(text):
    return "\n".join(line for line in text.splitlines() if not line.startswith("#"))


def yaml(text):
    return pytest.importorskip("yaml").safe_load(text)


# --- lines that switch to GDPO ---------------------------------------------------------------------------------------


def switched(framework):
    return code(config_lines.switch_to_gdpo(framework, REWARDS, WEIGHTS, 8))


def test_trl_is_switched_by_its_own_arguments_and_the_lines_say_the_same_for_axolotl():
    given = {"multi_objective_aggregation": "normalize_then_sum", "reward_weights": WEIGHTS, "num_generations": 8}
    assert keywords(switched("trl")) == ("GRPOConfig", given)
    for text in (
        config_lines.switch_to_gdpo("trl", REWARDS, WEIGHTS),
        config_lines.set_weights("trl", REWARDS, WEIGHTS),
    ):
        comment = text.splitlines()[-1]
        assert comment.startswith("# axolotl: ") and comment.endswith(f"trl.reward_weights: {WEIGHTS}")
    given = yaml(switched("axolotl"))
    trl = {"num_generations": 8, "reward_weights": WEIGHTS, "log_completions": True}
    assert given == {"rl": "gdpo", "trl": trl}


def test_verl_is_switched_by_overrides_whose_lists_are_json():
    given = dict(word.split("=", 1) for word in shlex.split(switched("verl").replace("\\\n", "")))
    assert (given["algorithm.adv_estimator"], given["trainer.use_v1"]) == ("gdpo", "False")
    assert (given["reward.reward_manager.name"], given["actor_rollout_ref.rollout.n"]) == ("gdpo", "8")
    assert json.loads(given["+algorithm.gdpo_reward_keys"]) == REWARDS
    assert json.loads(given["+algorithm.gdpo_reward_weights"]) == WEIGHTS


def test_ms_swift_is_switched_by_flags():
    flags = ["--scale_rewards", "gdpo", "--reward_weights", "1", "0.5", "2", "--num_generations", "8"]
    assert shlex.split(switched("ms_swift")) == flags


def test_nemo_rl_takes_the_weights_in_alphabetical_order():
    given = yaml(switched("nemo_rl"))["grpo"]
    estimator, ordered = given["adv_estimator"], [w for _, w in sorted(zip(REWARDS, WEIGHTS, strict=True))]
    assert given["num_generations_per_prompt"] == 8 and estimator["reward_weights"] == ordered
    assert estimator["name"] == "gdpo" and estimator["use_leave_one_out_baseline"] is False
    weights = yaml(config_lines.set_weights("nemo_rl", REWARDS, WEIGHTS))["grpo"]["adv_estimator"]
    assert weights == {"reward_weights": ordered}


# --- lines that switch to other methods ------------------------------------------------------------------------------


def test_every_framework_is_switched_to_other_methods():
    switch = functools.partial(config_lines.switch_to, rewards=REWARDS, weights=WEIGHTS)
    for method, scale in {"grpo": "group", "grpo_no_std": "none", "grpo_batch_std": "batch"}.items():
        aggregation = {"multi_objective_aggregation": "sum_then_normalize", "scale_rewards": scale}
        assert keywords(code(switch("trl", method=method))) == ("GRPOConfig", aggregation | {"reward_weights": WEIGHTS})
        words = shlex.split(switch("ms_swift", method=method))
        assert words == ["--scale_rewards", scale, "--reward_weights", "1", "0.5", "2"]
    for method, divides in {"grpo": True, "grpo_no_std": False}.items():
        overrides, score = switch("verl", method=method).split("\n", 1)
        assert shlex.split(overrides)[1] == f"algorithm.norm_adv_by_std_in_grpo={divides}"
        assert score == config_lines.set_weights("verl", REWARDS, WEIGHTS, method)
        estimator = yaml(switch("nemo_rl", method=method).splitlines()[0])["grpo"]["adv_estimator"]
        assert (estimator["name"], estimator["normalize_rewards"]) == ("grpo", divides)
        given = yaml(switch("axolotl", method=method))
        assert given["rl"] == "grpo" and given["trl"]["scale_rewards"] is divides
    rewards = torch.rand(4, 8, 3, dtype=torch.float64)
    for method in (*NAMES, *gc.SUCCESSORS):
        for framework in ("generic", "verifiers"):
            made = eval(code(switch(framework, method=method)), {"gdpo_core": gc, "rewards": rewards})
            assert made.equal(gc.advantages(rewards, method, weights=WEIGHTS))
    assert switch("verl", method="grpo_batch_std") is None
    assert switch("trl", method="gdpo") == config_lines.switch_to_gdpo("trl", REWARDS, WEIGHTS)


# --- lines for the log and for gates ---------------------------------------------------------------------------------


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_no_line_is_left_half_written(framework):
    without_values = [x for x in asdict(FRAMEWORKS[framework].lines).values() if isinstance(x, str) and "$" not in x]
    made = [
        config_lines.switch_to_gdpo(framework, REWARDS),
        config_lines.set_weights(framework, REWARDS, WEIGHTS),
        config_lines.set_weights(framework, REWARDS, WEIGHTS, "grpo"),
        config_lines.log_rewards(framework, REWARDS),
        *(config_lines.gate(framework, REWARDS, "brief", "correct", otherwise=worst) for worst in (0.0, -3.2)),
    ]
    assert not any("None" in text.replace("is not None", "") for text in made)
    for text in (*without_values, *made):
        assert not any(mark in text for mark in ("{}", "nan", "…", "$")), text
        assert all(len(line) <= 140 for line in text.splitlines()), text


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_gate_leaves_no_more_than_the_worst_penalty(framework):
    """The best value of a penalty is 0, which a closed gate would give to wrong answers."""
    penalty, correct = [-0.5, -3.204, -0.1], [1.0, 1.0, 0.0]
    line = config_lines.gate(framework, ["correct", "brief"], "brief", "correct", otherwise=-3.204)
    assert "no better than its worst penalty" in line
    if framework in ("trl", "axolotl"):
        scope = {"brief": lambda completions, **_: penalty, "correct": lambda completions, **_: correct}
        exec(line, scope)
        gated = scope["brief_gated"](["a", "b", "c"])
    elif framework == "ms_swift":
        exec(line, scope := {"brief": penalty, "correct": correct})
        gated = scope["brief"]
    elif framework == "generic":
        exec(line, scope := {"torch": torch, "rewards": torch.tensor([correct, penalty]).T})
        gated = scope["rewards"][:, 1].tolist()
    else:
        gated = []
        for p, c in zip(penalty, correct, strict=True):
            exec(line, scope := {"brief": p, "correct": c})
            gated.append(scope["brief"])
    # The worst value is given with three digits and rounded away from 0.
    assert gated == pytest.approx([-0.5, -3.204, -3.21])


def test_without_a_penalty_the_gate_is_that_of_the_paper():
    scope = {"gdpo_core": gc, "rewards": [[1.0, 0.0, 0.5], [0.0, 0.0, 0.7]]}
    exec(config_lines.gate("generic", REWARDS, "brief", "correct"), scope)
    assert scope["rewards"].tolist() == [[1.0, 0.0, 0.5], [0.0, 0.0, 0.0]]
    scope = {"brief": lambda completions, **_: [0.5, 0.7, 0.9, 1], "correct": lambda completions, **_: [1, 0, 1, None]}
    exec(config_lines.gate("trl", REWARDS, "brief", "correct"), scope)
    assert scope["brief_gated"](["a", "b", "c", "d"], prompts=[]) == [0.5, 0.0, 0.9, 0.0]


@pytest.mark.parametrize("threshold", [2 / 3, 1000001.0, 1.0, 0.5, 0.1 + 0.2, 1e-7, Fraction(2, 3), Decimal("0.7")])
def test_a_gate_opens_at_its_threshold_and_at_no_value_below(threshold):
    if isinstance(threshold, Decimal):  # Python counts it as no real number
        with pytest.raises(gc.InputError, match="threshold: expected a finite number"):
            config_lines.gate("verl", ["c", "f"], "f", "c", threshold)
        return
    line = config_lines.gate("verl", ["c", "f"], "f", "c", threshold, otherwise=Fraction(-1, 3))
    for c, opened in ((float(threshold), True), (math.nextafter(float(threshold), -math.inf), False)):
        exec(line, scope := {"c": c, "f": 5.0})
        assert (scope["f"] == 5.0) is opened
    assert "reaches 1\n" in config_lines.gate("verl", ["c", "f"], "f", "c", 1.0)


def test_names_that_are_no_identifiers_make_python_that_runs():
    names = ["class", "None", "a-b", "a_b", "a b", "x²", "two\nlines", "3rd"]
    line = config_lines.log_rewards("verl", names).splitlines()[-1]
    values = {"class_": 1, "None_": 2, "a_b_": 3, "a_b": 4, "a_b__": 5, "x2": 6, "two_lines": 7, "_3rd": 8}
    exec(f"def score():\n    {line}", values)
    assert values["score"]() == dict(zip(names, range(1, 9), strict=True)) | {"score": 36}
    for framework in FRAMEWORKS:
        ast.parse(config_lines.gate(framework, names, "two\nlines", "class", otherwise=-1))
    ordered, line = (config_lines.switch_to_gdpo(framework, names) for framework in ("nemo_rl", "generic"))
    assert r"two\nlines" in ordered and r"two\nlines" in line
    ast.parse(line)


def test_a_reward_called_score_leaves_verls_total_its_key_and_quotes_are_the_shells():
    for line in (
        config_lines.set_weights("verl", ["score", "acc"], [1, 0.5], method="grpo"),
        config_lines.log_rewards("verl", ["score", "acc"]),
    ):
        exec(f"def compute():\n    {line.splitlines()[-1]}", scope := {"score": 2.0, "acc": 4.0})
        assert scope["compute"]()["score"] == (4.0 if "0.5" in line else 6.0)
    line = config_lines.switch_to_gdpo("verl", ["q", "it's"]).splitlines()[-1]
    assert """+algorithm.gdpo_reward_keys=["q","it's"]""" in shlex.split(line)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: config_lines.switch_to_gdpo([], REWARDS), r"framework: expected one of trl, .*, got \[\]"),
        (lambda: config_lines.switch_to("trl", REWARDS, WEIGHTS, "ppo"), "method: expected one of grpo, .* got 'ppo'"),
        (lambda: config_lines.switch_to("trl", REWARDS, WEIGHTS, []), "method: expected one of grpo"),
        (lambda: config_lines.set_weights("trl", REWARDS, WEIGHTS, None), "method: expected one of grpo"),
        (lambda: config_lines.log_rewards("verl", (x for x in "ab")), "rewards: expected a list of names, got <gen"),
        (lambda: config_lines.switch_to_gdpo("trl", ["a", 2]), r"rewards: expected a list of names, got \['a', 2\]"),
        (lambda: config_lines.gate("verl", "ab", "a", "b"), "rewards: expected a list of names, got 'ab'"),
        (lambda: config_lines.set_weights("trl", ["a"], (x for x in [1])), "weights: expected 1 numbers, one per"),
        (lambda: config_lines.switch_to_gdpo("ppo", REWARDS), "framework: expected one of trl"),
        (lambda: config_lines.switch_to_gdpo("trl", REWARDS, group_size=-1), "group_size: expected a whole number"),
        (
            lambda: config_lines.switch_to_gdpo("trl", ["a", "a"]),
            r"rewards: expected different names, got \['a', 'a'\]",
        ),
        (lambda: config_lines.switch_to_gdpo("trl", []), "rewards: expected at least one name, got none"),
        (lambda: config_lines.set_weights("trl", REWARDS, [1, 2]), "weights: expected 3 numbers, one per reward, got"),
        (lambda: config_lines.set_weights("trl", REWARDS, [1, 2, "3"]), "weights: expected finite numbers, got '3'"),
        (lambda: config_lines.gate("trl", REWARDS, "brief", "right"), "on: expected one of correct, format, brief"),
        (lambda: config_lines.gate("trl", REWARDS, "brief", "correct", "1"), "threshold: expected a finite number"),
        (lambda: framework_named("openrlhf"), r"^framework: expected one of trl \(axolotl\), .*, generic, got 'openr"),
    ],
)
def test_bad_input_names_the_argument(call, text):
    with pytest.raises(gc.InputError, match=text):
        call()


# --- the records -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("framework", FRAMEWORKS.values(), ids=FRAMEWORKS)
def test_a_record_names_a_reader_and_conventions_that_are_there(framework):
    assert framework.convention in CONVENTIONS and framework.conventions.items() <= CONVENTIONS.items()
    if framework.id in READABLE:
        tried = framework.conventions_to_try
        assert framework.convention in tried and {*tried} <= {*ALL_CONVENTIONS} and len(tried) == len({*tried})
    assert callable(FORMS[framework.read_as or framework.id])
    for name in (framework.id, framework.title, framework.id.upper(), *framework.aliases):
        if name != "your own code":
            assert framework_named(name) == (framework.read_as or framework.id)


def test_each_convention_stands_in_one_record_and_a_table_of_no_framework_is_tried_with_all():
    keys = [key for framework in FRAMEWORKS.values() for key in framework.conventions]
    assert sorted(["paper", *keys]) == sorted(CONVENTIONS)
    others = [key for framework in FRAMEWORKS.values() for key in framework.found_in_logs]
    everything = sorted(ALL_CONVENTIONS)
    assert sorted(FRAMEWORKS["generic"].conventions_to_try) == everything == sorted([*CONVENTIONS, *others])
