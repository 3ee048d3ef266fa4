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
def run_claim(run_open):
    mo.stop(not run_open())
    from views import run

    mo.md(run.choose.OPENING)
    return (run,)


@app.cell(hide_code=True)
def run_choose_note():
    mo.md(r"""
    What the reader chooses: files of a run, or a sample, and how they are read.
    """)
    return


@app.cell
def run_upload(run, sample):
    upload = run.choose.upload(sample.value)
    run.choose.area(upload)
    return (upload,)


@app.cell
def run_sample(page, run):
    sample = run.choose.sample(page)
    sample
    return (sample,)


@app.cell
def run_corrections(page, run, sample, upload):
    corrections = run.choose.corrections(page, sample.value, upload.value)
    run.choose.asking(corrections)
    return (corrections,)


@app.cell(hide_code=True)
def run_report_note():
    mo.md(r"""
    The files become a `log`, the log a `report`, which is handed to *Use it* as `audited()`.
    """)
    return


@app.cell
def run_log(corrections, run, sample, upload):
    # A stranger's file is read in a process of its own, which has limits and may die.
    run.show.waiting("Reading", upload.value)
    try:
        log = run.log.read(sample.value, upload.value, **corrections.value)
        _said = run.show.whose(log)
    except gc.InputError as _error:
        log, _said = None, run.show.refused(_error)
    _said
    return (log,)


@app.cell
def run_primary(log, page, run):
    primary = run.choose.primary(page, log)
    primary
    return (primary,)


@app.cell
def run_handover():
    # Use it follows the audited report, and must not depend on Your run being open: hence no variable.
    audited, set_audited = mo.state(None)
    return audited, set_audited


@app.cell
def run_report(corrections, log, primary, run, set_audited, upload):
    report, _said = None, None
    run.show.waiting("Auditing", upload.value)
    try:
        if log:
            report = run.log.audited(log, primary.value, corrections.value["weights"])
            _said = run.show.front(report)
    except gc.InputError as _error:
        _said = run.show.refused(_error)
    set_audited(report)
    _said
    return (report,)


@app.cell
def run_more(log, report, run):
    mo.vstack([run.show.folds(report), run.show.taken(log, report)]) if report else None
    return


@app.cell
def run_address(corrections, log, page, primary, report, run, sample):
    page.write(
        "run",
        *run.choose.address(sample.value, corrections.value, log, primary.value),
        run.log.program(log, report, corrections.value["weights"]) if report else "",
    )
    return


# --- Use it -----------------------------------------------------------------------------------------------------------


@app.cell
def use_claim(use_open):
    mo.stop(not use_open())
    from views import use

    mo.md(use.configure.OPENING)
    return (use,)


@app.cell(hide_code=True)
def use_lines_note():
    mo.md(r"""
    What the Lab shows, a trainer and a gate become the `lines` of a configuration.
    """)
    return


@app.cell
def use_controls(page, use):
    trainer = use.configure.choice(page, "use-framework", "Trainer", use.configure.TRAINERS)
    gate = use.configure.choice(page, "use-gate", "Gate", use.configure.GATES)
    source = use.configure.choice(page, "use-source", "Judge by", use.configure.SOURCES)
    mo.hstack([trainer, gate, source], justify="start", gap=1, wrap=True)
    return gate, source, trainer


@app.cell
def use_lines(gate, shown, trainer, use, use_open):
    mo.stop(not use_open())
    framework = use.configure.FRAMEWORKS[trainer.value]
    lines = use.configure.lines(framework.id, shown(), gate.value)
    use.configure.section(lines, framework, shown(), gate.value)
    return framework, lines


@app.cell(hide_code=True)
def use_advice_note():
    mo.md(r"""
    Whose rewards are judged, `judged`, and what GDPO would change on them: `advice`.
    """)
    return


@app.cell
def use_advice(audited, gate, shown, source, use, use_open):
    mo.stop(not use_open())
    _of_run = source.value == "run"
    judged = audited() if _of_run else use.advise.report_of(shown(), gate.value)
    advice = use.advise.answers(judged) if judged else []
    use.advise.section(advice, judged, _of_run)
    return advice, judged


@app.cell
def use_more(shown, use, use_open):
    mo.stop(not use_open())
    use.claims.folds(shown())
    return


@app.cell
def use_address(framework, gate, page, shown, source, trainer, use, use_open):
    mo.stop(not use_open())
    page.write(
        "use",
        {"use-framework": trainer.value, "use-gate": gate.value, "use-source": source.value},
        use.configure.UNTOUCHED,
        use.configure.program(framework, shown(), gate.value),
    )
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
