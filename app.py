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
    css_file="views/theme.css",
    html_head_file="views/head.html",
)

with app.setup:
    import marimo as mo
    import torch

    import gdpo_core as gc
    from gdpo_core.board.state import State
    from views import html
    from views.nav import Nav
    from views.pick import Pick

    DATA = mo.notebook_dir() / "data"


@app.cell
def bar():
    # `page` holds the address; `nav` is its value, and runs what depends on the chapter.
    editing = mo.app_meta().mode != "run"
    page = Nav(mo.query_params().to_dict(), editing)
    nav = mo.ui.anywidget(page)
    nav
    return editing, nav, page


@app.cell
def doors(editing, page):
    # A chapter's cells run once its door is open, and keep what the reader sets when they leave: a gate that followed
    # `nav` would make their controls anew at each return.
    train_open, open_train = mo.state(editing)
    evidence_open, open_evidence = mo.state(editing)
    run_open, open_run = mo.state(editing)
    use_open, open_use = mo.state(editing)
    # The scenario of Train that a link inside the page asks for.
    scenario_asked, ask_scenario = mo.state(page.given("train-scenario"))
    return (
        ask_scenario,
        evidence_open,
        open_evidence,
        open_run,
        open_train,
        open_use,
        run_open,
        scenario_asked,
        train_open,
        use_open,
    )


@app.cell
def chapter(
    ask_scenario,
    evidence_open,
    nav,
    open_evidence,
    open_run,
    open_train,
    open_use,
    run_open,
    train_open,
    use_open,
):
    at = nav.value["at"]
    if at == "train" and not train_open():
        open_train(True)
    if at == "evidence" and not evidence_open():
        open_evidence(True)
    if at == "run" and not run_open():
        open_run(True)
    if at == "use" and not use_open():
        open_use(True)
    if nav.value["asked"].get("train-scenario"):
        ask_scenario(nav.value["asked"]["train-scenario"])
    return (at,)


# --- Lab ---------------------------------------------------------------------------------------------------------------


@app.cell
def lab_shared():
    # What the Lab shows, for the chapters that follow it: set when the reader leaves the Lab, so that a flip runs none.
    shown, share = mo.state(
        State(
            ((1, 1, 1), (1, 1, 0), (1, 0, 1), (0, 1, 1), (1, 0, 0), (0, 0, 1)), (1.0, 1.0, 1.0), (1.0, 1.0, 1.0)
        )
    )
    mo.md("# The Lab")
    return share, shown


# --- Train -------------------------------------------------------------------------------------------------------------


@app.cell
def train_title(train_open):
    mo.stop(not train_open())
    mo.md("# Train")
    return


# --- Evidence ----------------------------------------------------------------------------------------------------------


@app.cell(hide_code=True)
def evidence_data_note():
    mo.md("""
    The graded answers of 71 model configurations to 963 real prompts, and the controls that draw from them.
    """)
    return


@app.cell
def evidence_data(evidence_open):
    mo.stop(not evidence_open())
    # Altair takes as long as all else that a first visitor waits for, so it comes with the chapter.
    from gdpo_core.bfcl import prompts
    from views.evidence import about, counting, opened, paper, sentences, sizes, squares

    try:
        verdicts = prompts.published(DATA / "bfcl_rewards.parquet")  # (prompts, models, graders)
    except gc.InputError as _error:
        mo.stop(True, html.show("The answers to real prompts cannot be shown. ", html.reason(_error)))
    return (
        about,
        counting,
        opened,
        paper,
        prompts,
        sentences,
        sizes,
        squares,
        verdicts,
    )


@app.cell
def evidence_claim(choice, first, marks, outcomes, sentences, verdicts):
    html.show(sentences.claim(verdicts, choice, marks, outcomes, first))
    return


@app.cell
def evidence_controls(page, prompts, verdicts):
    _most, _default = len(verdicts.models), ".".join(prompts.REWARDS)
    _graders = page.given("evidence-graders", default=_default)
    if _graders not in prompts.GRADED:
        page.refuse("evidence-graders", f"a reading of each mark, as in {_default}", _graders)
        _graders = _default
    answers_drawn = mo.ui.slider(
        2,
        _most,
        value=min(page.given("evidence-group"), _most),
        label="Answers per prompt",
        show_value=True,
        debounce=True,
    )
    draw_number = mo.ui.number(0, prompts.DRAWS - 1, value=page.given("evidence-draw"), label="Draw")
    graders = mo.ui.array(
        [
            mo.ui.dropdown({words: key for key, words in one.items()}, one[key], label=f"{mark} is")
            for mark, one, key in zip(prompts.REWARDS, prompts.READINGS, _graders.split("."), strict=True)
        ]
    )
    html.show(html.framed("asking", answers_drawn, draw_number, *graders))
    return answers_drawn, draw_number, graders


@app.cell
def evidence_marks(answers_drawn, correctness_weight, draw_number, graders, prompts, verdicts):
    choice = prompts.Choice(answers_drawn.value, draw_number.value, tuple(graders.value), correctness_weight.value)
    marks = prompts.marks_of(verdicts, choice)  # (prompts, answers, rewards)
    return choice, marks


@app.cell(hide_code=True)
def evidence_outcomes_note():
    mo.md("""
    What each method ties, and what happens to each prompt: a square each.
    """)
    return


@app.cell
def evidence_outcomes(choice, marks, prompts):
    ties = {method: gc.collapse(marks, method, weights=choice.weights) for method in ("grpo", "gdpo")}
    outcomes = prompts.outcomes(marks, ties)
    first = prompts.pairs(marks)  # of a right and a wrong answer: from which weight on the right one is first
    return first, outcomes, ties


@app.cell
def evidence_legend(page, prompts, verdicts):
    kinds = mo.ui.anywidget(Pick("", page.given("evidence-kind", prompts.OUTCOMES)))
    kinds
    return (kinds,)


@app.cell
def evidence_squares(verdicts):
    picture = mo.ui.anywidget(Pick(""))
    picture
    return (picture,)


@app.cell
def evidence_asked(page, verdicts):
    # A prompt is opened by a square, by its name or by a step: one value from three sources is a state.
    asked_prompt, ask_prompt = mo.state(page.given("evidence-prompt", verdicts.tasks))
    return ask_prompt, asked_prompt


@app.cell
def evidence_pointed(ask_prompt, picture):
    if picture.value["chosen"]:
        ask_prompt(picture.value["chosen"])
    return


@app.cell
def evidence_drawing(asked_prompt, choice, first, kinds, outcomes, picture, squares, verdicts):
    prompt = asked_prompt() or verdicts.tasks[first.worst()]
    kinds.widget.html = str(squares.legend(outcomes, choice.group_size))
    picture.widget.html = str(squares.squares(verdicts, outcomes, choice.group_size, kinds.value["chosen"]))
    picture.widget.chosen = prompt
    return (prompt,)


@app.cell
def evidence_find(verdicts):
    find = mo.ui.text(placeholder="find a prompt", label="Open a prompt by its name")
    return (find,)


@app.cell
def evidence_found(ask_prompt, find, opened, verdicts):
    unknown = opened.unknown(verdicts, find.value)
    if find.value and not unknown:
        ask_prompt(find.value)
    return (unknown,)


@app.cell
def evidence_opened(
    ask_prompt,
    asked_prompt,
    choice,
    find,
    first,
    marks,
    opened,
    outcomes,
    prompt,
    sentences,
    squares,
    ties,
    unknown,
    verdicts,
):
    # Squares are smaller than a fingertip.
    _before, _after = squares.beside(verdicts, outcomes, prompt)
    step_back = mo.ui.button(lambda _: ask_prompt(_before), label="←", tooltip=f"Previous prompt: {_before}")
    step_on = mo.ui.button(lambda _: ask_prompt(_after), label="→", tooltip=f"Next prompt: {_after}")
    html.show(
        html.framed("asking", step_back, step_on, find),
        unknown,
        opened.prompt(verdicts, choice, marks, ties, first, prompt, bool(asked_prompt())),
        sentences.more({"Whose answers": lambda: opened.whose(verdicts, choice, marks, prompt)}),
    )
    return step_back, step_on


@app.cell(hide_code=True)
def evidence_first_note():
    mo.md("""
    Which answer comes first where GDPO breaks a tie, in all pairs, and as correctness weighs more.
    """)
    return


@app.cell
def evidence_weight(page, prompts):
    correctness_weight = mo.ui.slider(
        steps=prompts.WEIGHTS,
        value=prompts.nearest(page.given("evidence-weight")),
        label="Weight of correctness",
        show_value=True,
        debounce=True,
    )
    correctness_weight
    return (correctness_weight,)


@app.cell
def evidence_priorities(choice, first, sentences):
    html.show(
        sentences.verdict(choice, first),
        html.charts(sentences.bars(choice, first), "small"),
        html.charts(sentences.curves(choice, first), "small"),
    )
    return


@app.cell
def evidence_draws(choice, prompts, sentences, verdicts):
    spread = prompts.spread(verdicts, choice)  # over 100 draws
    html.show(sentences.other_draws(verdicts, choice, spread))
    return (spread,)


@app.cell(hide_code=True)
def evidence_more_note():
    mo.md("""
    Further down, each computed when the reader comes near it.
    """)
    return


@app.cell
def evidence_sizes(choice, first, prompts, sentences, sizes, verdicts):
    html.show(
        sentences.section(
            "More or fewer answers per prompt",
            lambda: sizes.part(prompts.by_size(verdicts, choice), choice),
            {
                "All shares by answers per prompt": lambda: sizes.tabled(prompts.by_size(verdicts, choice)),
                "All shares by weight of correctness": lambda: sentences.weights_table(first),
            },
        )
    )
    return


@app.cell
def evidence_counts(counting, sentences):
    html.show(
        sentences.section(
            "How much can survive",
            counting.part,
            {
                "The paper's Fig. 2: every group of two answers with two marks, listed": counting.listed,
                "The counts as tables": counting.tables,
            },
        )
    )
    return


@app.cell
def evidence_paper(paper, sentences):
    html.show(
        sentences.section(
            "What the paper measured on language models", paper.part, {"The paper's tables": paper.tabled}
        )
    )
    return


@app.cell
def evidence_about(about, choice, marks, outcomes, sentences, squares, verdicts):
    html.show(
        sentences.more(
            {
                "What the marks ask for": lambda: about.readings(verdicts),
                "What a gate on correctness would do to these answers": lambda: about.gate(marks, choice),
                "Whose answers these are": lambda: about.whose(verdicts),
            }
        ),
        mo.download(lambda: squares.as_table(verdicts, outcomes).encode(), "prompts.csv", label="The squares as CSV"),
        about.onward(),
    )
    return


@app.cell
def evidence_address(asked_prompt, choice, kinds, page, prompts, sentences):
    page.write(
        "evidence",
        {
            "evidence-group": choice.group_size,
            "evidence-draw": choice.seed,
            "evidence-kind": kinds.value["chosen"],
            "evidence-graders": ".".join(choice.graders),
            "evidence-weight": choice.weight,
            "evidence-prompt": asked_prompt(),
        },
        {"evidence-graders": ".".join(prompts.REWARDS)},
        sentences.program(choice),
    )
    return


# --- Your run ----------------------------------------------------------------------------------------------------------


@app.cell
def run_title(run_open):
    mo.stop(not run_open())
    mo.md("# Your run")
    return


# --- Use it ------------------------------------------------------------------------------------------------------------


@app.cell
def use_title(use_open):
    mo.stop(not use_open())
    mo.md("# Use it")
    return


# --- Your own cell -----------------------------------------------------------------------------------------------------


if __name__ == "__main__":
    app.run()
