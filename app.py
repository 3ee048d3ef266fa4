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
    from gdpo_core._words import listing, percent, word
    from views import (
        books,
        broken,
        conflict,
        counts,
        gated,
        html,
        one_prompt,
        own_run,
        prompts,
        scenarios,
        shares,
        steps,
        training,
    )
    from views.board import Board
    from views.text import BAND

    DATA = mo.notebook_dir() / "data"
    BOOKS = json.loads((DATA / "books.json").read_text(encoding="utf-8"))


@app.cell(hide_code=True)
def opening():
    mo.md(f"""
    # Different answers, the same advantage

    These answers to one request were written by hand to show typical faults of a language model.
    {word(len(bfcl.REWARDS)).capitalize()} graders marked each for {listing(bfcl.REWARDS)}. **GRPO** adds the marks and
    normalises the sum, so a wrong call in good style and a right one in bad style get the same *advantage*, the number
    that says how strongly to reinforce an answer. **GDPO** normalises each mark first, then adds. Flip a mark and
    compare.

    All answers to one request are a *group*, all groups of a training step a *batch*. A mark, 1 or 0, is the
    [paper](https://arxiv.org/abs/2601.05242)'s reward.
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
def answer_lengths(board):
    lengths = [len(answer) for answer in board.value["tasks"][board.value["task"]]["answers"]]
    return (lengths,)


@app.cell(hide_code=True)
def follow_intro(tasks):
    most = max(len(task.answers) for task in tasks)
    follow_answer = mo.ui.dropdown([str(n + 1) for n in range(most)], value="10", label="Answer")
    follow_convention = mo.ui.dropdown(steps.named(), value=next(iter(steps.named())), label="As computed by")
    mo.vstack(
        [
            mo.md(f"""
            ## Follow one answer

            The same {word(len(bfcl.REWARDS))} marks through both methods. GRPO's first step adds the marks; which one
            was missing is lost there. GDPO first asks how rare each mark is in the group.
            {steps.implementations(tasks[0])}
            """),
            mo.hstack([follow_answer, follow_convention], justify="start", gap=2, wrap=True),
        ]
    )
    return follow_answer, follow_convention


@app.cell(hide_code=True)
def follow(follow_answer, follow_convention, lengths, passed):
    html.show(steps.follow(passed, int(follow_answer.value) - 1, gc.CONVENTIONS[follow_convention.value], lengths))
    return


@app.cell(hide_code=True)
def figure_two(follow_convention):
    mo.vstack(
        [
            mo.md(f"### Is it {' or '.join(steps.printed())}?"),
            html.show(steps.readings(gc.CONVENTIONS[follow_convention.value])),
        ]
    )
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
    html.show(html.sliders([book["title"] for book in BOOKS["books"]], ratings))
    return (ratings,)


@app.cell(hide_code=True)
def book_ranking(ratings):
    html.show(books.ranking([book["title"] for book in BOOKS["books"]], ratings.value))
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
            each mark of the answers above take? An *update share* is a reward's part of the variance of the advantages.
            Below 0, the update works against the reward.
            """),
            html.show(html.sliders(bfcl.REWARDS, zip(scale, weight, strict=True))),
        ]
    )
    return scale, weight


@app.cell(hide_code=True)
def update_shares(passed, scale, weight):
    html.show(shares.update(passed, scale.value, weight.value, bfcl.REWARDS))
    return


@app.cell(hide_code=True)
def prompts_intro():
    try:
        published, unusable = prompts.published(DATA / "bfcl_rewards.parquet"), ""
    except gc.InputError as error:
        published, unusable = None, str(error)
    mo.stop(published is None, mo.callout(unusable, kind="danger"))
    mo.md(f"## {prompts.heading(published)}\n\n{prompts.introduction(published)}")
    return (published,)


@app.cell(hide_code=True)
def prompts_controls(published):
    group_size = mo.ui.slider(
        2,
        len(published.models),
        value=prompts.GROUP_SIZE,
        label="Answers in a group",
        show_value=True,
        debounce=True,
    )
    draw_seed = mo.ui.slider(0, 99, value=0, label="Random draw (seed)", show_value=True, debounce=True)
    category = mo.ui.dropdown(
        prompts.categories(published), value=next(iter(prompts.categories(published))), label="Kind of prompt"
    )
    readings = mo.ui.array(
        [
            mo.ui.dropdown(options, value=next(iter(options)), label=label)
            for label, options in (
                ("Correctness", prompts.CORRECTNESS),
                ("Style", prompts.STYLE),
                ("Conciseness", prompts.CONCISENESS),
            )
        ]
    )
    correctness_weight = mo.ui.slider(
        steps=broken.WEIGHTS, value=1.0, label="Weight of correctness", show_value=True, debounce=True
    )
    mo.vstack(
        [
            html.show(html.controls([group_size, draw_seed, category, correctness_weight])),
            html.show(html.controls(readings, "An answer gets a mark if it passes:")),
            html.show(prompts.readings(published)),
        ]
    )
    return category, correctness_weight, draw_seed, group_size, readings


@app.cell(hide_code=True)
def prompts_choice(category, correctness_weight, draw_seed, readings):
    choice = prompts.Choice(tuple(readings.value), draw_seed.value, category.value, correctness_weight.value)
    return (choice,)


@app.cell(hide_code=True)
def prompts_ties(choice, group_size, published):
    html.show(prompts.ties(published, choice, group_size.value))
    return


@app.cell(hide_code=True)
def prompts_by_size(choice, published):
    mo.vstack(
        [
            mo.md("""
            ### What the size of a group changes

            The larger a group, the likelier it holds two mixes of marks with the same sum. Take two answers
            that pass one mark each, not the same one. With equal weights GDPO ties them only if as many answers pass
            the first mark as pass the second, or as fail it. In a large group that is a rare coincidence. The axes of
            the two charts differ.
            """),
            html.show(html.when_seen("figure two", lambda: prompts.size_figure(published, choice))),
        ]
    )
    return


@app.cell(hide_code=True)
def prompts_order(choice, group_size, published):
    weight_curve = html.when_seen("figure one", lambda: broken.weight_figure(published, choice, group_size.value))
    mo.vstack(
        [
            mo.md("""
            ### More resolution, not better priorities

            GRPO ties some right answers with wrong ones. Where GDPO breaks such a tie, which answer comes first? And
            how much must correctness weigh until the right one always does? (The pairs are those of equal weights.)
            GDPO divides each mark by its spread in the group, so a mark that almost all answers pass, or almost none,
            moves an answer further.
            """),
            html.show(broken.order(published, choice, group_size.value)),
            *([html.show(weight_curve)] if broken.any_pairs(published, choice, group_size.value) else []),
        ]
    )
    return


@app.cell(hide_code=True)
def prompt_chooser(published):
    opened_prompt = mo.ui.dropdown(one_prompt.tasks(published), value=one_prompt.MOST, label="Prompt", searchable=True)
    mo.vstack([mo.md("### Marks of one prompt"), opened_prompt])
    return (opened_prompt,)


@app.cell(hide_code=True)
def opened_marks(choice, group_size, opened_prompt, published):
    html.show(one_prompt.opened(published, choice, group_size.value, opened_prompt.value))
    return


@app.cell(hide_code=True)
def counts_intro():
    mo.vstack(
        [
            mo.md(f"""
            ## {counts.heading()}

            Take every group of answers that can occur when each mark is either passed or failed. Write down each
            group's advantages, whatever the order of its answers. Where two groups get the same list, the advantages
            no longer show which marks were given. The number of different lists is an upper limit on what a method can
            pass on.

            ### Two answers, two marks: every group there is
            """),
            html.show(counts.listed()),
        ]
    )
    return


@app.cell(hide_code=True)
def counts_controls():
    counts_log = mo.ui.switch(label="Logarithmic axis")
    counts_rounded = mo.ui.switch(label="Count rounded numbers instead (shows a pitfall)")
    mo.vstack(
        [
            mo.md("""
            ### More answers, more marks

            The same count for larger groups: GDPO's lead grows with both. By default the counts are exact. Taken from
            rounded numbers they come out wrong, as the second switch shows.
            """),
            mo.hstack([counts_log, counts_rounded], justify="start", gap=2, wrap=True),
        ]
    )
    return counts_log, counts_rounded


@app.cell(hide_code=True)
def counts_grow(counts_log, counts_rounded):
    mo.vstack(
        [
            html.show(counts.verdict(counts_rounded.value)),
            html.show(counts.legend()),
            html.show(html.when_seen("growth", lambda: counts.figure(counts_rounded.value, counts_log.value))),
            *([html.show(counts.trap())] if counts_rounded.value else []),
        ]
    )
    return


@app.cell(hide_code=True)
def train_intro():
    try:
        to_train, unreadable = scenarios.scenarios(DATA / "scenarios.json"), ""
    except gc.InputError as error:
        to_train, unreadable = (), str(error)
    mo.stop(not to_train, mo.callout(unreadable, kind="danger"))
    mo.md(f"""
    ## Train it

    Independent coins are the smallest policy with several rewards. A coin falls on 1 with probability *p* and then
    earns its reward; the score-function (REINFORCE) gradient moves *p*. An epoch, or step, is one update. GDPO's batch
    step divides by the spread over the batch. Here the other methods get the same step, which plain GRPO does not have,
    so that none wins by longer steps (one scenario leaves it out). Lines are medians over seeds, repeated runs with
    other random draws; bands hold {percent(BAND[1] - BAND[0])} of them. The thin lines are the *infinite-group limit*,
    computed from the formulas for infinitely large groups, without chance.
    """)
    return (to_train,)


@app.cell(hide_code=True)
def training_scenario(to_train):
    _by_title = scenarios.choices(to_train)
    scenario = mo.ui.dropdown(_by_title, value=next(iter(_by_title)), label="Scenario")
    predict = mo.ui.switch(label="Predict first")
    html.show(html.controls([scenario, predict]))
    return predict, scenario


@app.cell(hide_code=True)
def training_controls(scenario):
    _setting = scenario.value.setting
    coin_start = mo.ui.array(
        [
            mo.ui.slider(steps=scenarios.STARTS, value=p, label="start", show_value=True, debounce=True)
            for p in ([] if scenario.value.from_marks else _setting.p0)
        ]
    )
    coin_scale = mo.ui.array(
        [
            mo.ui.slider(steps=scenarios.SCALES, value=c, label="scale", show_value=True, debounce=True)
            for c in scenarios.filled(_setting.scale, len(_setting.p0))
        ]
    )
    coin_weight = mo.ui.array(
        [
            mo.ui.slider(steps=scenarios.WEIGHTS, value=w, label="weight", show_value=True, debounce=True)
            for w in scenarios.filled(_setting.weights, _setting.rewards)
        ]
    )
    more_training = mo.ui.dictionary(
        {
            name: mo.ui.slider(steps=steps, value=value, label=label, show_value=True, debounce=True)
            for name, label, steps, value in scenarios.sizes(_setting)
        }
        | {
            "optimizer": mo.ui.dropdown(scenarios.OPTIMIZERS, value=scenarios.optimizer(_setting), label="Optimiser"),
            "match_scale": mo.ui.switch(value=_setting.match_scale, label="Common step size for all methods"),
        }
    )
    mo.vstack(
        [
            html.show(html.sliders(*scenarios.controls(scenario.value, coin_start, coin_scale, coin_weight))),
            html.show(html.fold("More settings", html.controls(more_training.elements.values()))),
        ]
    )
    return coin_scale, coin_start, coin_weight, more_training


@app.cell(hide_code=True)
def training_guess(predict, scenario):
    guess = mo.ui.radio(scenarios.GUESSES, label="Your guess", inline=True)
    _question = mo.md(f"{scenario.value.title}: which method has every coin at {training.LEVEL:g} first?")
    mo.vstack([_question, guess]) if predict.value else None
    return (guess,)


@app.cell(hide_code=True)
def training_controls_read(coin_scale, coin_start, coin_weight, guess, more_training, predict):
    chosen = (coin_start.value, coin_scale.value, coin_weight.value, more_training.value)
    guessed = (guess.value,) if predict.value else None
    return chosen, guessed


@app.cell(hide_code=True)
def training_result(chosen, guessed, scenario):
    mo.stop(scenario.value.from_marks)
    scenarios.result(scenario.value, chosen, guessed)
    return


@app.cell(hide_code=True)
def training_of_the_answers(chosen, guessed, passed, scenario):
    mo.stop(not scenario.value.from_marks)
    scenarios.result(scenario.value, chosen, guessed, passed)
    return


@app.cell(hide_code=True)
def training_overview(predict, tasks, to_train):
    _as_graded = [grades.vector for grades in bfcl.grade_all(tasks[0])]
    mo.vstack(
        [
            mo.md(f"### {word(len(to_train)).capitalize()} scenarios, one lesson each"),
            html.show(scenarios.HIDDEN if predict.value else scenarios.overview(to_train, _as_graded)),
        ]
    )
    return


@app.cell(hide_code=True)
def conflict_intro():
    mo.md(f"## Normalising does not decide which reward matters more\n\n{conflict.introduction()}")
    return


@app.cell(hide_code=True)
def conflict_controls():
    brevity_weight = mo.ui.dropdown(conflict.WEIGHTS, value="1", label="Weight of being short")
    brevity_pays = mo.ui.dropdown(conflict.PAYS, value=next(iter(conflict.PAYS)), label="A short answer pays")
    right_start = mo.ui.dropdown(
        conflict.STARTS, value=next(iter(conflict.STARTS)), label="Right at the start (probability)"
    )
    brevity_gate = mo.ui.switch(label="Gate: short counts only if right")
    html.show(html.controls([brevity_weight, brevity_gate, right_start, brevity_pays]))
    return brevity_gate, brevity_pays, brevity_weight, right_start


@app.cell(hide_code=True)
def conflict_runs(brevity_gate, brevity_pays, brevity_weight, right_start):
    toy = conflict.Toy(right_start.value, brevity_weight.value, brevity_pays.value, brevity_gate.value)
    html.show(html.when_seen("conflict runs", lambda: conflict.shown(toy), busy=True))
    return


@app.cell(hide_code=True)
def conflict_weights(brevity_pays, right_start):
    mo.vstack(
        [
            mo.md("### Every weight, and the gate"),
            html.show(
                html.when_seen(
                    "conflict weights", lambda: conflict.weights_table(right_start.value, brevity_pays.value), busy=True
                )
            ),
            mo.md("""
            For your run: **gate the easy reward on the hard one**. That is one line in the reward function, such as
            `short = short if right else 0`. Right answers then come before wrong ones, whatever the (positive) weights
            and the normalisation; the weight only says how much a short right answer is preferred to a long one.
            """),
        ]
    )
    return


@app.cell(hide_code=True)
def conflict_prompts(choice, group_size, published):
    mo.vstack(
        [
            mo.md("""
            ### The same gate on real answers

            These are the answers drawn above from real prompts, with the marks and the weight chosen there. The gate
            lets style and conciseness count only where the answer is correct.
            """),
            html.show(gated.conditioned(published, choice, group_size.value)),
        ]
    )
    return


@app.cell(hide_code=True)
def own_intro():
    own_sample = mo.ui.dropdown(own_run.samples(), value=next(iter(own_run.samples())), label="Sample")
    mo.vstack([mo.md(own_run.introduction()), own_sample])
    return (own_sample,)


@app.cell(hide_code=True)
def own_upload(own_sample):
    _ = own_sample  # who chooses a sample wants to see it: no files then
    own_files = mo.ui.file(multiple=True, kind="area", max_size=own_run.LARGEST, label=own_run.UPLOAD)
    html.show(own_run.area(own_files))
    return (own_files,)


@app.cell(hide_code=True)
def own_corrections(own_files):
    _ = own_files  # with other files the corrections start anew
    own_reading = mo.ui.dictionary(
        {
            "framework": mo.ui.dropdown(own_run.FRAMEWORKS, value=next(iter(own_run.FRAMEWORKS)), label="Written by"),
            "group_size": mo.ui.text(label="Responses per prompt", placeholder="8"),
            "rewards": mo.ui.text(label="Reward columns", placeholder="correctness, style"),
            "group": mo.ui.text(label="Group column", placeholder="prompt_id"),
        }
    )
    _controls = html.controls(own_reading.elements.values())
    html.show(html.framed("asking", html.fold("Correct how the files are read", _controls)))
    return (own_reading,)


@app.cell(hide_code=True)
def own_log_read(own_files, own_reading, own_sample):
    mo.output.replace(html.show(own_run.waiting("Reading"))) if own_run.large(own_files.value) else None
    try:
        own_log, unread = own_run.read(own_sample.value, own_files.value, own_run.reading(**own_reading.value)), ""
    except gc.InputError as error:
        own_log, unread = None, str(error)
    mo.stop(own_log is None, html.show(html.framed("unread", mo.callout(unread, kind="danger"))))
    html.show(own_run.whose(own_log))
    return (own_log,)


@app.cell(hide_code=True)
def own_questions(own_log):
    own_primary = mo.ui.dropdown(
        own_log.run.rewards,
        value=own_log.primary,
        allow_select_none=True,
        label="The reward that matters most",
    )
    own_weights = mo.ui.text(label="Weights, if not those of the log", placeholder=own_run.example(own_log))
    html.show(html.framed("asking", html.controls([own_primary, own_weights])))
    return own_primary, own_weights


@app.cell(hide_code=True)
def own_report(own_files, own_log, own_primary, own_weights):
    mo.output.replace(html.show(own_run.waiting("Auditing"))) if own_run.large(own_files.value) else None
    try:
        own_audit, unaudited = own_run.audited(own_log, own_primary.value, own_weights.value), ""
    except gc.InputError as error:
        own_audit, unaudited = None, str(error)
    mo.stop(own_audit is None, html.show(html.framed("unread", mo.callout(unaudited, kind="danger"))))
    _taken = [
        mo.download(data=content, filename=name, label=label)
        for label, name, content in own_run.downloads(own_log, own_audit)
    ]
    mo.vstack([html.show(own_audit.html), html.show(html.framed("taken", *_taken))])
    return


@app.cell(hide_code=True)
def closing():
    mo.md("""
    ## In short

    Where rewards are independent, as the coins are, these methods learn alike at equal scales and an equal step size,
    from equal and from unequal starts. They differ when rewards differ in scale or carry noise, and then not always in
    GDPO's favour. Without GDPO's batch step the methods come apart even for equal coins, but only because GDPO then
    runs at a larger learning rate. Real rewards are correlated or in conflict, and then even equal scales do not make
    the methods alike, as the three answers show.

    ---
    GDPO: [arXiv 2601.05242](https://arxiv.org/abs/2601.05242). GRPO: [arXiv 2402.03300](https://arxiv.org/abs/2402.03300).
    Every number here is computed when you change something, by the library `gdpo_core`.
    """)
    return


if __name__ == "__main__":
    app.run()
