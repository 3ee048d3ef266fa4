"""The lines of configuration, read back as what they are: Python, a shell's arguments, YAML."""

import ast
import functools
import importlib
import json
import shlex

import pytest
import torch

import gdpo_core as gc
from gdpo_core import config_lines
from gdpo_core.frameworks import ALL_CONVENTIONS, CONVENTIONS, FRAMEWORKS, READABLE, conventions_to_try, framework_named

REWARDS, WEIGHTS = ["correct", "format", "brief"], [1.0, 0.5, 2.0]


def keywords(line):
    """The keyword arguments of a call."""
    call = ast.parse(line).body[0].value
    return ast.unparse(call.func), {k.arg: ast.literal_eval(k.value) for k in call.keywords}


def code(text):
    return "\n".join(line for line in text.splitlines() if not line.startswith("#"))


def yaml(text):
    return pytest.importorskip("yaml").safe_load(text)


def test_trl_is_switched_by_its_own_arguments():
    name, given = keywords(code(config_lines.switch_to_gdpo("trl", REWARDS, WEIGHTS, 8)))
    assert name == "GRPOConfig"
    assert given == {
        "multi_objective_aggregation": "normalize_then_sum",
        "reward_weights": WEIGHTS,
        "num_generations": 8,
    }


def test_trls_lines_say_the_same_for_axolotl():
    for text in (
        config_lines.switch_to_gdpo("trl", REWARDS, WEIGHTS),
        config_lines.set_weights("trl", REWARDS, WEIGHTS),
    ):
        comment = text.splitlines()[-1]
        assert comment.startswith("# axolotl: ") and comment.endswith(f"trl.reward_weights: {WEIGHTS}")
    assert "rl: gdpo" in config_lines.switch_to_gdpo("trl", REWARDS)


def test_a_second_reward_function_gets_a_name_that_trl_sees():
    def original(prompts, completions):
        return [float(len(text)) for text in completions]

    scope = {"original": functools.partial(original, prompts=[])}
    exec(config_lines.own_name("trl"), scope)
    assert scope["second_reward"].__name__ == "second_reward"
    assert scope["second_reward"](completions=["a", "bc"]) == [1.0, 2.0]


@pytest.mark.parametrize("framework", ["nemo_rl", "generic"])
def test_the_lines_for_a_table_of_ones_own_are_python(framework):
    names = {
        node.id
        for node in ast.walk(ast.parse(config_lines.log_rewards(framework, ["accuracy", "my-format"])))
        if isinstance(node, ast.Name)
    }
    assert {"accuracy_values", "my_format_values"} <= names


def test_verl_is_switched_by_overrides_whose_lists_are_json():
    words = shlex.split(code(config_lines.switch_to_gdpo("verl", REWARDS, WEIGHTS, 8)).replace("\\\n", ""))
    given = dict(word.split("=", 1) for word in words)
    assert given["algorithm.adv_estimator"] == "gdpo"
    assert given["trainer.use_v1"] == "False"
    assert given["reward.reward_manager.name"] == "gdpo"
    assert json.loads(given["+algorithm.gdpo_reward_keys"]) == REWARDS
    assert json.loads(given["+algorithm.gdpo_reward_weights"]) == WEIGHTS
    assert given["actor_rollout_ref.rollout.n"] == "8"


def test_ms_swift_is_switched_by_flags():
    words = shlex.split(code(config_lines.switch_to_gdpo("ms_swift", REWARDS, WEIGHTS, 8)))
    assert words == ["--scale_rewards", "gdpo", "--reward_weights", "1", "0.5", "2", "--num_generations", "8"]


def test_nemo_rl_takes_the_weights_in_alphabetical_order():
    given = yaml(config_lines.switch_to_gdpo("nemo_rl", REWARDS, WEIGHTS, 8))["grpo"]
    assert given["num_generations_per_prompt"] == 8
    estimator = given["adv_estimator"]
    assert estimator["name"] == "gdpo" and estimator["use_leave_one_out_baseline"] is False
    assert dict(zip(sorted(REWARDS), estimator["reward_weights"], strict=True)) == dict(
        zip(REWARDS, WEIGHTS, strict=True)
    )
    weights = yaml(config_lines.set_weights("nemo_rl", REWARDS, WEIGHTS))["grpo"]["adv_estimator"]["reward_weights"]
    assert weights == estimator["reward_weights"]


def test_axolotl_is_switched_by_rl():
    given = yaml(config_lines.switch_to_gdpo("axolotl", REWARDS, WEIGHTS, 8))
    assert given["rl"] == "gdpo"
    assert given["trl"] == {"num_generations": 8, "reward_weights": WEIGHTS, "log_completions": True}


def test_the_generic_line_runs():
    line = config_lines.switch_to_gdpo("generic", REWARDS[:2], [1, 0.5])
    rewards = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    assert eval(code(line), {"gdpo_core": gc, "rewards": rewards}).equal(gc.gdpo(rewards, weights=[1, 0.5]))


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
    for method in (*FRAMEWORKS["generic"].lines.options, "gdpo"):
        for framework in ("generic", "verifiers"):
            made = eval(code(switch(framework, method=method)), {"gdpo_core": gc, "rewards": rewards})
            assert made.equal(gc.advantages(rewards, method, weights=WEIGHTS))
    assert switch("verl", method="grpo_batch_std") is None
    assert switch("trl", method="gdpo") == config_lines.switch_to_gdpo("trl", REWARDS, WEIGHTS)


@pytest.mark.parametrize("framework", config_lines.FRAMEWORKS)
def test_a_change_of_what_weights_mean_is_said_where_they_differ(framework):
    meaning = "GDPO's weights multiply normalised rewards"
    assert meaning in config_lines.switch_to_gdpo(framework, REWARDS, WEIGHTS)
    assert meaning not in config_lines.switch_to_gdpo(framework, REWARDS)


@pytest.mark.parametrize("framework", config_lines.FRAMEWORKS)
def test_no_option_is_left_half_written(framework):
    texts = [
        config_lines.switch_to_gdpo(framework, REWARDS),
        config_lines.set_weights(framework, REWARDS, WEIGHTS),
        config_lines.set_weights(framework, REWARDS, WEIGHTS, "grpo"),
        config_lines.set_group_size(framework, 16),
        config_lines.log_every_step(framework),
        config_lines.log_rewards(framework, REWARDS),
        config_lines.keep_groups(framework),
        config_lines.no_evaluation(framework),
        config_lines.own_name(framework),
        config_lines.gate(framework, REWARDS, "brief", "correct"),
        config_lines.gate(framework, REWARDS, "brief", "correct", otherwise=-3.2),
    ]
    for text in filter(None, texts):
        text = text.replace("g is not None", "")  # a reward function of TRL may give None
        assert not any(mark in text.replace("is not None", "") for mark in ("None", "{}", "nan", "…")), text
        assert text == text.strip()
        assert all(len(line) <= 140 for line in text.splitlines()), text


def test_verl_under_grpo_weighs_inside_its_score():
    lines = config_lines.set_weights("verl", ["my-reward", "format"], [1, 0.5], method="grpo").splitlines()
    score = ast.parse(lines[-1].removeprefix("return ")).body[0].value
    assert [key.value for key in score.keys] == ["score", "my-reward", "format"]
    assert ast.unparse(score.values[0]) == "1 * my_reward + 0.5 * format"


@pytest.mark.parametrize("framework", ["trl", "axolotl"])
def test_a_gated_reward_function_gates(framework):
    scope = {"brief": lambda completions, **_: [0.5, 0.7, 0.9, 1], "correct": lambda completions, **_: [1, 0, 1, None]}
    exec(config_lines.gate(framework, REWARDS, "brief", "correct"), scope)
    assert scope["brief_gated"](["a", "b", "c", "d"], prompts=[]) == [0.5, 0.0, 0.9, 0.0]


@pytest.mark.parametrize("framework", config_lines.FRAMEWORKS)
def test_a_gate_leaves_no_more_than_the_worst_penalty(framework):
    """0 would be the best value of a penalty, and the wrong answers would have it."""
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
    assert gated == pytest.approx([-0.5, -3.204, -3.21])  # three digits, rounded away from 0


def test_the_generic_gate_is_the_librarys():
    scope = {"gdpo_core": gc, "rewards": [[1.0, 0.0, 0.5], [0.0, 0.0, 0.7]]}
    exec(config_lines.gate("generic", REWARDS, "brief", "correct"), scope)
    assert scope["rewards"].tolist() == [[1.0, 0.0, 0.5], [0.0, 0.0, 0.0]]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: config_lines.switch_to_gdpo("ppo", REWARDS), "framework: expected one of trl"),
        (lambda: config_lines.switch_to_gdpo("trl", []), "rewards: expected at least one name, got none"),
        (
            lambda: config_lines.set_weights("trl", REWARDS, [1, 2]),
            "weights: expected 3 numbers, one per reward, got 2",
        ),
        (lambda: config_lines.set_group_size("trl", 0), "rollouts: expected a whole number from 1, got 0"),
        (lambda: config_lines.gate("trl", REWARDS, "brief", "right"), "on: expected one of correct, format, brief"),
        (lambda: config_lines.keep_groups("rllib"), "framework: expected one of trl"),
    ],
)
def test_bad_input_names_the_argument(call, text):
    with pytest.raises(gc.InputError, match=text):
        call()


# --- the records -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("framework", FRAMEWORKS.values(), ids=FRAMEWORKS)
def test_a_record_names_conventions_that_are_there(framework):
    assert framework.convention in CONVENTIONS
    assert framework.conventions.items() <= CONVENTIONS.items()
    if framework.id in READABLE:
        tried = conventions_to_try(framework.id)
        assert framework.convention in tried and {*tried} <= {*ALL_CONVENTIONS}
        assert len(tried) == len({*tried})


def test_each_convention_stands_in_one_record_and_a_table_of_no_framework_is_tried_with_all():
    keys = [key for framework in FRAMEWORKS.values() for key in framework.conventions]
    assert sorted(["paper", *keys]) == sorted(CONVENTIONS)
    others = [key for framework in FRAMEWORKS.values() for key in framework.found_in_logs]
    assert sorted(conventions_to_try("generic")) == sorted([*CONVENTIONS, *others]) == sorted(ALL_CONVENTIONS)


@pytest.mark.parametrize("framework", FRAMEWORKS.values(), ids=FRAMEWORKS)
def test_a_framework_is_read_by_one_reader_under_each_of_its_names(framework):
    reader = importlib.import_module(f"gdpo_core.runs.{framework.read_as or framework.id}")
    assert callable(reader.read) and callable(reader.matches)
    for name in (framework.id, framework.title, framework.id.upper(), *framework.aliases):
        if name != "your own code":
            assert framework_named(name) == (framework.read_as or framework.id)


def test_a_framework_that_is_none_is_refused_with_the_ones_there_are():
    with pytest.raises(
        gc.InputError, match=r"^framework: expected one of trl \(axolotl\), .*, generic, got 'openrlhf'$"
    ):
        framework_named("openrlhf")
    with pytest.raises(gc.InputError, match=r"framework: expected one of trl, verl, .*got 'axolotl'"):
        conventions_to_try("axolotl")
