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
    from views import html, train
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
        State(((1, 1, 1), (1, 1, 0), (1, 0, 1), (0, 1, 1), (1, 0, 0), (0, 0, 1)), (1.0, 1.0, 1.0), (1.0, 1.0, 1.0))
    )
    mo.md("# The Lab")
    return share, shown


# --- Train -------------------------------------------------------------------------------------------------------------


@app.cell(hide_code=True)
def train_note():
    mo.md("""
    **Train.** Coins that learn from several rewards: set-up and controls → `setting` → `runs` → curves.
    """)
    return


@app.cell
def train_files(train_open):
    mo.stop(not train_open())
    try:
        scenarios, pictures = train.cards.load(DATA)
    except gc.InputError as _error:
        mo.stop(True, html.show(html.says(f"This chapter can't be shown. {html.reason(_error)}")))
    return pictures, scenarios


@app.cell
def train_choices(page, scenarios):
    # What stays when another set-up is chosen. The values of a link are those of the set-up that it names.
    linked = page.given("train-scenario", scenarios, next(iter(scenarios)))
    as_linked = train.controls.as_linked(scenarios[linked], page)
    comparison, third = train.controls.for_all(page, scenarios[linked])
    predict = mo.ui.switch(label="Predict first")
    guesses = mo.ui.dictionary({_id: train.controls.question(_one) for _id, _one in scenarios.items()})
    reset = mo.ui.button(value=0, on_click=lambda times: times + 1, label="Reset")
    return as_linked, comparison, guesses, linked, predict, reset, third


@app.cell
def train_sketches(comparison, pictures, scenarios, shown):
    sketches = train.cards.sketches(scenarios, pictures, comparison.value, shown())
    return (sketches,)


@app.cell
def train_headline(comparison, guesses, predict, scenarios, sketches):
    _kinds = train.cards.kinds(scenarios, sketches, comparison.value)
    _score = train.cards.score(scenarios, sketches, guesses.value) if predict.value else None
    html.show(train.words.headline(comparison.value, _kinds, _score), html.framed("choices", comparison, predict))
    return


@app.cell
def train_cards(linked, scenario_asked, scenarios):
    # A link inside the page asks for a set-up; the first one comes from the address.
    gallery = Pick(html.Html(""), scenario_asked() if scenario_asked() in scenarios else linked, train.cards.CSS)
    chosen = mo.ui.anywidget(gallery)
    chosen
    return chosen, gallery


@app.cell
def train_pictures(comparison, gallery, guesses, predict, scenarios, sketches):
    _guesses = guesses.value if predict.value else None
    gallery.html = str(train.cards.gallery(scenarios, sketches, comparison.value, _guesses))
    return


@app.cell
def train_scenario(chosen, scenarios):
    scenario = scenarios[chosen.value["chosen"]]
    html.show(html.tag("h2", scenario.title))
    return (scenario,)


@app.cell
def train_controls(as_linked, linked, reset, scenario, third):
    as_given = train.controls.as_given(scenario)
    controls = train.controls.elements(scenario, as_linked if (scenario.id, reset.value) == (linked, 0) else as_given)
    train.controls.panel(scenario, controls, third, reset)
    return as_given, controls


@app.cell
def train_setting(comparison, controls, scenario, shown, third):
    setting = train.controls.setting_of(scenario, comparison.value, controls.value, shown())
    methods = [*train.runs.COMPARED, *([third.value] if third.value else [])]
    return methods, setting


@app.cell
def train_runs(methods, setting):
    # p of each run: (seeds, epochs + 1, coins). They are trained in another process, once for all visitors.
    try:
        with mo.status.spinner("Training", remove_on_exit=True):
            runs = train.runs.train(setting, methods)
            limits = train.runs.train_limits(setting, methods)
    except gc.InputError as _error:
        mo.stop(True, html.show(html.says(f"This can't be trained. {html.reason(_error)}")))
    return limits, runs


@app.cell
def train_curves(as_given, guesses, limits, pictures, predict, runs, scenario, setting, shown):
    _given = setting == train.controls.setting_of(scenario, setting.comparison, as_given, shown())
    _left = train.cards.at_equal(pictures, scenario, setting.comparison) if _given else ""
    _equal = html.tag("p", _left, kind="beside")
    mo.stop(predict.value and not guesses.value[scenario.id], guesses[scenario.id])
    html.show(
        html.tag("p", train.words.under_title(setting), kind="picture-sub"),
        html.framed("verdict", train.words.said(setting, scenario.coins, runs, limits), _equal, role="status"),
        train.panels.draw(scenario, setting, runs, limits),
        train.words.why(scenario, setting, _given),
    )
    return


@app.cell
def train_weights(methods, pictures, scenario, setting):
    # Of the conflict: where the right answer ends at other weights of being concise.
    mo.stop(not setting.arms)
    endings = train.cards.endings(pictures, scenario, setting, methods)
    html.show(html.framed("weighed", train.cards.weights_table(endings, setting)))
    return


@app.cell
def train_depth(limits, methods, runs, scenario, setting):
    mo.accordion(
        {
            "What is trained, and how": html.show(html.framed("fold", train.words.how_it_learns(setting))),
            "Every median, in all three comparisons": mo.lazy(
                lambda: train.panels.medians_table(scenario, setting, methods)
            ),
            "The curves as a table": mo.lazy(lambda: train.panels.curves_table(scenario, runs, limits)),
        },
        multiple=True,
    )
    return


@app.cell
def train_next():
    html.show(
        html.framed(
            "next",
            "Coins are a toy. ",
            html.tag("a", "On 963 real prompts: how often does it happen? →", href="?at=evidence"),
        )
    )
    return


@app.cell
def train_address(as_given, comparison, controls, methods, page, scenario, scenarios, setting, third):
    _written = train.controls.written(controls.value)
    page.write(
        "train",
        {"train-scenario": scenario.id, "train-compare": setting.comparison, "train-method": third.value, **_written},
        {
            "train-scenario": next(iter(scenarios)),
            "train-compare": scenario.setting.comparison,
            **train.controls.written(as_given),
        },
        train.runs.program(setting, methods),
    )
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
