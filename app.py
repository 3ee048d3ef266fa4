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

with app.setup(hide_code=True):
    import marimo as mo

    import gdpo_core as gc
    from views.bfcl import load_tasks
    from views.chapters.lab import answers, books, depth
    from views.server import sessions
    from views.studies.references import ARXIV
    from views.widgets import html
    from views.widgets.html import show
    from views.widgets.nav import Nav
    from views.widgets.pick import Pick

    DATA = mo.notebook_dir() / "data"


# --- Lab --------------------------------------------------------------------------------------------------------------


@app.cell
def lab_claim(headline, task):
    mo.md(answers.claim(headline, task))
    return


@app.cell
def lab_board(lab_task, page, tasks):
    task = lab_task.value
    board = mo.ui.anywidget(answers.task_board(task, tasks[0], page))
    headline = board.drawing["claim"]  # of the board as it opens; after a flip `lab_address` says what the board shows
    # Every cell that names `board_to_read` runs again at each flip of a mark.
    board_to_read = None if sessions.LEAVES_OUT_UNSEEN_CELLS else board
    show(answers.request(task, lab_task), board)
    return board, board_to_read, headline, task


@app.cell
def lab_tasks(page):
    # Four requests with twelve answers each, written by hand and marked by three programs.
    tasks = html.loaded(load_tasks, DATA / "tasks")
    lab_task = answers.task_choice(tasks, page)
    # The state of the board for the chapters that follow the board. It is set when the reader leaves the Lab, so that a
    # flip of a mark runs none of their cells.
    graded = answers.grade_answers(tasks[0]).state  # the board of the first task as it opens; Train has a card of it
    shown, publish = mo.state(graded)
    touched, touch = mo.state(0)
    did, do = mo.state(frozenset())  # the deeds that the board has shown as done
    return did, do, graded, lab_task, publish, shown, tasks, touch, touched


@app.cell
def lab_rewards(board_to_read):
    # The board's value is what each answer is paid. Both methods compute from it, here and in the board alike. When the
    # reader goes to Train or Use it by the bar, those chapters follow the board.
    mo.stop(board_to_read is None)
    rewards = board_to_read.rewards  # (answers, rewards)
    weights = board_to_read.weights
    convention = gc.CONVENTIONS[board_to_read.convention]
    lengths = board_to_read.state.lengths  # in tokens; here a character stands for one
    # The board has already computed gc.explain(rewards, method, weights=weights, convention=convention) and
    # gc.collapse.
    grpo = board_to_read.explain("grpo")  # adds the rewards, then normalises
    gdpo = board_to_read.explain("gdpo")  # normalises each reward, then adds
    board_ties = {method: board_to_read.collapse(method) for method in ("grpo", "gdpo")}
    return board_ties, convention, gdpo, grpo, lengths, rewards, weights


@app.cell
def lab_by_hand(convention, gdpo, grpo, rewards, weights):
    # The same numbers in plain torch, each line with the number of its equation: GRPO adds the rewards and then
    # normalises, GDPO normalises them and then adds.
    def normalise(x):
        return (x - x.mean(0)) / x.std(0).clamp(min=1e-6)  # 0 where all are equal

    w = rewards.new_tensor(weights)
    total = rewards @ w  # (1)
    grpo_by_hand = normalise(total)  # (2)
    z = normalise(rewards)  # (4)
    z_total = z @ w  # (5)
    gdpo_by_hand = normalise(z_total)  # (6)
    if convention == gc.PAPER:  # other conventions change a divisor or a mean
        assert (grpo_by_hand - grpo.advantages).abs().max() < 1e-5
        assert (gdpo_by_hand - gdpo.advantages).abs().max() < 1e-5
    show(depth.side_by_side(total, grpo_by_hand, z, z_total, gdpo_by_hand))
    return


@app.cell
def lab_try(did, page):
    show(page.deed("tie", "tie" in did()), page.deed("order", "order" in did()))
    return


@app.cell
def lab_folds():
    show(
        html.fold("The formulas, symbol by symbol", lambda: mo.md(depth.equations())),
        html.fold("The paper's Fig. 2, before GDPO's batch step and after it", depth.figure_two()),
        html.fold("How the answers are marked", depth.grading()),
    )
    return


@app.cell
def lab_conventions_title():
    all_conventions = html.opener("As each trainer computes it")
    all_conventions
    return (all_conventions,)


@app.cell
def lab_conventions(all_conventions, shown, touched):
    show(depth.conventions(shown(), touched()) if all_conventions.value else "")
    return


@app.cell
def lab_books_title(page):
    five_books = html.opener(
        "In plain words: five books, rated on unequal scales", page.restore("lab-books") is not None
    )
    five_books
    return (five_books,)


@app.cell
def lab_book_ratings(five_books, page):
    ratings = books.sliders(page) if five_books.value else None
    show(books.shelf(ratings.elements) if five_books.value else "")
    return (ratings,)


@app.cell
def lab_book_ranking(page, ratings):
    if ratings is not None:
        page.write("books", {"lab-books": tuple(map(float, ratings.value))}, {"lab-books": books.RATINGS})
    show(books.ranking(ratings.value) if ratings is not None else "")
    return


@app.cell
def lab_next():
    mo.md(f"""
    One group is no training. Where models were trained, GDPO led in some comparisons and GRPO in others:
    [Evidence →](?at=evidence)

    [Next: does a policy learn better with GRPO or with GDPO? Train →](?at=train)

    {html.lesson()}
    """)
    return


# --- Your own cell ----------------------------------------------------------------------------------------------------


@app.cell(hide_code=True)
def your_own_cell_title():
    mo.md("""
    ## Your own cell

    The cell below prints what both methods give the twelve answers. It runs again when you flip a mark on the board.
    Write into it what you like: every variable of every cell is at hand.

    **Exercise.** GDPO normalises each reward, adds the results by weight, and takes a batch step over the sums. Those
    sums are `gdpo.weighted_sums`. Print them beside GDPO's advantages: what does the batch step change, and does any
    answer change its place? Then flip marks until GDPO, too, gives a right and a wrong answer one advantage.
    """)
    return


@app.cell
def your_own_cell(convention, gdpo, grpo, lengths, rewards, weights):
    # The board has computed `grpo` and `gdpo`; gc.advantages returns the same numbers, or those of another method.
    for _method, _shown in (("grpo", grpo), ("gdpo", gdpo)):
        _a = gc.advantages(rewards, _method, weights=weights, convention=convention, lengths=lengths)
        assert (_a - _shown.advantages).abs().max() < 1e-5
        print(_method, *(f"{_x:+.2f}" for _x in _a.tolist()))
    return


# --- Train ------------------------------------------------------------------------------------------------------------


@app.cell
def train_headline(comparison, predict, replied, setup, train):
    # A policy of a few coins learns from several rewards, once under GRPO and once under GDPO. What to look for: at
    # which epoch each line crosses 0.9, and which sliders below the plot move that.
    mo.md(f"""
    # {train.train_words.train_headline(comparison.value, predict.value, replied)}

    {train.train_words.lead(setup)}
    """)
    return


@app.cell
def train_caption(scenario, setup, train, unchanged):
    show(html.tag("h2", train.train_words.title(scenario, unchanged)), html.tag("p", train.train_words.caption(setup)))
    return


@app.cell
def train_play(editing, train):
    play = train.play.Play(editing=editing)
    mo.ui.anywidget(play)
    return (play,)


@app.cell
def train_files(train_open):
    # The set-ups of Train and their small pictures. A scenario and the controls make a `setup`, which makes runs, whose
    # curves are drawn.
    mo.stop(not train_open())
    from views.chapters import train  # imports Altair

    scenarios, pictures = html.loaded(train.gallery.load_gallery, DATA)
    return pictures, scenarios, train


@app.cell
def train_choices(page, scenarios, train):
    # These controls stay when another set-up is chosen. The values in a link belong to the set-up that the link names.
    linked = page.restore("train-scenario", scenarios, next(iter(scenarios)))
    as_linked = train.controls.linked_values(scenarios[linked], page)
    comparison, third = train.controls.for_all(page, scenarios[linked])
    predict = mo.ui.switch(label="Predict first")
    guesses = mo.ui.dictionary({_id: train.controls.question(_one) for _id, _one in scenarios.items()})
    reset = mo.ui.button(value=0, on_click=lambda times: times + 1, label="Reset")
    return as_linked, comparison, guesses, linked, predict, reset, third


@app.cell
def train_setup(comparison, controls, scenario, shown, third, train):
    setup = train.controls.setup_of(scenario, comparison.value, controls.value, shown())
    methods = [*train.runs.COMPARED_METHODS, *([third.value] if third.value else [])]
    train_link = train.gallery.link(scenario, setup, methods, controls.value)
    return methods, setup, train_link


@app.cell
def train_runs(methods, setup, train):
    # Coin k shows 1 with probability p0[k] at first, and then earns scale[k]. `each` calls gc.train for each method in
    # another process, once for all visitors, and gc.mean_field for infinitely large groups.
    # p of each run: (seeds, epochs + 1, coins); each limit: (epochs + 1, coins).
    p0, scale, _weights, epochs = setup.p0, setup.scale, setup.weights, setup.epochs
    _more = train.runs.further_options(setup)  # rollouts, prompts, lr, optimizer, seeds and so on
    try:
        with mo.status.spinner("Training", remove_on_exit=True):
            runs = train.runs.by_method(gc.train, methods, p0, scale=scale, weights=_weights, epochs=epochs, **_more)
            limits = train.runs.by_method(
                gc.mean_field, methods, p0, scale=scale, weights=_weights, epochs=epochs, **_more
            )
    except gc.InputError as _error:
        mo.stop(True, show(html.callout(f"This can't be trained. {html.reason_shown(_error)}")))
    return epochs, limits, p0, runs, scale


@app.cell
def train_drawing(limits, play, runs, scenario, setup, train):
    play.epochs, play.shown = setup.epochs, scenario.id
    _verdict = train.verdicts.result(setup, scenario.coins, runs)
    drawn = [html.div("verdict", _verdict, role="status"), train.panels.draw_panel(scenario, setup, runs, limits)]
    return (drawn,)


@app.cell
def train_unchanged(as_given, graded, scenario, setup, train):
    unchanged = setup == train.controls.setup_of(scenario, setup.comparison, as_given, graded)
    return (unchanged,)


@app.cell
def train_why(methods, scenario, setup, train, unchanged):
    below = train.panels.key(methods), train.train_words.why(scenario, setup, unchanged)
    return (below,)


@app.cell
def train_guesses(guesses, predict, scenario):
    guessed = guesses.value if predict.value else None  # by set-up; None where nobody is asked
    question = [] if guessed is None or guessed[scenario.id] else [guesses[scenario.id]]
    return guessed, question


@app.cell
def train_still(page, requested_scenario, train_open):
    # It stands here until the curves are drawn, and play.js takes it away.
    mo.stop(not train_open())
    from views.widgets import still

    _changed = any(page.restore(f"train-{_key}") for _key in ("scenario", "start", "pays", "weights", "more"))
    _changed = _changed or page.restore("train-compare") != "equal"
    show(still.curves(DATA, known=not (_changed or requested_scenario())))
    return


@app.cell
def train_curves(below, drawn, question):
    show(html.div("predicting", *question)) if question else show(*drawn, html.div("below", *below))
    return


@app.cell
def train_controls(as_linked, linked, reset, scenario, train):
    as_given = train.controls.scenario_values(scenario)
    controls = train.controls.elements(scenario, as_linked if (scenario.id, reset.value) == (linked, 0) else as_given)
    train.controls.panel(scenario, controls)
    return as_given, controls


@app.cell
def train_further(comparison, controls, reset, third, train):
    train.controls.further(controls, comparison, third, reset)
    return


@app.cell
def train_weights(pictures, scenario, setup, train):
    # Where rewards conflict, a table says how the right answer ends at other weights of being concise.
    show(html.div("weighed", train.other_weights.conciseness_table(pictures, scenario, setup)) if setup.arms else "")
    return


@app.cell
def train_by_hand(editing, epochs, p0, runs, scenario, setup):
    # The same policy in a few lines of torch, with new draws at each run, beside what the library makes of the same
    # numbers. Change the step, the batch step or a number here, and run the cell. Visitors of the page do not see it.
    mo.stop(not editing or setup.arms or setup.noise or setup.together or setup.gate)
    mo.stop(setup.optimizer != "sgd" or setup.match_scale is not True)
    pay, weight = setup.scale or (1.0,) * len(p0), setup.weights or (1.0,) * len(p0)

    def bernoulli(method):
        start = runs[method].p[0, 0]  # a tensor, (coins,)
        logits, course = start.logit(), [start.tolist()]
        for _ in range(epochs):
            p = logits.sigmoid()  # (coins,)
            b = p.expand(setup.prompts, setup.rollouts, -1).bernoulli()  # 1: the coin earns its pay
            advantages = gc.advantages(b * p.new_tensor(pay), method, weights=weight)  # (prompts, rollouts)
            advantages = advantages / advantages.std().clamp(min=1e-6)  # the batch step: steps of equal size
            logits = logits + setup.lr * (advantages[..., None] * (b - p)).mean((0, 1))
            course.append(logits.sigmoid().tolist())
        return gc.TrainingRun(method, start.new_tensor([course]))  # p: (1, epochs + 1, coins)

    _rows = []
    for _method in ("grpo", "gdpo"):
        for _name, _run in (("by hand", bernoulli(_method)), ("gc.train", runs[_method])):
            _rows.append([f"{_method.upper()}, {_name}", *_run.steps_to(0.9).median(0).values.tolist()])
    show(html.table(["first epoch with p ≥ 0.9", *scenario.coins], _rows, "figures"))
    return


@app.cell
def train_set_ups():
    mo.md("""
    ## The set-ups: choose one to see its curves
    """)
    return


@app.cell
def train_try(guesses, page, predict):
    _done = sum(map(bool, guesses.value.values())) >= 3
    _deed = page.deed("guess", _done)
    show(html.div("trying", _deed if _done or not predict.value else "", predict))
    return


@app.cell
def train_summary(comparison, guessed, scenarios, sketches, train):
    _score = train.gallery.score(scenarios, sketches, guessed) if guessed is not None else None
    show(train.gallery.summary(scenarios, sketches, comparison.value, _score))
    return


@app.cell
def train_cards(linked, requested_scenario, scenarios, train):
    # A link inside the page asks for a set-up; the first one comes from the address.
    gallery = Pick("", requested_scenario() if requested_scenario() in scenarios else linked)
    chosen = mo.ui.anywidget(gallery)
    chosen
    return chosen, gallery


@app.cell
def train_sketches(comparison, pictures, scenarios, shown, train):
    sketches = train.gallery.sketches(scenarios, pictures, comparison.value, shown())
    return (sketches,)


@app.cell
def train_replied(guessed, scenario, sketches, train):
    replied = train.gallery.reply(scenario, sketches, guessed)  # to what was predicted of this set-up
    return (replied,)


@app.cell
def train_pictures(comparison, gallery, guessed, scenarios, sketches, train):
    gallery.html = str(train.gallery.gallery(scenarios, sketches, comparison.value, guessed))
    return


@app.cell
def train_scenario(chosen, scenarios):
    scenario = scenarios[chosen.value["chosen"]]
    return (scenario,)


@app.cell
def train_depth(limits, methods, runs, scenario, setup, train):
    show(
        html.fold("What is trained, and how", train.train_words.how_it_learns(setup)),
        html.fold(
            "Every median, in all three comparisons", lambda: train.panels.medians_table(scenario, setup, methods)
        ),
        html.fold("The curves as a table", lambda: train.panels.epochs_table(scenario, runs, limits)),
    )
    return


@app.cell
def train_next():
    _trained = html.tag("a", "See what a language model did →", href="?at=evidence")
    show(html.div("next", "Coins are a toy. ", _trained))
    return


# --- Evidence ---------------------------------------------------------------------------------------------------------


@app.cell
def evidence_claim(evidence_open):
    # What to look for: where does GDPO lead, and where does it change little? Then: how often are there ties at all,
    # does it help to break them, and do forecasts from a log come true?
    mo.stop(not evidence_open())
    from views.bfcl import prompts
    from views.chapters import (
        evidence,  # imports Altair, which takes as long as all else that a first visitor waits for
    )
    from views.server import draws

    show(
        html.tag("div", html.tag("h1", evidence.trained.trained_headline()), kind="markdown"),
        evidence.trained.lead_of_trained(),
    )
    return draws, evidence, prompts


@app.cell
def evidence_trained(evidence, page):
    # The first question: what did training give? A block is a set-up.
    _chosen = page.restore("evidence-setup", evidence.trained.setup_names()) or evidence.trained.first_setup()
    setups = mo.ui.anywidget(Pick(evidence.trained.picture_of_differences(_chosen), _chosen))
    setups
    return (setups,)


@app.cell
def evidence_lines(evidence, setups):
    # The chosen set-up step by step.
    show(evidence.trained.trained_curves(setups.value["chosen"] or evidence.trained.first_setup()))
    return


@app.cell
def evidence_pays(evidence):
    show(html.div("says", evidence.trained.where_it_pays()), evidence.trained.key_of_picture())
    return


@app.cell
def evidence_data(prompts):
    verdicts = html.loaded(prompts.load_once, DATA / "bfcl_rewards.parquet")  # (prompts, models, graders)
    return (verdicts,)


@app.cell
def evidence_ties(choice, evidence, outcomes, verdicts):
    # The second question: how often does GRPO tie what differs? A square is a prompt.
    show(evidence.sentences.ties(verdicts, choice, outcomes))
    return


@app.cell
def evidence_marks(answers_drawn, correctness_weight, draw_number, graders, prompts, verdicts):
    choice = prompts.Choice(answers_drawn.value, draw_number.value, tuple(graders.value), correctness_weight.value)
    marks = prompts.marks_of(verdicts, choice.weighing(1))  # (prompts, answers, rewards)
    first = prompts.pairs(marks)  # of a right and a wrong answer, with the weight that orders them
    # These are the ties of each method, and the outcome of each prompt.
    ties = {method: gc.collapse(marks, method, weights=choice.weights) for method in ("grpo", "gdpo")}
    outcomes = prompts.outcomes(marks, ties)
    return choice, first, marks, outcomes, ties


@app.cell
def evidence_legend(page, prompts, verdicts):
    kinds = mo.ui.anywidget(Pick("", page.restore("evidence-kind", prompts.OUTCOMES)))
    kinds
    return (kinds,)


@app.cell
def evidence_squares(verdicts):
    picture = mo.ui.anywidget(Pick(""))
    picture
    return (picture,)


@app.cell
def evidence_ask(page, verdicts):
    # A reader opens a prompt by its square, by its name, or by a step to the next one. Because the name can come from
    # three cells, it is a state.
    chosen_prompt, ask_prompt = mo.state(page.restore("evidence-prompt", verdicts.tasks))
    return ask_prompt, chosen_prompt


@app.cell
def evidence_pointed(ask_prompt, picture):
    if picture.value["chosen"]:
        ask_prompt(picture.value["chosen"])
    return


@app.cell
def evidence_opened(chosen_prompt, first, picture, verdicts):
    prompt = chosen_prompt() or verdicts.tasks[first.worst()]
    picture.widget.chosen = prompt
    return (prompt,)


@app.cell
def evidence_drawing(choice, evidence, kinds, outcomes, picture, verdicts):
    kinds.widget.html = str(evidence.squares.outcome_legend(outcomes, choice.group_size))
    picture.widget.html = str(evidence.squares.squares(verdicts, outcomes, kinds.value["chosen"]))
    return


@app.cell
def evidence_find(verdicts):
    find = mo.ui.text(placeholder="name, or words of the request", label="Open a prompt")
    return (find,)


@app.cell
def evidence_search(ask_prompt, evidence, find, verdicts):
    for _found in evidence.opened.find(verdicts, find.value)[:1]:
        ask_prompt(_found)
    search_note = evidence.opened.search_note(verdicts, find.value)
    return (search_note,)


@app.cell
def evidence_steps(ask_prompt, evidence, outcomes, prompt, verdicts):
    # Buttons step from prompt to prompt, because a square is smaller than a fingertip.
    _before, _after = evidence.squares.neighbours(verdicts, outcomes, prompt)
    _back, _on = (html.tag("span", f" {_which} prompt", kind="unseen") for _which in ("previous", "next"))
    step_back = mo.ui.button(lambda _: ask_prompt(_before), label=f"←{_back}", tooltip=f"Previous prompt: {_before}")
    step_on = mo.ui.button(lambda _: ask_prompt(_after), label=f"→{_on}", tooltip=f"Next prompt: {_after}")
    return step_back, step_on


@app.cell
def evidence_answers(choice, evidence, marks, prompt, ties, verdicts):
    opened_prompt = [evidence.opened.prompt(verdicts, choice, marks, ties, prompt)]
    return (opened_prompt,)


@app.cell
def evidence_prompt(find, opened_prompt, search_note, step_back, step_on):
    show(html.div("asking", step_back, step_on, find), search_note, html.div("opened-prompt", *opened_prompt))
    return


@app.cell
def evidence_try(chosen_prompt, outcomes, page, prompts, verdicts):
    _asked = chosen_prompt() and prompts.OUTCOMES[outcomes.outcome[verdicts.tasks.index(chosen_prompt())]]
    show(page.deed("worse", _asked == "wrong"))
    return


@app.cell
def evidence_controls(evidence, page, verdicts):
    answers_drawn, draw_number = evidence.draw_controls.draw_controls(page, len(verdicts.models))
    graders = evidence.draw_controls.graders(page)
    show(html.fold("Other answers, other graders", html.div("asking", answers_drawn, draw_number, *graders)))
    return answers_drawn, draw_number, graders


@app.cell
def evidence_breaking(choice, evidence, first):
    # The third question: does it help to break the ties? Training answers it.
    show(evidence.breaking.section(choice, first))
    return


@app.cell
def evidence_weight(evidence, page):
    correctness_weight = evidence.draw_controls.weight(page)
    correctness_weight
    return (correctness_weight,)


@app.cell
def evidence_methods(choice, evidence, first):
    show(evidence.breaking.table_of_methods(choice, first))
    return


@app.cell
def evidence_order(choice, evidence, first):
    # Which answer comes first is another question than what is learnt, so it stands in a fold.
    show(html.fold(evidence.order.title(first), lambda: evidence.order.section(choice, first)))
    return


@app.cell
def evidence_board(choice, evidence, marks, prompt, verdicts):
    # What if this answer had passed? This is the board of the Lab with the answers to the opened prompt. It belongs to
    # the second question, and stands here so that the words above are repainted before it.
    opened_board = html.board_or_reason(lambda: evidence.opened.prompt_board(verdicts, choice, marks, prompt))
    show(html.fold("This prompt on the board: what if one more answer had passed?", html.element(opened_board)))
    return (opened_board,)


@app.cell
def evidence_foretold(evidence):
    # The fourth question: do forecasts come true? They were committed before the runs.
    show(evidence.forecasts_and_outcomes.section())
    return


@app.cell
def evidence_forecasts(evidence, page):
    _given = page.restore("evidence-forecast", evidence.forecasts_and_outcomes.names())
    forecasts = mo.ui.anywidget(
        Pick(
            evidence.forecasts_and_outcomes.picture_of_forecasts(evidence.forecasts_and_outcomes.load_forecasts()),
            _given or evidence.forecasts_and_outcomes.widest_miss(),
        )
    )
    forecasts
    return (forecasts,)


@app.cell
def evidence_courses(evidence, forecasts):
    # The forecasts for the run as it ran and for the chosen setting, beside what was measured.
    show(
        evidence.forecasts_and_outcomes.setup_curves(
            forecasts.value["chosen"] or evidence.forecasts_and_outcomes.widest_miss()
        )
    )
    return


@app.cell
def evidence_linked(choice, chosen_prompt, evidence, forecasts, kinds, setups):
    _opened = {"evidence-setup": setups.value["chosen"], "evidence-forecast": forecasts.value["chosen"]}
    _first = evidence.trained.first_setup(), evidence.forecasts_and_outcomes.widest_miss()
    _shown_first = dict(zip(_opened, _first, strict=True))
    evidence_link = evidence.sentences.link(choice, kinds.value["chosen"], chosen_prompt(), _opened, _shown_first)
    return (evidence_link,)


@app.cell
def evidence_sizes(choice, evidence, first, prompts, verdicts):
    # These folds go deeper; their content is computed once they are opened.
    show(
        html.fold(
            evidence.group_sizes.title(verdicts, choice),
            lambda: html.join(
                evidence.group_sizes.section(prompts.by_size(verdicts, choice), choice),
                evidence.group_sizes.curves_table(prompts.by_size(verdicts, choice)),
                evidence.order.weights_table(first),
            ),
        )
    )
    return


@app.cell
def evidence_folds(evidence):
    show(
        html.fold("Every forecast, and what was measured", evidence.forecasts_and_outcomes.results_table),
        html.fold("How fast does each reward follow a push?", evidence.forecasts_and_outcomes.speeds_section),
        html.fold(evidence.coins.title(), evidence.coins.coins),
        html.fold("What can so small an experiment not show?", evidence.coins.limits),
        html.fold(
            evidence.exact_counts.title(),
            lambda: html.join(evidence.exact_counts.section(), evidence.exact_counts.tables()),
        ),
        html.fold(evidence.paper.title(), evidence.paper.section),
    )
    return


@app.cell
def evidence_about(evidence, outcomes, verdicts):
    show(
        html.fold("What do the marks ask for?", evidence.about.readings),
        html.fold("Whose answers are these?", lambda: evidence.about.note_on_answers(verdicts)),
        html.div(
            "onward-row",
            evidence.about.onward_from_answers(),
            mo.download(
                lambda: evidence.squares.as_table(verdicts, outcomes).encode(),
                "prompts.csv",
                label="The squares as CSV",
            ),
        ),
    )
    return


@app.cell
def evidence_draws(choice, draws, evidence, verdicts):
    # What other draws of as many answers give. The cell stands last because it takes longest.
    spread = draws.shares_over_draws(DATA / "bfcl_rewards.parquet", choice)  # over 100 draws
    show(html.tag("p", evidence.sentences.draws_said(choice, len(verdicts.models), spread), kind="note"))
    return (spread,)


# --- Your run ---------------------------------------------------------------------------------------------------------


@app.cell
def run_claim(run_open):
    mo.stop(not run_open())
    from views.chapters import run

    # Look at the bars: does the update push the reward that matters most? Upload a log, or choose a sample.
    mo.md(run.choose.OPENING)
    return (run,)


@app.cell
def run_upload(run):
    # The reader chooses files of a run, or a sample, and how they are read.
    upload = run.choose.upload()
    return (upload,)


@app.cell
def run_area(log, run, upload):
    run.choose.area(upload, log)
    return


@app.cell
def run_sample(page, run, upload):
    sample = run.choose.sample(page, upload.value)
    sample
    return (sample,)


@app.cell
def run_corrections(page, run, sample):
    corrections = run.choose.corrections(page, sample.value)
    run.choose.corrections_fold(corrections)
    return (corrections,)


@app.cell
def run_log(corrections, run, sample, upload):
    # The files become a log, and the log becomes a report, which Use it gets as audited(). A stranger's file is read in
    # a process of its own, which has limits and may die.
    run.show.progress_note("Reading", [file.contents for file in upload.value])
    try:
        log = run.log.read_log(sample.value, upload.value, **corrections.value)
        _said = run.show.source_note(log)
    except gc.InputError as _error:
        log, _said = None, run.show.refusal_box(_error, corrections.value)
    _said
    return (log,)


@app.cell
def run_primary(log, page, run):
    primary = run.choose.primary(page, log)
    primary if log else None
    return (primary,)


@app.cell
def run_handover():
    # Use it follows the audited report, and must not depend on Your run being open, so the report is a state.
    audited, set_audited = mo.state(None)
    # The framework of the reader's own files, with which Use it then begins.
    own_framework, set_own_framework = mo.state("")

    def hand_over(report, log):
        set_audited(report)
        if report and not log.sample:
            set_own_framework(log.run.framework)

    return audited, hand_over, own_framework


@app.cell
def run_report(corrections, hand_over, log, primary, run, sample):
    report, _said = None, None
    try:
        if log:
            run.show.progress_note("Auditing", (log.files or {}).values())
            report = run.log.audit_log(log, primary.value, corrections.value["weights"])
            _said = run.show.report_front(report)
    except gc.InputError as _error:
        _said = run.show.refusal_box(_error, corrections.value)
    hand_over(report, log)
    run_link = run.choose.link(sample.value, corrections.value, primary.value, log, report)
    _said
    return report, run_link


@app.cell
def run_groups(report, run):
    # The groups that show each finding best, one of which is on the board, with the reader's own prompt and answers.
    shown_group = run.groups.group_choice(report)
    return (shown_group,)


@app.cell
def run_board(report, run, shown_group):
    own_board = (
        html.board_or_reason(lambda: run.groups.group_board(shown_group.value, report)) if shown_group.value else None
    )
    run.groups.group_view(report, shown_group, own_board)
    return (own_board,)


@app.cell
def run_try(page, shown_group, upload):
    show(page.deed("own", bool(upload.value and shown_group.value)))
    return


@app.cell
def run_more(log, report, run):
    mo.vstack([run.show.folds(report), run.show.downloads_line(log, report)]) if report else None
    return


# --- Use it -----------------------------------------------------------------------------------------------------------


@app.cell
def use_claim(use_open):
    mo.stop(not use_open())
    import gdpo_audit as ga
    from views.chapters import use

    # Answer three questions about your rewards, look at what training gave for such ones, then copy the lines or not.
    configuration = use.check.paste_area()
    mo.md(use.published_claims.CLAIMS_OPENING)
    return configuration, ga, use


@app.cell
def use_asked(judged, page, source, use):
    # The answers are preset from the Lab's rewards or those of the audited run.
    preset = use.questions.presets(judged, source.value == "run")
    asked = use.questions.question_controls(page, preset)
    return asked, preset


@app.cell
def use_verdict(advice, asked, judged, preset, source, use):
    answered = use.questions.written_as(asked.value), use.questions.written_as(preset)  # for the address
    use.questions.section(asked, judged, use.configure.SOURCES[source.value], advice, source.value == "run")
    return (answered,)


@app.cell
def use_choices(own_framework, page, use):
    # The Lab's state and a gate, or the audited run, become the lines of configuration of a trainer.
    trainer = use.configure.choice(page, "use-framework", "Trainer", use.configure.TRAINERS, own_framework())
    gate = use.configure.choice(page, "use-gate", "Gate", use.configure.GATES)
    source = use.configure.choice(page, "use-source", "Judge by", use.configure.SOURCES, own_framework() and "run")
    return gate, source, trainer


@app.cell
def use_controls(gate, source, trainer, use):
    # A gate can be chosen for the Lab's rewards alone.
    use.configure.trainer_controls(trainer, *[gate] * (source.value == "lab"), source)
    return


@app.cell
def use_judged(audited, gate, shown, source, use, use_open):
    # The rewards that are judged are those of the audited run, or the Lab's.
    mo.stop(not use_open())
    audited_run = audited() if source.value == "run" else None
    judged = audited_run if source.value == "run" else use.advise.report_of_lab(shown(), gate.value)
    return audited_run, judged


@app.cell
def use_lines(audited_run, gate, shown, trainer, use, use_open):
    mo.stop(not use_open())
    framework = use.configure.FRAMEWORKS[trainer.value]
    lines = use.configure.switch_lines(framework.id, shown(), gate.value, audited_run)
    use.configure.section(lines, framework, shown(), gate.value, audited_run)
    return framework, lines


@app.cell
def use_advice(ga, judged, shown, source, use, use_open):
    # The advice says what GDPO would change for these rewards, by the push; the verdict above goes by training first.
    mo.stop(not use_open())
    advice = ga.advise(judged) if judged else []
    use.advise.section(advice, judged, None if source.value == "run" else shown())
    return (advice,)


@app.cell
def use_try(page, source):
    show(page.deed("judge", source.value == "run"))
    return


@app.cell
def use_check(configuration, use, use_open):
    mo.stop(not use_open())
    use.check.section(configuration)
    return


@app.cell
def use_which(use, use_open):
    mo.stop(not use_open())
    use.which.section()
    return


@app.cell
def use_more(shown, use, use_open):
    mo.stop(not use_open())
    use.published_claims.claim_folds(shown())
    return


@app.cell
def use_linked(answered, gate, shown, source, trainer, use):
    use_link = use.configure.link(trainer.value, gate.value, source.value, answered, shown())
    return (use_link,)


# --- Plumbing ---------------------------------------------------------------------------------------------------------


@app.cell(hide_code=True)
def plumbing():
    mo.md("""
    ## Plumbing

    What holds the chapters together: the bar, the doors that let each compute once it is opened, and the address.
    """)
    return


@app.cell
def bar():
    # `page` holds the address; the cells that depend on the chapter read its value, `nav`.
    editing = mo.app_meta().mode != "run"
    page = Nav(mo.query_params().to_dict() if mo.app_meta().mode else {}, editing)
    nav = mo.ui.anywidget(page)
    nav
    return editing, nav, page


@app.cell
def doorways(page):
    # The cells of a chapter run once its door has been opened, or, in the editor, once it is scrolled to. They stay as
    # they are when the reader leaves: a condition on `nav` would make their controls anew at each return. In a script
    # all cells run.
    doors = {name: mo.state(mo.app_meta().request is None) for name in ("train", "evidence", "run", "use")}
    train_open, evidence_open, run_open, use_open = (is_open for is_open, _ in doors.values())
    # The scenario of Train that a link inside the page asks for.
    requested_scenario, ask_scenario = mo.state(page.restore("train-scenario"))
    return ask_scenario, doors, evidence_open, requested_scenario, run_open, train_open, use_open


@app.cell
def chapter(ask_scenario, doors, nav):
    at = nav.value["at"]
    if at in doors:
        _is_open, _open = doors[at]
        if not _is_open():
            _open(True)
    if nav.value["asked"].get("train-scenario"):
        ask_scenario(nav.value["asked"]["train-scenario"])
    return (at,)


# A chapter's link holds the values of its controls, the values that the address leaves out, and a program that prints
# the chapter's numbers.


@app.cell
def lab_address(board, page, task, tasks):
    page.write("lab", *answers.link(board, task, tasks[0]))
    page.headline = board.drawing["claim"]
    return


@app.cell
def train_address(page, train_link):
    page.write("train", *train_link)
    return


@app.cell
def evidence_address(evidence_link, page):
    page.write("evidence", *evidence_link)
    return


@app.cell
def run_address(page, run_link):
    page.write("run", *run_link)
    return


@app.cell
def use_address(page, use_link):
    page.write("use", *use_link)
    return


@app.cell
def lab_followed(all_conventions, at, board, publish, shown, touch):
    # The chapters that follow the Lab get the state that the board has when the reader leaves the Lab.
    _followed = at != "lab" or all_conventions.value
    if _followed and shown() != board.state:
        publish(board.state)
    if all_conventions.value:
        touch(board.active)
    return


@app.cell
def lab_deeds(board, did, do, task):
    if not answers.deeds(board, task) <= did():
        do(did() | answers.deeds(board, task))
    return


@app.cell(hide_code=True)
def footer():
    show(html.footer(ARXIV))
    return


if __name__ == "__main__":
    app.run()
