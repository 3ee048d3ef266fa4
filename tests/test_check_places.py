"""The places in which `gdpo check` finds commands and values, and what it says where it did not read."""

import json
import shlex

import pytest

import gdpo_core as gc

KEYS = """'["acc","format"]'"""
VERL = "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=gdpo trainer.use_v1=False data.train_batch_size=32 "
TOLD = VERL + f"+algorithm.gdpo_reward_keys={KEYS} actor_rollout_ref.rollout.n=6"
FORK = VERL.replace("gdpo", "grpo")


def told(text, name, **files):
    """Return the method, the weights, the number of answers to a prompt and that of groups in a batch."""
    check = gc.check_config({name: text, **files})
    return check.method, check.weights, check.group_size, check.groups


def words(command):
    """Return a command's words as a list of Python or YAML."""
    return json.dumps(shlex.split(command))


SKYPILOT = """envs:
  N: 6
run: |
  if [ "$RANK" == "0" ]; then
    python3 -m verl.trainer.main_ppo algorithm.adv_estimator=gdpo \\
      +algorithm.gdpo_reward_keys='["acc","format"]' data.train_batch_size=32 actor_rollout_ref.rollout.n=${N}
  fi
"""
MAKE = f"""N ?= 6
KEYS = {KEYS}
ADV := gdpo
train: data
\t{VERL.replace("=gdpo", "=$(ADV)")} \\
\t  +algorithm.gdpo_reward_keys=$(KEYS) actor_rollout_ref.rollout.n=$(N) trainer.local_dir=$$HOME/x
"""
GROWN = f"import subprocess\nwords = {words(TOLD.rpartition(' ')[0])}\nN = {{'n': 6}}\n"
GROWN += "words.append(f\"actor_rollout_ref.rollout.n={N['n']}\")\nsubprocess.run(words)\n"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (SKYPILOT, "task.yaml"),
        (f"services:\n  a:\n    command: {words(TOLD)}\n", "compose.yaml"),
        (MAKE, "Makefile"),
        (MAKE, "rules.mk"),
        (f"import subprocess\nsubprocess.run({words(TOLD)}, check=True)\n", "a.py"),
        (GROWN, "a.py"),
        (f'srun bash -lc "{TOLD.replace(chr(34), chr(92) + chr(34))}"', "a.sh"),
        (f'run() {{ echo "$@"; "$@"; }}\nrun {TOLD}\n', "a.sh"),
        (f'f() {{\n  shift\n  {VERL} "$@"\n}}\nf a {TOLD.removeprefix(VERL)}\n', "a.sh"),
    ],
)
def test_a_command_is_found_where_it_stands(text, name):
    assert told(text, name) == ("gdpo", (1.0, 1.0), 6, 32)


def test_what_a_list_or_a_makefile_may_hold_besides_is_open():
    extra = GROWN.replace("subprocess.run(words)", "words.insert(1, x)\nsubprocess.run(words)")
    assert told(extra, "a.py")[2] is None
    twice = GROWN.replace("words.append", "words = words + ['actor_rollout_ref.rollout.n=8']\nprint")
    assert told(twice, "a.py")[2] is None
    maybe = GROWN.replace("words.append", "if x: words.append")
    assert told(maybe, "a.py")[2] is None
    assert told(MAKE.replace("ADV :=", "N = 4\nADV :="), "Makefile")[2] is None
    assert told(MAKE.replace("N ?= 6", "ifdef X\nN = 6\nendif"), "Makefile")[2] is None
    assert told(MAKE.replace("N ?= 6", "N := $(M)\nM = 6"), "Makefile")[2] is None  # M is empty where := is read.
    assert told(MAKE.replace("N ?= 6", "N = $(M)\nM = 6"), "Makefile")[2] == 6
    assert told(MAKE.replace("N ?= 6", "N = 6\ntrain: N = 4"), "Makefile")[2] is None
    included = gc.check_config({"Makefile": "include own.mk\n" + MAKE})
    assert included.facts["not read"] == "Not looked into: Makefile:1 includes own.mk."
    assert told(SKYPILOT.replace("  N: 6", "  M: 6"), "task.yaml")[2] is None


def test_values_of_a_file_that_a_program_loads_count_as_the_program_uses_them():
    program = (
        "import yaml\nfrom trl import GRPOConfig\nwith open('c/a.yaml') as f:\n    cfg = yaml.safe_load(f)\n"
        "GRPOConfig(num_generations=cfg['n'], reward_weights=[cfg.get('a', 1.0), cfg['w']['b']], beta=0.1)\n"
    )
    values = {"a.yaml": "n: 4\nw: {b: 0.5}\nscale_rewards: none\n"}
    assert told(program, "a.py", **values) == ("grpo", (1.0, 0.5), 4, None)  # scale_rewards is not asked for.
    assert told(program, "a.py")[1:3] == (None, None)
    for change in ("cfg['n'] = 8", "cfg.update(n=8)", "change(cfg)", "d = cfg['w']\nd['b'] = 1"):
        changed = program.replace("GRPOConfig(num", f"{change}\nGRPOConfig(num")
        assert told(changed, "a.py", **values)[1] is None


def test_a_key_that_verl_does_not_have_leaves_open_what_it_may_decide():
    check = gc.check_config({"a.sh": FORK + "actor_rollout_ref.rollout.n_agent=5 algorithm.no_think_rl=false"})
    assert (check.group_size, check.groups, check.method) == (None, 32, "grpo")
    assert "no such keys: actor_rollout_ref.rollout.n_agent and algorithm.no_think_rl" in check.facts["note"]
    check = gc.check_config({"a.sh": FORK + "+custom_reward_function.weights=[1,2] algorithm.online_filtering=True"})
    assert check.facts["rewards"] == "Not told: custom_reward_function.weights may decide it."
    assert check.facts["filter"] == "Not told: algorithm.online_filtering may decide it."
    had = (
        FORK
        + "custom_reward_function.path=x +custom_reward_function.reward_kwargs.w=1 reward_model.reward_manager=dapo"
    )
    assert "note" not in gc.check_config({"a.sh": had}).facts


SWIFT = "swift rlhf --rlhf_type grpo --reward_funcs a b --num_generations 4 --reward_weights 1 2 {}"
TRL = "trl grpo --reward_funcs a b --num_generations 4 --reward_weights 1 2 {}"
IN_PYTHON = """from trl import GRPOConfig, GRPOTrainer
config = GRPOConfig(num_generations=4, reward_weights=[1, 2], {})
GRPOTrainer(reward_funcs=[a, b], args=config)
"""
AXOLOTL = "base_model: m\nrl: gdpo\ntrl: {{num_generations: 4, reward_funcs: [r.a, r.b], reward_weights: [1, 2], {}}}\n"
NEMO = (
    "uv run examples/run_grpo.py grpo.num_generations_per_prompt=4 "
    "grpo.adv_estimator.name=gdpo grpo.adv_estimator.reward_weights=[1,2] {}"
)
# For each trainer: a configuration, its file, and how a key with a value is written in it.
PLACES = {
    "ms_swift": (SWIFT, "a.sh", "--{} {}"),
    "trl": (TRL, "a.sh", "--{} {}"),
    "trl in Python": (IN_PYTHON, "a.py", "{}={}"),
    "axolotl": (AXOLOTL, "a.yaml", "{}: {}"),
    "nemo_rl": (NEMO, "a.sh", "+grpo.{}={}"),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_key_that_another_trainer_does_not_have_leaves_open_what_it_may_decide(place):
    text, name, form = PLACES[place]
    plain = gc.check_config({name: text.format(form.format("seed", 1))})
    assert (plain.weights, plain.group_size) == ((1.0, 2.0), 4) and plain.method and "note" not in plain.facts
    for key, open_field in (("n_agent", "group_size"), ("format_weight", "weights"), ("advantage_mode", "method")):
        check = gc.check_config({name: text.format(form.format(key, 5))})
        fields = ("group_size", "weights", "method")
        assert [field for field in fields if getattr(check, field) is None] == [open_field], key
        assert (
            f"no such keys: {'grpo.' * (place == 'nemo_rl')}{'trl.' * (place == 'axolotl')}{key}."
            in check.facts["note"]
        )
    for key in ("online_filtering", "use_kl_in_advantage"):  # They decide neither, but the note names them.
        assert key in gc.check_config({name: text.format(form.format(key, 1))}).facts["note"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("config.num_generations = 8", 8),
        ("print(config)", 4),
        ("config.num_generations *= 2", None),
        ("if big:\n    config.num_generations = 8", None),
        ("config.num_generations, config.beta = 8, 0.1", None),
        ("config = replace(config, num_generations=8)", None),
        ("other = deepcopy(config)\nother.num_generations = 8", None),
        ("def grow(c):\n    c.num_generations = 8\ngrow(config)", None),
        ("def grow(c):\n    c.num_generations = 8\n", 4),  # Nothing calls it with the configuration.
        ("setattr(config, 'num_generations', 8)", None),
        ("setattr(config, 'beta', 8)", 4),
        ("for k, v in more.items():\n    setattr(config, k, v)", None),
        ("vars(config).update(more)", None),
        ("config.__dict__['num_generations'] = 8", None),
    ],
)
def test_what_a_program_may_change_in_a_configuration_after_making_it_is_open(change, told):
    program = IN_PYTHON.format("beta=0.1").replace("\nGRPOTrainer(", f"\n{change}\nGRPOTrainer(")
    assert gc.check_config({"a.py": program}).group_size == told


def test_a_key_that_hydra_deletes_is_open():
    assert told(f"{TOLD} ~actor_rollout_ref.rollout.n", "a.sh")[2] is None
    assert told(f"{TOLD} ~actor_rollout_ref.rollout.n=6", "a.sh")[2] is None
    assert told(f"~x.y=1 {TOLD} ~data.shuffle", "a.sh")[2] == 6


def test_a_key_that_a_trainer_has_opens_nothing_though_it_sounds_so():
    for place, key in (("ms_swift", "weight_decay"), ("trl", "num_generations_eval"), ("axolotl", "weight_decay")):
        text, name, form = PLACES[place]
        check = gc.check_config({name: text.format(form.format(key, 1))})
        assert (check.weights, check.group_size) == ((1.0, 2.0), 4) and "note" not in check.facts
    text, name, form = PLACES["trl"]
    assert gc.check_config({name: text.format(form.format("model_weights_path", "x"))}).weights == (1.0, 2.0)


def test_a_trainer_that_only_the_caller_names_gets_no_defaults():
    fork = {"a.yaml": "algorithm: {adv_estimator: grpo}\nworker: {rollout: {n: 5}, reward: {format_weight: 0.3}}\n"}
    check = gc.check_config(fork, "verl")
    assert (check.method, check.group_size, check.groups) == (None, None, None)
    assert check.facts["filter"].startswith("It cannot be told") and check.facts["rewards"].startswith("Not told")
    assert gc.check_config({"a.yaml": "x: 1\n"}, "verl").method is None
    with pytest.raises(gc.InputError, match="got no key at all"):
        gc.check_config({"a.sh": "ls\n"}, "verl")


def test_what_hides_a_command_is_named():
    check = gc.check_config({"a.sh": f'source settings.sh\n. .venv/bin/activate\nbash -c "$X"\n$CMD\n{TOLD}\n'})
    hidden = "Not looked into: a.sh:1 sources settings.sh, a.sh:3 runs $X and a.sh:4 runs $CMD."
    assert check.facts["not read"] == hidden
    assert check.looked.endswith("; what is named above as not looked into may hold more.")
    with pytest.raises(gc.InputError, match=r"not read: a.sh:1 runs \$CMD"):
        gc.check_config({"a.sh": "$CMD\n"})
    assert (
        gc.check_config({"a.sh": TOLD}).looked == "None of the known traps was found: 14 of verl could be looked for."
    )


def test_hostile_makefiles_and_programs_are_read_quickly():
    doubled = "".join(f"A{n} = $(A{n + 1})$(A{n + 1})\n" for n in range(60)) + "A60 = x\nB = $(B)\n"
    assert told(doubled + MAKE, "Makefile")[2] == 6
    lists = "import subprocess\n" + "x = ['trl grpo', '--n', '4']\nx.append(f'{x}')\n" * 1000
    assert told(lists, "a.py")[2] is None


@pytest.mark.parametrize(
    "script",
    [
        'alias train="swift rlhf --rlhf_type grpo"\ntrain --num_generations 4 --scale_rewards gdpo\n',
        'echo "swift rlhf --rlhf_type grpo" > run.sh\necho " --scale_rewards gdpo" >> run.sh\nbash run.sh\n',
        'printf "swift rlhf --rlhf_type grpo" > run.sh\n',
        'echo "--scale_rewards gdpo" | xargs swift rlhf --rlhf_type grpo\n',
    ],
)
def test_a_command_that_gets_more_words_than_stand_there_tells_no_method(script):
    assert gc.check_config({"a.sh": script}).method is None


@pytest.mark.parametrize("place", ["{said}\n{run}", "{run}\n{said}"])
def test_a_command_that_is_only_printed_says_nothing_beside_one_that_runs(place):
    said, run = (
        'echo "swift rlhf --rlhf_type grpo"',
        "swift rlhf --rlhf_type grpo --scale_rewards gdpo --reward_funcs a b",
    )
    check = gc.check_config({"a.sh": place.format(said=said, run=run)})
    assert (check.method, check.facts.get("not read")) == ("gdpo", None)


def test_what_only_a_run_would_tell_is_shown_without_a_mark_of_ours():
    rules = "A = $(B)\nB = $(A)\nrun:\n\tswift rlhf --rlhf_type grpo --reward_weights $(W) $(A)\n"
    shown = json.dumps(gc.check_config({"Makefile": rules}).to_dict())
    assert "reward_weights = \\u2026" in shown and "u0000" not in shown
