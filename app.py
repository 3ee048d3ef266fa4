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
    html_head_file="views/head.html",
)

with app.setup:
    import marimo as mo

    from views import lab
    from views.bar import Bar, Door
    from views.link import Session

    DATA = mo.notebook_dir() / "data"


@app.cell(hide_code=True)
def bar():
    session = Session.of(mo.query_params().to_dict())
    edit = mo.app_meta().mode != "run"
    mo.ui.anywidget(Bar(session, edit))
    return edit, session


@app.cell(hide_code=True)
def lab_instrument(session):
    lab.chapter(DATA / "tasks", session)
    return


@app.cell(hide_code=True)
def train_door(edit):
    train_open = mo.ui.anywidget(Door("train", edit))
    train_open
    return (train_open,)


@app.cell(hide_code=True)
def train_pictures(session, train_open):
    mo.stop(not train_open.value["opened"])
    from views import train

    train.chapter(DATA, session)
    return


@app.cell(hide_code=True)
def evidence_door(edit):
    evidence_open = mo.ui.anywidget(Door("evidence", edit))
    evidence_open
    return (evidence_open,)


@app.cell(hide_code=True)
def evidence_squares(evidence_open, session):
    mo.stop(not evidence_open.value["opened"])
    from views import evidence

    evidence.chapter(DATA / "bfcl_rewards.parquet", session)
    return


@app.cell(hide_code=True)
def run_door(edit):
    run_open = mo.ui.anywidget(Door("run", edit))
    run_open
    return (run_open,)


@app.cell(hide_code=True)
def run_claim(run_open, session):
    mo.stop(not run_open.value["opened"])
    from views import run

    mo.md(run.opening())
    return (run,)


@app.cell(hide_code=True)
def run_sample(run, session):
    run_chosen = run.samples(session)
    run_chosen
    return (run_chosen,)


@app.cell(hide_code=True)
def run_upload(run, run_chosen):
    _ = run_chosen  # who chooses a sample wants to see it: no files then
    run_files = run.upload()
    run.area(run_files)
    return (run_files,)


@app.cell(hide_code=True)
def run_corrections(run, run_files, session):
    _ = run_files  # with other files the corrections start anew
    run_reading = run.corrections(session)
    run.asking(run_reading)
    return (run_reading,)


@app.cell(hide_code=True)
def run_log(run, run_chosen, run_files, run_reading):
    run_read = run.read_or_why(run_chosen.value, run_files.value, run_reading.value)
    mo.stop(run_read.log is None, run_read.shown)
    run_read.shown
    return (run_read,)


@app.cell(hide_code=True)
def run_primary(run, run_read, session):
    run_first = run.primary(run_read.log, session)
    run_first
    return (run_first,)


@app.cell(hide_code=True)
def run_report(run, run_first, run_read, session):
    run.audited_or_why(run_read, run_first.value, session)
    return


@app.cell(hide_code=True)
def use_door(edit):
    use_open = mo.ui.anywidget(Door("use", edit))
    use_visit = mo.ui.anywidget(Door("use", edit, counts=True))  # what follows the Lab is drawn anew at each visit
    mo.vstack([use_open, use_visit])
    return use_open, use_visit


@app.cell(hide_code=True)
def use_claim(session, use_open):
    mo.stop(not use_open.value["opened"])
    from views import claims, should, use

    use_chosen = use.choices(session)
    mo.vstack([mo.md(use.opening()), use.asked(use_chosen)])
    return claims, should, use, use_chosen


@app.cell(hide_code=True)
def use_lines(session, use, use_chosen, use_visit):
    _ = use_visit
    use.configuration(use_chosen.value, session)
    return


@app.cell(hide_code=True)
def use_should(session, should, use_chosen, use_visit):
    _ = use_visit
    should.should(use_chosen.value, session)
    return


@app.cell(hide_code=True)
def use_more(claims, session, use_visit):
    _ = use_visit
    claims.more(session)
    return


if __name__ == "__main__":
    app.run()
