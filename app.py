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
    from views.nav import Nav

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
        State(((1, 1, 1), (1, 1, 0), (1, 0, 1), (0, 1, 1), (1, 0, 0), (0, 0, 1)), (1.0, 1.0, 1.0), (1.0, 1.0, 1.0))
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


@app.cell
def evidence_title(evidence_open):
    mo.stop(not evidence_open())
    mo.md("# Evidence")
    return


# --- Your run ----------------------------------------------------------------------------------------------------------


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


# --- Use it ------------------------------------------------------------------------------------------------------------


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


# --- Your own cell -----------------------------------------------------------------------------------------------------


if __name__ == "__main__":
    app.run()
