"""The lines of configuration that make a trainer use GDPO for what the Lab shows or for an audited run, and what is
known of that trainer.
"""

import json
from collections.abc import Iterable

import marimo as mo

import gdpo_core as gc
from gdpo_audit import report
from gdpo_audit.report.audit_report import AuditReport
from gdpo_core import config_lines
from gdpo_core.board.state import CHOSEN_METHODS, State
from gdpo_core.frameworks import FRAMEWORKS, WITHOUT_GDPO, Framework
from gdpo_core.shared.words import listing
from views.bfcl import REWARDS
from views.widgets.html import ROOT, Html, fold, join, points, prose, show, table, tag
from views.widgets.nav import Nav

_FIRST, *OTHERS = REWARDS
TRAINERS = {f.id: f.title for f in FRAMEWORKS.values()}
GATES = {  # which rewards count only for right answers
    "none": "none",
    **{name: f"{name} only where {_FIRST} is passed" for name in OTHERS},
    "all": f"{listing(OTHERS)} only where {_FIRST} is passed",
}
SOURCES = {"lab": "the Lab's answers", "run": "the run of chapter 4"}
NOTHING = "# every weight of the Lab is 0, so nothing would be learnt"
_OF_RUN = [f"Names, weights and group size are those of {SOURCES['run']}."]
UNTOUCHED = {"use-framework": next(iter(TRAINERS)), "use-gate": "none", "use-source": "lab"}

# The line that switches GDPO on, in the two trainers that most readers have; the lines below say what else is needed.
ONE_LINE = {"trl": 'multi_objective_aggregation="normalize_then_sum"', "verl": "algorithm.adv_estimator=gdpo"}
_FOLLOWS = "The lines below use the pay and the weights of **the Lab**, or those of **the run that you audited**."


def choice(page: Nav, key: str, label: str, titles: dict[str, str], of_run: str = "") -> mo.ui.dropdown:
    """Return a dropdown whose values are the keys of `titles`, each shown by its title.

    At first `of_run` is chosen, if it is one of these keys. Otherwise it is the key that the address of the page names
    or, if the address names none, the first key.

    page: holds the values of the address.
    key: the name of the control in the address.
    label: the label on the page.
    titles: the titles of the choices, by key.
    of_run: the choice that fits the reader's own run, "" for none.
    """
    linked = of_run if of_run in titles else page.restore(key, list(titles), next(iter(titles)))
    return mo.ui.dropdown({title: id for id, title in titles.items()}, value=titles[linked], label=label)


def link(
    trainer: str, gate: str, source: str, asked: tuple[str, str], lab: State
) -> tuple[dict[str, str], dict[str, str], str]:
    """Return a tuple of what `Nav.write` needs: the values of the chapter's controls, the values that the address
    leaves out, and a program.

    The first two are mappings by the control's key in the address. The program is Python and prints the trainer's
    advantages.

    trainer, gate, source: the chosen keys of TRAINERS, GATES and SOURCES.
    asked: the answers to the questions, and those that are preset, as they are written in the address.
    lab: the state of the Lab's board.
    """
    values = {"use-framework": trainer, "use-gate": gate, "use-source": source, "use-asked": asked[0]}
    return values, UNTOUCHED | {"use-asked": asked[1]}, trainer_program(FRAMEWORKS[trainer], lab, gate)


def trainer_controls(*chosen: mo.ui.dropdown) -> mo.Html:
    """Return the dropdowns in a row, below a heading and, for each of two trainers, the line that switches GDPO on."""
    row = mo.hstack(chosen, justify="start", gap=1, wrap=True)
    heading = tag("h2", "The lines for your trainer", kind="section")
    switches = (join(" ", tag("b", TRAINERS[key]), " ", tag("code", line)) for key, line in ONE_LINE.items())
    switched = tag("p", "This line names the method:", *switches, kind="one-line")
    return show(tag("div", heading, switched, kind="headline"), tag("p", prose(_FOLLOWS), kind="note"), row)


def gated_rewards(gate: str) -> tuple[str, ...]:
    """Return the names of the rewards that count only for right answers under a gate, a key of GATES."""
    return tuple(name for name in OTHERS if gate in (name, "all"))


def rewards(lab: State, gate: str) -> list[list[float]]:
    """Return the rewards of the Lab's answers, (answers, rewards), with a gate put before some of them.

    A reward behind the gate is 0 for each answer whose first reward is less than a pass pays.

    lab: the state of the Lab's board.
    gate: a key of GATES, which says which rewards are behind the gate.
    """
    paid = gc.explain(lab.rewards).rewards
    for name in gated_rewards(gate):
        paid = gc.condition(paid, reward=REWARDS.index(name), on=0, threshold=lab.pays[0])
    return paid.tolist()


def lengths(lab: State) -> list[int]:
    """Return the lengths of the Lab's answers in characters; 1 for each answer if they are not known."""
    return list(lab.lengths) or [1] * len(lab.marks)


def switch_lines(framework: str, lab: State, gate: str, run: AuditReport | None = None) -> str:
    """Return the lines of configuration that switch GDPO on, for the rewards of an audited run or, without a run, for
    the rewards of the Lab.

    The lines for the Lab begin with a comment on what its rewards pay. If every weight of the Lab is 0, the result is a
    single comment that says so.

    framework: the id of the trainer.
    lab: the state of the Lab's board.
    gate: a key of GATES, which counts for the Lab alone.
    run: the audited run, None for the Lab.
    """
    if run:
        weights, of_grpo = [run.run["weights_used"][name] for name in _names(run)], run.run["method"] != "gdpo"
        size = run.source["group_size"]
        return _without_axolotl(config_lines.switch_to_gdpo(framework, _names(run), weights, size, of_grpo=of_grpo))
    if not any(lab.weights):
        return NOTHING
    paid = [sorted(column) for column in zip(*lab.rewards, strict=True)]
    pay_in_words = [
        f"{values[0]:g} to {values[-1]:g}" if k in lab.numbers else f"0 or {lab.pays[k]:g}"
        for k, values in enumerate(paid)
    ]
    pays = ", ".join(f"{name} {pay}" for name, pay in zip(REWARDS, pay_in_words, strict=True))
    lines = [f"# what the rewards pay: {pays}"]
    lines += [config_lines.gate(framework, REWARDS, name, _FIRST, lab.pays[0]) for name in gated_rewards(gate)]
    size = len(lab.marks)
    switch = config_lines.switch_to_gdpo(framework, REWARDS, lab.weights, size, whole_batch=True)
    if switch != config_lines.switch_to_gdpo(framework, REWARDS, lab.weights):
        lines.append(f"# sizes set here are those of the Lab's one group of {size}: keep your own")
    lines.append(switch)
    return _without_axolotl("\n".join(lines))


def lines_without_std(framework: str, lab: State) -> str | None:
    """Return the lines for GRPO without std with the Lab's weights; None if none are known for this trainer."""
    text = config_lines.switch_to(framework, REWARDS, lab.weights, "grpo_no_std")
    return text and _without_axolotl(text)


def _names(run: AuditReport | None) -> list[str]:
    """Return the names of the rewards of a run; None stands for the Lab."""
    return [reward["name"] for reward in run.rewards] if run else list(REWARDS)


def _without_axolotl(text: str) -> str:
    """Return lines of configuration without the comments for axolotl, which stand in the lines for TRL. On this page
    axolotl has an entry of its own.
    """
    return "\n".join(line for line in text.split("\n") if not line.startswith("# axolotl"))


def section(lines: str, framework: Framework, lab: State, gate: str, run: AuditReport | None = None) -> mo.Html:
    """Return the section of a trainer: its lines, how to log and to make sure that GDPO ran, and what is known of the
    trainer.

    lines: the lines of configuration, as the function `lines` returns them.
    lab: the state of the Lab's board, which counts only without a run.
    gate: the gate chosen in this chapter, a key of GATES such as "none", which counts only without a run.
    run: the audited run for which the lines are, None if they are for the Lab.
    """
    log = _without_axolotl(config_lines.log_rewards(framework.id, _names(run)))
    return show(
        report.REPORT_STYLE,
        tag(
            "section",
            tag("h2", f"GDPO in {framework.title} ", tag("small", f"needs {_version(framework)}")),
            report.copy_box(lines, f"GDPO in {framework.title}"),
            _newer(framework),
            *(tag("p", prose(sentence)) for sentence in (_OF_RUN if run else _about(lab, gate))),
            *(_shown_method(framework, lab) if run is None else []),
            tag("h3", "To write a log that can be audited ", tag("small", "optional")),
            report.copy_box(log, "a log that can be audited"),
            tag("h3", "To make sure that GDPO ran ", tag("small", "optional")),
            report.copy_box(f"gdpo audit {framework.log_place}", "the audit that makes sure"),
            tag("p", framework.proof),
            tag("h3", "What to know"),
            *_known(framework),
            fold("While it trains", points(_while_it_trains(framework))),
            kind="audit use",
        ),
    )


def _shown_method(framework: Framework, lab: State) -> list[Html]:
    """Return this trainer's lines for the method that the Lab shows beside GRPO, or a sentence that none are known.

    The list is empty if that method is GDPO, whose lines are shown anyway.

    lab: the state of the Lab's board.
    """
    name = CHOSEN_METHODS[lab.method]
    if lab.method == "gdpo":
        return []
    if lab.method != "grpo_no_std":
        return [tag("p", f"No trainer in this menu has {name}, which the Lab shows; these lines are for GDPO.")]
    if not (text := lines_without_std(framework.id, lab)) or not any(lab.weights):
        return [tag("p", f"No line for {name}, which the Lab shows, is known of {framework.title}.")]
    heading = tag("h3", f"{name} in {framework.title} ", tag("small", "which the Lab shows"))
    return [heading, report.copy_box(text, f"{name} in {framework.title}")]


def _known(framework: Framework) -> list[Html]:
    """Return two folds: a table of what this trainer does on each case on which trainers differ, and a list of what is
    known of the trainer.

    The entry "generic" stands for all trainers without an entry. For it, the first fold has the same cases, for readers
    to try on code of their own. The second fold has what is known of trainers without an entry.
    """
    if framework.id == "generic":
        return [
            fold("Cases in which trainers differ, to try your own code on", _own_code()),
            fold(f"Trainers that are not in the menu, as read on {framework.read_on}", _read(framework.facts)),
        ]
    names = [gc.CONVENTIONS[key].name for key in (framework.convention, *framework.conventions)]
    known = f"What is known of {framework.title}, whose code was read on {framework.read_on}"
    title = f"What {framework.title} does where trainers differ"
    return [fold(title, _cases(names)), fold(known, _read(framework.facts))]


def _own_code() -> Html:
    """Return the command that tries a reader's own function on the cases of conformance/, and a table of what the
    paper's formula gives on each.
    """
    command = report.copy_box("python conformance/check.py MODULE:FUNCTION", "the check of your own function")
    return join(command, _cases(["paper"]))


def _read(facts: Iterable[tuple[str, str]]) -> Html:
    """Return a list of what is known of trainers, each sentence with the place where it was read, such as a line of the
    trainer's code.

    facts: pairs of the sentence and that place.
    """
    return tag("ul", *(tag("li", says, " ", tag("small", f"Read in {read_in}.")) for says, read_in in facts))


def _cases(trainers: Iterable[str] = ()) -> Html:
    """Return a table with a row per case of conformance/: the fault that it finds, what the paper's formula gives, and
    what trainers give.

    “=” stands where a trainer gives what the paper's formula gives.

    trainers: the titles of the trainers to show; by default all trainers are shown. Pass ["paper"], which is no
        trainer's title, for a table with the column of the paper's formula alone.
    """
    stored = json.loads((ROOT / "data" / "matrix.json").read_text(encoding="utf-8"))
    paper, *trainers_read = stored["trainers"]
    shown = [trainer for trainer in trainers_read if trainer["title"] in trainers or not trainers]
    faults = stored["finds"]
    rows = (
        [
            join(case, tag("small", f": {faults[case]}", kind="note")),
            says,
            *("=" if trainer["cells"][case] == says else trainer["cells"][case] for trainer in shown),
        ]
        for case, says in paper["cells"].items()
    )
    head = [
        "test case, and the fault that it reveals",
        "expected result",
        *(f"{trainer['title']} ({trainer['how']})" for trainer in shown),
    ]
    matrix = table(head, rows, "matrix", f"The table was made on {stored['made']}. “=” stands for the expected result.")
    return tag("div", matrix, kind="framed", tabindex=0, role="region", aria_label=f"cases of {len(shown)} trainers")


def all_cases() -> Html:
    """Return a list of the trainers without GDPO, with what they do instead, and below it the table of `_cases`.

    The table has a row per case of conformance/ and says what each trainer gives in it.
    """
    without = [
        (f"{title}: {record.says}", f"{record.read_in}, on {record.read_on}") for title, record in WITHOUT_GDPO.items()
    ]
    return join(tag("p", "The cases are those of conformance/. Trainers without GDPO:"), _read(without), _cases())


def _while_it_trains(framework: Framework) -> list[str]:
    """Return sentences on what to watch while this trainer trains with GDPO, whatever its configuration says."""
    sentences = [
        "GDPO's batch step divides by a standard deviation over the whole batch. Groups in which every advantage is 0, "
        "which are called silent, make this std small and so make the other advantages large. Adam cancels a factor "
        "that stays the same during training, but not one that changes: watch how many groups are silent, and when."
    ]
    if metric := framework.zero_std_metric:
        blind = (
            f"Under GDPO the metric {metric} of {framework.title} does not show that one reward has become constant, "
            "because under this method the metric is computed over the whole batch."
            if framework.zero_std_over_batch
            else f"The metric {metric} of {framework.title} does not show that one reward has become constant, because "
            "the metric is computed from the sum of the rewards."
        )
        sentences.append(f"{blind} For each reward, record in how many groups it is constant.")
    if option := framework.filter_option:
        sentences.append(
            f"{option} drops groups whose summed reward is constant. With two rewards of equal weight this loses "
            "nothing, because GDPO gives such a group only zeros. With three rewards or more, or with unequal weights, "
            "GDPO can learn from it, so leave this option off there."
        )
    return sentences


def _version(framework: Framework) -> str:
    """Return a trainer's title with its versions that have GDPO. For a trainer without GDPO, return words for what
    computes GDPO in its place.
    """
    first = framework.version.partition(";")[0]
    return f"{framework.title} {first}" if framework.read_in else first


def _newer(framework: Framework) -> Html | str:
    """Return a note on what needs a newer version of this trainer than GDPO does; empty if nothing does."""
    _, _, more = framework.version.partition("; ")
    return more and tag("p", f"{more[:1].upper()}{more[1:]}.", kind="note")


def _about(lab: State, gate: str) -> list[str]:
    """Return sentences on the Lab: what its pays do under GDPO, if they differ, and what the gate does, if there is
    one.

    gate: a key of GATES.
    """
    notes = []
    if len(set(lab.pays)) > 1:
        notes.append(
            "Pay drops out under GDPO, which divides each reward by its own std. A reward that should count for "
            "more needs a larger **weight**."
        )
    if gated_rewards(gate):
        worst = ("more than " if min(map(min, lab.rewards)) < 0 else "") + "the worst these rewards pay"
        notes.append(f"The gate gives 0, {worst}; a penalty would need its own worst value there.")
    return notes


def trainer_program(framework: Framework, lab: State, gate: str) -> str:
    """Return a Python program of at most 15 lines. It prints this trainer's advantages of the Lab's answers, and how
    far they are from the advantages of the paper's formulas.

    lab: the state of the Lab's board, with its answers' marks and the weights.
    gate: a key of GATES.
    """
    c, half = framework.convention, -(-len(lab.marks) // 2)
    tokens = f", lengths={lengths(lab)}" if gc.CONVENTIONS[c].last_step == "tokens" else ""
    first, second = str(lab.rewards[:half])[:-1], str(lab.rewards[half:])[1:]
    conditions = "".join(
        f"\nrewards = gc.condition(rewards, reward={REWARDS.index(name)}, on=0, threshold={lab.pays[0]})"
        for name in gated_rewards(gate)
    )
    return f'''import torch

import gdpo_core as gc

rewards = torch.tensor({first},
    {second}, dtype=torch.float64){conditions}
weights = {list(lab.weights)}
e = gc.explain(rewards, "gdpo", weights=weights{tokens}, convention=gc.CONVENTIONS["{c}"])
print(e.convention.name, e.batch_mean, e.batch_std)
print([round(a, 4) for a in e.advantages.tolist()])
paper = gc.gdpo(rewards, weights=weights)
print("off the paper by", f"{{(e.advantages - paper).abs().max().item():.2g}}")
'''
