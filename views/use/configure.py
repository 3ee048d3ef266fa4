"""The lines that make a trainer do what the Lab shows, and what to know about that trainer."""

from collections.abc import Sequence

import marimo as mo

import gdpo_core as gc
from gdpo_core import config_lines, report
from gdpo_core._words import decimal, listing, number, percent, power_of_ten
from gdpo_core.bfcl import REWARDS
from gdpo_core.board.state import METHODS, State
from gdpo_core.conventions import exceptions, formulas
from gdpo_core.frameworks import FRAMEWORKS, Framework
from views.html import Html, fold, prose, show, tag
from views.nav import Nav

TINY = 1e-4  # by which one of four answers differs, to show what an eps does to a small difference
FIRST, *OTHERS = REWARDS
TRAINERS = {f.id: f.title for f in FRAMEWORKS.values()}
GATES = {  # which rewards count only for right answers
    "none": "none",
    **{name: f"{name} only where {FIRST} is passed" for name in OTHERS},
    "all": f"{listing(OTHERS)} only where {FIRST} is passed",
}
SOURCES = {"lab": "the Lab's answers", "run": "the run of chapter 4"}
UNTOUCHED = {"use-framework": next(iter(TRAINERS)), "use-gate": "none", "use-source": "lab"}

OPENING = """# A few lines switch it on. Your rewards say whether to

The lines for your trainer, **for the pays and weights that the Lab shows now**, what this trainer does differently, \
and how to make sure that it ran. And what GDPO would change on these rewards, or on those of the run you audited: \
where it helps, changes nothing, or hurts."""


def choice(page: Nav, key: str, label: str, titles: dict[str, str]) -> mo.ui.dropdown:
    """A choice by titles, the first by default; the address may bring another."""
    brought = page.given(key, list(titles), next(iter(titles)))
    return mo.ui.dropdown({title: id for id, title in titles.items()}, value=titles[brought], label=label)


def gated(gate: str) -> tuple[str, ...]:
    """The rewards behind a gate."""
    return tuple(name for name in OTHERS if gate in (name, "all"))


def rewards(lab: State, gate: str) -> list[list[float]]:
    """(answers, rewards) what each answer of the Lab is paid behind the gate."""
    paid = gc.explain(lab.rewards).rewards
    for name in gated(gate):
        paid = gc.condition(paid, reward=REWARDS.index(name), on=0, threshold=lab.pays[0])
    return paid.tolist()


def explained(lab: State, gate: str, convention: gc.Convention) -> gc.Explanation:
    """GDPO on the Lab's rewards behind the gate."""
    given = {"weights": lab.weights, "lengths": lengths(lab), "convention": convention}
    return gc.explain(rewards(lab, gate), "gdpo", **given)


def lengths(lab: State) -> list[int]:
    """What a convention that weighs tokens counts: characters of the answers, or one where they are not known."""
    return list(lab.lengths) or [1] * len(lab.marks)


def lines(framework: str, lab: State, gate: str) -> str:
    """All lines of configuration for what the Lab shows."""
    pays = ", ".join(f"{name} 0 or {pay:g}" for name, pay in zip(REWARDS, lab.pays, strict=True))
    parts = [f"# what the rewards pay: {pays}"]
    parts += [config_lines.gate(framework, REWARDS, name, FIRST, lab.pays[0]) for name in gated(gate)]
    parts.append(config_lines.switch_to_gdpo(framework, REWARDS, lab.weights, len(lab.marks)))
    return _own("\n".join(parts))


def _own(text: str) -> str:
    """Without the notes for axolotl beside TRL's lines: who uses it chooses it here."""
    return "\n".join(line for line in text.split("\n") if not line.startswith("# axolotl"))


def section(lines: str, framework: Framework, lab: State, gate: str) -> mo.Html:
    """The lines, all that is needed; then what makes sure of them, and what this trainer does differently."""
    log = _own(config_lines.log_rewards(framework.id, REWARDS))
    title = f"What {framework.title} does differently" if framework.id != "generic" else "What to know"
    return show(
        report.STYLE,
        tag(
            "section",
            tag("h2", f"GDPO in {framework.title} ", tag("small", f"all that is needed; {framework.version}")),
            report.copied(lines, f"GDPO in {framework.title}"),
            *(tag("p", prose(said)) for said in _about(lab, gate)),
            tag("h3", "Write a log that can be audited ", tag("small", "extra")),
            report.copied(log, "a log that can be audited"),
            tag("h3", "Make sure that it ran ", tag("small", "extra")),
            report.copied(f"gdpo audit {framework.log_place}", "the audit that makes sure"),
            tag("p", framework.proof),
            tag("h3", title),
            _points(differs(framework, lab, gate)),
            fold("Its last step, missing rewards, a group of one", _points(left_open(framework))),
            fold("Or keep GRPO and divide the scales out by weights", *instead(framework, lab)),
            kind="audit use",
        ),
    )


def _points(said: Sequence[str]) -> Html:
    return tag("ul", *(tag("li", one) for one in said))


def _about(lab: State, gate: str) -> list[str]:
    """What the lines do with the Lab's pays, method and gate."""
    notes = []
    if len(set(lab.pays)) > 1:
        notes.append(
            "What a pass pays drops out under GDPO, which divides each reward by its own spread. What should count for "
            "more needs a larger **weight**."
        )
    if lab.method != "gdpo":
        notes.append(f"No trainer here has {METHODS[lab.method]}, which the Lab shows; these lines are for GDPO.")
    if gated(gate):
        before, after = (
            gc.collapse(rewards(lab, behind), "gdpo", weights=lab.weights).inversions(0) for behind in ("none", gate)
        )
        notes.append(
            f"On the Lab's answers the gate takes the pairs in which a wrong answer stands above a right one from "
            f"**{percent(before)}** to **{percent(after)}**. It gives 0, the worst these rewards pay; a penalty would "
            "need its own worst value there."
        )
    return notes


def differs(framework: Framework, lab: State, gate: str) -> list[str]:
    """What the trainer does with what the formulas leave open, measured on the Lab's answers."""
    c = gc.CONVENTIONS[framework.convention]
    notes = list(framework.notes)
    if c.group_eps:
        here, formula = decimal(_tiny(c), 2), decimal(_tiny(gc.PAPER), 2)
        as_said = "as by the formula" if here == formula else f"not {formula} as by the formula"
        notes.append(
            f"It adds {power_of_ten(c.group_eps)} to each standard deviation: a reward that differs by "
            f"{power_of_ten(TINY)} in one of four answers becomes {here}, {as_said}."
        )
    error = (explained(lab, gate, c).advantages - explained(lab, gate, gc.PAPER).advantages).abs().max().item()
    if c != gc.PAPER:
        tokens = ", with a token per character," if c.last_step == "tokens" else ""
        notes.append(
            f"On the Lab's answers{tokens} its advantages are off the paper's formula by at most {number(error, 2)}."
        )
    return notes or ["Nothing: this library computes the paper's formula."]


def _tiny(c: gc.Convention) -> float:
    return gc.explain([[0.0, 0], [0, 1], [0, 0], [TINY, 1]], "gdpo", convention=c, lengths=[1] * 4).z[-1, 0].item()


def left_open(framework: Framework) -> tuple[str, ...]:
    """The trainer's last step, and what it does in the cases that the formulas leave open."""
    c = gc.CONVENTIONS[framework.convention]
    return formulas("gdpo", c, len(REWARDS))[-1], *exceptions(c)


def instead(framework: Framework, lab: State) -> list[Html]:
    """GRPO with weights that undo the spreads."""
    stds = [std.item() for std in explained(lab, "none", gc.PAPER).group_stds]
    if not all(stds):
        constant = listing(name for name, std in zip(REWARDS, stds, strict=True) if not std)
        return [tag("p", f"All answers agree in {constant}, so there is no spread to divide by.")]
    weights = [float(f"{w / std:.4g}") for w, std in zip(lab.weights, stds, strict=True)]
    fit = "With these weights GRPO has GDPO's order in the Lab's group. They fit this group alone; GDPO fits each anew."
    configuration = _own(config_lines.set_weights(framework.id, REWARDS, weights, "grpo"))
    return [tag("p", fit), report.copied(configuration, "GRPO with these weights")]


def program(framework: Framework, lab: State, gate: str) -> str:
    """A program of at most 15 lines that prints this trainer's numbers on the Lab's marks."""
    c = framework.convention
    half = -(-len(lab.marks) // 2)
    tokens = f", lengths={lengths(lab)}" if gc.CONVENTIONS[c].last_step == "tokens" else ""
    body = [
        "import torch",
        "",
        "import gdpo_core as gc",
        "",
        f"rewards = torch.tensor({lab.rewards[:half]}".removesuffix("]") + ",",
        f"    {lab.rewards[half:]}".replace("[[", "[", 1) + ", dtype=torch.float64)",
        *(
            f"rewards = gc.condition(rewards, reward={REWARDS.index(name)}, on=0, threshold={lab.pays[0]})"
            for name in gated(gate)
        ),
        f"weights = {list(lab.weights)}",
        f'e = gc.explain(rewards, "gdpo", weights=weights{tokens}, convention=gc.CONVENTIONS["{c}"])',
        "print(e.convention.name, e.batch_mean, e.batch_std)",
        "print([round(a, 4) for a in e.advantages.tolist()])",
        "paper = gc.gdpo(rewards, weights=weights)",
        'print("off the paper by", f"{(e.advantages - paper).abs().max().item():.2g}")',
    ]
    return "\n".join(body) + "\n"
