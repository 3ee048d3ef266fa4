"""Columns that are rewards and columns that are not: totals, copies, metrics, settings, and those about which the
reader is asked.
"""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logs import assert_reads, found, in_form, refused
from polars.testing import assert_frame_equal

import gdpo_audit as ga
import gdpo_core as gc

STEPS, GROUPS, SIZE = 12, 4, 8
ROWS = STEPS * GROUPS * SIZE
WEIGHTS = {"correct": 1.0, "fmt": 0.5, "brief": 2.0}
DRAW = np.random.default_rng(0)
WHERE = {"step": np.arange(ROWS) // (GROUPS * SIZE) + 1, "group": np.arange(ROWS) // SIZE}
CORRECT, FMT = (DRAW.random(ROWS) < 0.5) * 1.0, (DRAW.random(ROWS) < 0.8) * 1.0
BRIEF = DRAW.random(ROWS).round(3)
REWARDS = {"correct": CORRECT, "fmt": FMT, "brief": BRIEF}
PAIR = {"correct": CORRECT, "fmt": FMT}
TOTAL = CORRECT + 0.5 * FMT + 2 * BRIEF
COUNT = np.arange(ROWS)
LENGTH = np.random.default_rng(1).integers(1, 50, ROWS)
TASK = COUNT // SIZE % 2 == 0
OF_A_TASK = {"math": np.where(TASK, CORRECT, np.nan), "code": np.where(TASK, np.nan, BRIEF)}


def table(**columns):
    return pl.DataFrame(WHERE | {name: np.broadcast_to(column, ROWS) for name, column in columns.items()})


def audited(options=None, **columns):
    return ga.audit(ga.read_run(table(**columns), **(options or {})))


# --- what the columns are, as their names and numbers say -------------------------------------------------------------

OF_TOTAL = dict(rewards=tuple(REWARDS), weights=WEIGHTS, weights_by="score", left_out=())
CHOSEN = [
    *[(REWARDS | {name: TOTAL.astype(kind)}, {}, OF_TOTAL)
      for name in ("reward", "total_reward", "score", "Total", "final_score", "mark")
      for kind in ("float64", "float32")],
    # A metric that the total counts is a reward, also where it would be read as the length.
    *[({"correct": CORRECT, name: LENGTH, "reward": CORRECT - 0.01 * LENGTH}, {},
        {"weights": {"correct": 1.0, name: -0.01}})
      for name in ("response_len", "response_length", "length", "completion_length")],
    # Rewards of different tasks add up to their total without those that are missing.
    (OF_A_TASK | {"reward": np.where(TASK, CORRECT, 2 * BRIEF)}, {},
        {"rewards": ("math", "code"), "weights": {"math": 1.0, "code": 2.0}}),
    # The rewards that the caller names stay, and the total beside them tells their weights.
    (REWARDS | {"reward": TOTAL}, {"rewards": [*REWARDS]}, {"rewards": tuple(REWARDS), "weights": WEIGHTS}),
    # A column is not taken for the total where the others are constant, or where another reward merely has such a name.
    (dict(correct=1.0, format=0.0, reward=BRIEF), {}, {"rewards": ("correct", "format", "reward")}),
    (dict(correct=CORRECT, fmt=FMT, reward=BRIEF), {}, {"rewards": ("correct", "fmt", "reward")}),
    # Nor is it taken where correct = mark + 0.3 pen holds as well as mark = correct − 0.3 pen, or where it is a
    # subtotal.
    (dict(correct=CORRECT, pen=BRIEF, mark=CORRECT - 0.3 * BRIEF), {}, {"rewards": ("correct", "pen", "mark")}),
    (dict(a=CORRECT, b=FMT, sub=CORRECT + FMT, c=BRIEF), {}, {"rewards": ("a", "b", "sub", "c")}),
    # Settings are no rewards while they have one value.
    (REWARDS | {"beta": 0.04}, {}, {"rewards": tuple(REWARDS)}),
    (dict(alpha=CORRECT, beta=BRIEF), {}, {"rewards": ("alpha", "beta")}),
    # A judgement that is yes or no, in its name and in its numbers, is a reward.
    *[({name: CORRECT.astype(kind), "style": BRIEF, "is_truncated": FMT}, {}, {"rewards": (name, "style")})
      for name in ("is_correct", "is_valid", "isParsable", "eval/is_valid_json") for kind in (float, bool)],
    # Rewards stay whatever their names.
    *[({"right": CORRECT, name: BRIEF}, {}, {"rewards": ("right", name)})
      for name in (*("has_digit", "vowels", "style", "accuracy", "format", "kl_reward", "length_penalty", "reward_len"),
                   *("clean_score", "xmlcount_reward_func", "brevity", "answer_correct", "a", "format_reward"))],
]  # fmt: skip


@pytest.mark.parametrize(("columns", "options", "expected"), CHOSEN)
def test_rewards_are_told_from_totals_and_settings(columns, options, expected):
    assert_reads(ga.read_run(table(**columns), **options), expected)


ASKED = [
    (REWARDS | {"num_sources": COUNT % 5}, r"got 'num_sources', which may be a reward or a metric: name"),
    (REWARDS | {"is_correct": np.roll(BRIEF, 1)}, r"got 'is_correct', which .* --reward brief --reward is_correct$"),
    ({"right": FMT, "words": LENGTH * 3}, r"got 'words', which .*out of --reward right --reward words$"),
    # Two columns order every group alike where one is a copy of the other, or the other rescaled or squashed.
    (dict(tries=CORRECT, passes=2 * CORRECT), "got 'tries' and 'passes', .*squashed or rescaled"),
    (dict(raw=200 * BRIEF, shaped=np.tanh(3 * BRIEF)), "got 'raw' and 'shaped', .*--reward raw --reward shaped$"),
    ({"Grade A": FMT, "num $x": BRIEF, "-n": BRIEF[::-1]}, r"--reward 'Grade A' --reward 'num \$x' --reward=-n$"),
    ({"level": FMT, "loss": BRIEF}, r"got 'level' and 'loss', each of which may be .*out of --reward level --reward l"),
    ({"response_len": COUNT, "kl": BRIEF}, r"metrics: response_len and kl; .* of --reward response_len --reward kl"),
    (PAIR | {"reward": np.minimum(CORRECT + FMT, 1.2)},
        "'reward', which may be the total of .*--reward correct --reward fmt$"),
]  # fmt: skip


def test_rewards_whose_squares_are_infinite_are_asked_about_as_small_ones_are():
    columns = {"a": CORRECT * 1e160, "b": FMT * 1e160, "c": BRIEF * 1e160}
    refused(table(**columns), "got 'c', which may be a reward or a metric")


@pytest.mark.parametrize(("columns", "message"), ASKED)
def test_what_may_be_either_is_asked_about(columns, message):
    refused(table(**columns), message)
    assert ga.read_run(table(**columns), rewards=[*columns]).rewards == tuple(columns)


NO_REWARDS = {
    "place": (COUNT % SIZE, "it numbers the responses of each group"),
    "shuffled": (np.concatenate([DRAW.permutation(SIZE) for _ in range(STEPS * GROUPS)]), "numbers the responses"),
    "clock": (1.7e9 + 3.0 * COUNT + DRAW.normal(size=ROWS), "it rises along the log"),
    "schritt": (WHERE["step"] + 3, "it rises along the log"),
    "hardness": (DRAW.random(STEPS * GROUPS).round(3).repeat(SIZE), "it is the same for all responses of a group"),
    "gen_time_s": (DRAW.random(ROWS), "named like a measurement"),
}


@pytest.mark.parametrize("name", NO_REWARDS)
def test_a_column_that_does_what_no_reward_does_is_left_out_with_the_reason(name):
    values, reason = NO_REWARDS[name]
    for column in {name, "x" if name != "gen_time_s" else name}:  # The column is left out whatever its name.
        report = audited(**PAIR, **{column: values})
        assert report.source["rewards"] == ["correct", "fmt"]
        [note] = [note for note in report.notes if "not read as rewards" in note]
        assert reason in note and note.endswith(f"as in --reward {column}.")
    assert ga.read_run(table(**PAIR, **{name: values}), rewards=["correct", name]).rewards == ("correct", name)


@pytest.mark.parametrize("columns", [{"_step": COUNT, "train/reward": BRIEF}, {"Step": COUNT, "run - reward": BRIEF},
    {"train/global_step": COUNT, "train/rewards/fmt/mean": BRIEF, "train/loss": FMT}])  # fmt: skip
@pytest.mark.parametrize("options", [{}, {"group_size": 8}])
def test_a_row_per_step_is_no_response(columns, options):
    refused(pl.DataFrame(columns), "a row per response, got one per step .*means per step, not responses", **options)


METRICS = (
    *("response_len", "answer_length", "num_turns", "temperature", "gen_time", "kl", "ref_kl", "logprobs_sum"),
    *("is_completed", "is_truncated", "num_tokens_total_tokens", "entropy", "responseLength", "mean_entropy"),
    *("scoring_ms", "reward_std", "log_prob_mean", "learning_rate", "top_p"),
)


@pytest.mark.parametrize("name", METRICS)
def test_metrics_are_no_rewards_unless_named(name):
    values = np.random.default_rng(3).random(ROWS)
    trl = {"prompt": [f"q{g}" for g in WHERE["group"]], "completion": "x"}
    for log in (table(**REWARDS, **{name: values}), table(**trl, **REWARDS, **{name: values}).drop("group")):
        run = ga.read_run(log)
        assert run.rewards == ("correct", "fmt", "brief") and name in run.left_out
        assert ga.read_run(log, rewards=["correct", name]).rewards == ("correct", name)


def test_a_length_that_the_logged_advantages_count_is_a_reward():
    paid = (CORRECT - 0.01 * LENGTH).reshape(-1, SIZE)
    report = audited(correct=CORRECT, response_length=LENGTH, advantage=(paid - paid.mean(1, keepdims=True)).ravel())
    assert report.source["rewards"] == ["correct", "response_length"] and report.run["method"] == "grpo_no_std"
    assert report.run["weights_used"] == pytest.approx({"correct": 1.0, "response_length": -0.01})
    assert "response_length was taken for a reward, because the logged advantages depend on it." in report.notes


# --- totals ----------------------------------------------------------------------------------------------------------


@given(
    weights=st.lists(st.sampled_from([0.1, 0.5, 1, 2, 3, -1, -0.2]), min_size=2, max_size=4),
    seed=st.integers(0, 10**6),
    place=st.integers(0, 4),
)
def test_a_total_is_found_whatever_its_weights_and_place(weights, seed, place):
    names = [f"part_{k}" for k in range(len(weights))]
    values = np.random.default_rng(seed).random((ROWS, len(weights))).round(2)
    columns = [*zip(names, values.T, strict=True)]
    columns.insert(min(place, len(columns)), ("reward", values @ weights))
    run = ga.read_run(table(**dict(columns)))
    assert run.rewards == tuple(names)
    assert [run.weights[name] for name in names] == pytest.approx(weights)


def test_of_a_total_that_was_clipped_the_nearest_weights_are_used_and_what_is_missing_is_said():
    total = np.minimum(CORRECT + FMT, 1.2)
    report = audited(**PAIR, total_reward=total)
    assert report.source["rewards"] == ["correct", "fmt"]
    x = np.stack([CORRECT, FMT, np.ones(ROWS)], 1)
    fitted, left = np.linalg.lstsq(x, total, rcond=None)[:2]
    missing = left[0] / ROWS / total.var()
    assert report.run["weights_used"] == pytest.approx({"correct": fitted[0], "fmt": fitted[1]}, rel=5e-3)
    assert report.run["weights_from"] == "fitted"
    message = found(report)["score-not-a-sum"].message
    assert f"accounts for {100 * missing:.1f} % of the variance" in message and "verl" not in message


LATE = -np.where(DRAW.random(ROWS) < 0.3, BRIEF, 0)  # a penalty that is not logged
LOGGED = dict(acc=CORRECT, score=CORRECT + LATE)


@pytest.mark.parametrize(
    "columns, weights, severity, says",
    [
        (LOGGED, [0, 1], "error", "score seems to be the total of acc and something"),
        (
            {"accuracy": CORRECT, "total_reward": CORRECT + LATE},
            [0, 1],
            "error",
            "total_reward seems to be the total of accuracy",
        ),
        (LOGGED, None, "warning", "score may be the total of acc and something"),
        (LOGGED, [1, 1], None, ""),  # the advantages count both
        (dict(acc=CORRECT, score=BRIEF), [0, 1], None, ""),  # another reward, and a metric
    ],
)
def test_a_total_of_one_reward_and_more_is_said_to_hold_it(columns, weights, severity, says):
    logged = {}
    if weights:
        total = sum(w * column for w, column in zip(weights, columns.values(), strict=True)).reshape(-1, SIZE)
        z = (total - total.mean(1, keepdims=True)) / (total.std(1, ddof=1, keepdims=True) + 1e-4)
        logged = {"advantage": z.ravel().astype(np.float32).astype(float)}
    report = audited(**columns, **logged)
    finding = found(report).get("score-not-a-sum")
    assert (finding and finding.severity) == severity
    if finding:
        assert finding.title.startswith(says) and "Nothing has to be changed" not in report.verdict
        assert not report.run["not_counted"]


# --- copies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("last", "relation"),
    [
        (2 * CORRECT, "last = 2 × correct"),
        (1 - CORRECT, "last = −correct"),
        (CORRECT - 0.5 * BRIEF, "last = correct − 0.5 × brief"),
        (TOTAL, "last = correct + 0.5 × fmt + 2 × brief"),
    ],
)
def test_what_others_determine_is_named_with_its_relation(last, relation):
    report = audited({"rewards": [*REWARDS, "last"]}, **REWARDS, last=last)
    assert report.source["rewards"] == [*REWARDS, "last"]
    assert found(report)["rewards-collinear"].evidence["relation"] == relation


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scale", [1e-99, 1e-77, 1e-30, 1e77, 1e99])
def test_relations_and_correlations_of_rewards_do_not_depend_on_their_unit(scale):
    """The products of four rewards leave the range of float64 from 1e77 on, although the rewards themselves are far
    from its ends.
    """
    last = {"last": CORRECT - 0.5 * BRIEF}
    plain, scaled = (
        audited({"rewards": [*REWARDS, "last"]}, **{name: x * unit for name, x in (REWARDS | last).items()})
        for unit in (1.0, scale)
    )
    relation = found(scaled)["rewards-collinear"].evidence["relation"]
    assert relation == found(plain)["rewards-collinear"].evidence["relation"] == "last = correct − 0.5 × brief"
    expected, came = (report.steps.select(pl.col("^correlation:.*$")) for report in (plain, scaled))
    assert len(expected.columns) == 6
    assert_frame_equal(came, expected)


SIZES = r"^rewards: expected numbers from 1e-100 to 1e\+100 in size"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scale", [1e150, 1e160, 1e300, 1.7e308 / TOTAL.max(), 1e-150, 1e-200, 1e-300])
def test_rewards_with_squares_beyond_the_range_of_numbers_are_refused(scale):
    """A log of them is read, also one with their total beside them; the audit cannot compute with them."""
    scaled = {name: x * scale for name, x in REWARDS.items()}
    for more in ({}, {"reward": TOTAL * scale}):
        for options in ({}, {"rewards": [*REWARDS]}):
            with pytest.raises(gc.InputError, match=SIZES if options else f"{SIZES}|expected columns that are clearly"):
                audited(options, **scaled, **more)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_log_that_lost_a_column_is_never_all_well(kind):
    log = table(fmt=FMT).with_columns(style=None, accuracy=pl.lit("high"), tool=pl.lit("search"), advantages=None)
    run = ga.read_run({f"a.{kind}": in_form(kind, log)})
    assert run.rewards == ("fmt",) and run.left_out == ("style", "accuracy", "tool") and run.has_advantage
    report = ga.audit(run)
    assert report.verdict == (
        "Every logged advantage is missing, so the log does not show which method ran. "
        "No finding asks for a change, but style and accuracy were not read, because they hold no number."
    )
    assert "style, accuracy and tool were not read" in found(report)["no-components"].message
    assert ga.read_run({f"a.{kind}": in_form(kind, log)}, rewards="fmt").lost == ()
