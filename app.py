# /// script
# requires-python = ">=3.11"
# dependencies = ["altair", "anywidget", "marimo", "numpy", "polars", "torch"]
#
# [tool.marimo.display]
# theme = "system"
# ///

import marimo

__generated_with = "0.25.2"
app = marimo.App(
    width="full",
    app_title="Reward Policy Intuition",
    css_file="views/page.css",
)

with app.setup:
    import json

    import marimo as mo

    import gdpo_core as gc
    from gdpo_core import bfcl
    from views import books, shares, steps, training
    from views.board import Board
    from views.sliders import slider_table
    from views.text import BAND

    DATA = mo.notebook_dir() / "data"
    BOOKS = json.loads((DATA / "books.json").read_text(encoding="utf-8"))
    COINS = ("first coin", "second coin", "third coin")


@app.cell(hide_code=True)
def opening():
    mo.md("""
    # Different answers, the same advantage

    A language model answered one request many times, each time by calling a function. Three graders gave every answer a
    mark for correctness, style and conciseness. **GRPO** adds the marks and normalises the sum, so a wrong call in good
    style and a right one in bad style get one *advantage*, the number that says how strongly to reinforce an answer.
    **GDPO** normalises each mark first, then adds. Flip a mark and compare.
    """)
    return


@app.cell(hide_code=True)
def same_advantage():
    try:
        tasks, fault = bfcl.load_tasks(DATA / "tasks"), ""
    except gc.InputError as error:
        tasks, fault = (), str(error)
    mo.stop(not tasks, mo.callout(fault, kind="danger"))
    board = mo.ui.anywidget(Board(tasks))
    board
    return board, tasks


@app.cell(hide_code=True)
def marks(board):
    passed = board.value["passed"]
    return (passed,)


@app.cell(hide_code=True)
def follow_intro(tasks):
    most = max(len(task.answers) for task in tasks)
    follow_answer = mo.ui.dropdown([str(n + 1) for n in range(most)], value="10", label="Answer")
    follow_convention = mo.ui.dropdown(
        {convention.name: key for key, convention in gc.CONVENTIONS.items()},
        value=gc.PAPER.name,
        label="Convention",
    )
    mo.vstack(
        [
            mo.md(f"""
            ## Follow one answer

            The same three marks through both methods. GRPO forgets *which* mark was missing at its first step. GDPO
            first asks how rare each mark is in the group. The convention is what guards the divisions: nothing in the
            paper, {gc.TRL.group_eps:g} in TRL.
            """),
            mo.hstack([follow_answer, follow_convention], justify="start", gap=2, wrap=True),
        ]
    )
    return follow_answer, follow_convention


@app.cell(hide_code=True)
def follow(follow_answer, follow_convention, passed):
    mo.Html(steps.follow(passed, int(follow_answer.value) - 1, gc.CONVENTIONS[follow_convention.value]))
    return


@app.cell(hide_code=True)
def scale_intro():
    asked = ", ".join(f"*{question}* ({low} to {high})" for question, (low, high) in BOOKS["scales"].items())
    mo.md(f"""
    ## Scale and weight

    {len(BOOKS["books"])} books, rated on {asked}. A plain sum has two problems: different books can add up to the same
    number, and a question whose ratings spread widely counts for more. Dividing each question by its own spread removes
    the second and usually breaks the ties. It does not ask **which question matters**: with the ratings it starts with,
    *enjoyment* and *short to read* agree, and together they outvote *what you learn*.
    """)
    return


@app.cell(hide_code=True)
def book_ratings():
    ratings = mo.ui.array(
        [
            mo.ui.array(
                [
                    mo.ui.slider(low, high, value=rating, label=question, show_value=True)
                    for rating, (question, (low, high)) in zip(book["ratings"], BOOKS["scales"].items(), strict=True)
                ]
            )
            for book in BOOKS["books"]
        ]
    )
    mo.Html(slider_table([book["title"] for book in BOOKS["books"]], ratings))
    return (ratings,)


@app.cell(hide_code=True)
def book_ranking(ratings):
    mo.Html(books.ranking([book["title"] for book in BOOKS["books"]], ratings.value))
    return


@app.cell(hide_code=True)
def share_controls():
    scale = mo.ui.array(
        [
            mo.ui.slider(steps=[0.1, 0.3, 1, 3, 10, 100], value=value, label="scale", show_value=True)
            for value in (1, 1, 10)
        ]
    )
    weight = mo.ui.array(
        [mo.ui.slider(0, 5, step=0.05, value=1, label="weight", show_value=True) for _ in bfcl.REWARDS]
    )
    mo.vstack(
        [
            mo.md("""
            ### The same with rewards

            Suppose a passed mark pays not 1 but its *scale*, and you give it a *weight*. Which part of the update does
            each mark of the answers above take? A share is what the reward adds to the variance of the advantages.
            Below 0, the other rewards push against it.
            """),
            mo.Html(slider_table(bfcl.REWARDS, zip(scale, weight, strict=True))),
        ]
    )
    return scale, weight


@app.cell(hide_code=True)
def update_shares(passed, scale, weight):
    mo.Html(shares.update(passed, scale.value, weight.value, bfcl.REWARDS))
    return


@app.cell(hide_code=True)
def train_intro():
    mo.md(f"""
    ## Train it

    Three independent coins are the smallest policy with three rewards: reward *k* is 1 with probability *p_k*, and the
    score-function (REINFORCE) gradient moves the coins for {training.EPOCHS} epochs of {training.PROMPTS} prompts with
    {training.ROLLOUTS} answers each. Every method's advantages are brought to a standard deviation of 1 over the batch,
    so that none wins by a larger learning rate; that adds a step to GRPO. Lines are medians over {training.SEEDS}
    seeds, bands hold {BAND[1] - BAND[0]:.0%} of them.
    """)
    return


@app.function(hide_code=True)
def training_view(runs):
    """What training runs show: the verdict, a chart a reward once it is in sight, and the same as a table."""
    return mo.vstack(
        [
            mo.Html(training.says(runs, COINS)),
            mo.Html(training.legend()),
            mo.lazy(lambda: mo.Html(training.chart_row(map(mo.as_html, training.charts(runs, COINS))))),
            mo.Html(training.steps_table(runs, COINS)),
        ]
    )


@app.cell(hide_code=True)
def equal_training():
    mo.vstack(
        [
            mo.md("### Equal start, equal scale"),
            training_view(training.runs((0.5, 0.5, 0.5), (1.0, 1.0, 1.0))),
        ]
    )
    return


@app.cell(hide_code=True)
def training_controls():
    p0 = mo.ui.dropdown(
        {
            "0.5, 0.5, 0.5": (0.5, 0.5, 0.5),
            "0.5, 0.2, 0.02": (0.5, 0.2, 0.02),
            "0.1, 0.1, 0.1": (0.1, 0.1, 0.1),
        },
        value="0.5, 0.5, 0.5",
        label="Start probabilities",
    )
    coin_scale = mo.ui.dropdown(
        {"1, 3, 10": (1.0, 3.0, 10.0), "1, 1, 1": (1.0, 1.0, 1.0), "1, 10, 100": (1.0, 10.0, 100.0)},
        value="1, 3, 10",
        label="Reward scales",
    )
    mo.vstack(
        [
            mo.md("### Your own start and scales"),
            mo.hstack([p0, coin_scale], justify="start", gap=2, wrap=True),
        ]
    )
    return coin_scale, p0


@app.cell(hide_code=True)
def unequal_training(coin_scale, p0):
    training_view(training.runs(p0.value, coin_scale.value))
    return


@app.cell(hide_code=True)
def closing():
    mo.md("""
    With equal scales the methods learn alike, from equal and from unequal starts. They differ when the rewards differ
    in scale. If GDPO's last step is left out, even equal coins come apart, only because GDPO then runs at a larger
    learning rate. These coins are independent; real rewards are correlated.

    ---
    GDPO: [arXiv 2601.05242](https://arxiv.org/abs/2601.05242). GRPO: [arXiv 2402.03300](https://arxiv.org/abs/2402.03300).
    Every number here is computed when you change something, by the library `gdpo_core`.
    """)
    return


if __name__ == "__main__":
    app.run()
