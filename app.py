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


@app.cell
def evidence_title(evidence_open):
    mo.stop(not evidence_open())
    mo.md("# Evidence")
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
