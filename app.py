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
    import marimo as mo

    from gdpo_core import bfcl
    from views.bar import Bar, Door
    from views.lab import Lab
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
    mo.vstack(
        [
            mo.md("""
            # Different answers, the same advantage

            Twelve answers to one request, each marked for three things. GRPO adds an answer's marks and then
            normalises, so a wrong call in good style and a right one in bad style get one number. GDPO normalises
            each mark first. **Flip a mark.**
            """),
            mo.ui.anywidget(Lab(bfcl.load_tasks(DATA / "tasks"), session)),
        ]
    )
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
def run_claim(run_open):
    mo.stop(not run_open.value["opened"])
    mo.md("# What happened in your run")
    return


@app.cell(hide_code=True)
def use_door(edit):
    use_open = mo.ui.anywidget(Door("use", edit))
    use_open
    return (use_open,)


@app.cell(hide_code=True)
def use_claim(use_open):
    mo.stop(not use_open.value["opened"])
    mo.md("# Use it")
    return


if __name__ == "__main__":
    app.run()
