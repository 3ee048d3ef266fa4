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

    import gdpo_core as gc
    from views import charts, html
    from views.html import show
    from views.lab import answers, books, depth
    from views.nav import Nav
    from views.terms import term

    DATA = mo.notebook_dir() / "data"
    GRPO, GDPO = "https://arxiv.org/abs/2402.03300", "https://arxiv.org/abs/2601.05242"


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


# --- Lab --------------------------------------------------------------------------------------------------------------


@app.cell
def lab_claim():
    mo.md(f"""
    # Different answers, the same advantage

    Training pushes towards an answer, or away from it, by its {term("advantage")}. GRPO ([group relative policy
    optimization]({GRPO})) adds the marks of an answer, then {term("normalise", "normalises")}. GDPO ([group
    reward-decoupled normalization policy optimization]({GDPO})) normalises each mark, then adds. **Flip a mark.**
    """)
    return


@app.cell
def lab_tasks(page):
    # Three requests with twelve answers each, written by hand and marked by three programs.
    tasks, refusal = answers.load(DATA / "tasks")
    lab_task = mo.ui.radio({task.title: task for task in tasks}, value=answers.chosen(tasks, page), inline=True)
    # What the board shows, for all that follows it: set when the reader leaves it, so that a flip runs none of that.
    shown, share = mo.state(answers.first_state(tasks))
    touched, touch = mo.state(0)
    return lab_task, refusal, share, shown, tasks, touch, touched


@app.cell
def lab_board(lab_task, page, refusal, tasks):
    mo.stop(not tasks, show(refusal))
    task = lab_task.value
    board = mo.ui.anywidget(answers.board(task, tasks[0], page))
    show(answers.asked(task, lab_task), board)
    return board, task


@app.cell(hide_code=True)
def lab_value_note():
    mo.md("""
    The board's value is what each answer is paid. Both methods compute from it, here and in the board alike.
    """)
    return


@app.cell
def lab_rewards(board):
    rewards = board.rewards  # (answers, rewards)
    weights = board.weights
    convention = gc.CONVENTIONS[board.convention]
    lengths = board.state.lengths  # what a convention that weighs tokens counts; here characters
    return convention, lengths, rewards, weights


@app.cell
def lab_advantages(board, convention, lengths, rewards, weights):
    _given = {"weights": weights, "lengths": lengths, "convention": convention}
    grpo = gc.explain(rewards, "grpo", **_given)  # adds the rewards, then normalises
    gdpo = gc.explain(rewards, "gdpo", **_given)  # normalises each reward, then adds
    ties = {method: board.collapse(method) for method in ("grpo", "gdpo")}
    return gdpo, grpo, ties


@app.cell
def lab_address(all_conventions, as_chart, at, board, editing, figure_two, page, share, task, tasks, touch):
    page.write(
        "lab",
        answers.controls(task, board.state),
        answers.untouched(tasks[0], task),
        answers.program(board.state),
    )
    board.widget.followed = all_conventions.value
    if editing or at != "lab" or as_chart.value or all_conventions.value or figure_two.value:
        share(board.state)
        touch(board.active)
    return


@app.cell
def lab_depth(page, tasks):
    mo.stop(not tasks)
    as_chart = mo.ui.switch(label="As a chart")
    all_conventions = mo.ui.switch(label="As each training program computes it")
    figure_two = mo.ui.switch(label="The paper's Fig. 2: 0.707 or 1.414?")
    marking = mo.ui.switch(label="How the answers are marked")
    five_books = mo.ui.switch(label="In plain words: five books", value=page.given("lab-books") is not None)
    mo.hstack([as_chart, all_conventions, figure_two, marking, five_books], justify="start", wrap=True, gap=2)
    return all_conventions, as_chart, figure_two, five_books, marking


@app.cell
def lab_chart(as_chart, shown):
    mo.stop(not as_chart.value)
    charts.advantages(shown())
    return


@app.cell
def lab_conventions(all_conventions, shown, touched):
    mo.stop(not all_conventions.value)
    show(depth.conventions(shown(), touched()))
    return


@app.cell
def lab_figure_two(figure_two, shown):
    mo.stop(not figure_two.value)
    show(depth.figure_two(shown().convention))
    return


@app.cell
def lab_marking(marking, task):
    mo.stop(not marking.value)
    show(depth.marking(task, answers.graded(task).answers))
    return


@app.cell
def lab_book_ratings(five_books, page):
    mo.stop(not five_books.value)
    ratings = mo.ui.array(
        [
            mo.ui.slider(low, high, value=rating, show_value=True, label=label)
            for label, low, high, rating in books.given(page)
        ]
    )
    mo.vstack([mo.md(books.opening()), show(books.shelf(ratings.elements))])
    return (ratings,)


@app.cell
def lab_book_ranking(page, ratings):
    page.write("lab", {"lab-books": tuple(map(float, ratings.value))}, {"lab-books": books.RATINGS})
    show(books.ranking(ratings.value))
    return


@app.cell
def lab_next():
    mo.md("""
    [Next: does it learn better with the one or the other? Train →](?at=train)
    """)
    return


# --- Train ------------------------------------------------------------------------------------------------------------


@app.cell
def train_title(train_open):
    mo.stop(not train_open())
    mo.md("# Train")
    return


# --- Evidence ---------------------------------------------------------------------------------------------------------


@app.cell
def evidence_title(evidence_open):
    mo.stop(not evidence_open())
    mo.md("# Evidence")
    return


# --- Your run ---------------------------------------------------------------------------------------------------------


@app.cell
def run_title(run_open):
    mo.stop(not run_open())
    mo.md("# Your run")
    return


# --- Use it -----------------------------------------------------------------------------------------------------------


@app.cell
def use_title(use_open):
    mo.stop(not use_open())
    mo.md("# Use it")
    return


# --- Your own cell ----------------------------------------------------------------------------------------------------


@app.cell
def your_own_cell(shown):
    # Flip a mark: this runs again. `shown()` is what the board shows; `rewards` and all other variables are yours too.
    _board = shown()
    for _method in ("grpo", "gdpo"):
        _a = gc.advantages(_board.rewards, _method, weights=_board.weights)
        print(_method, *(f"{_x:+.2f}" for _x in _a.tolist()))
    return


@app.cell(hide_code=True)
def footer():
    show(html.footer(GDPO))
    return


if __name__ == "__main__":
    app.run()
