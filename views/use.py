"""Use it: the lines that make a trainer do what the Lab shows, and what to know about that trainer."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import marimo as mo

import gdpo_core as gc
from gdpo_core import config_lines, report
from gdpo_core._words import decimal, listing, number, percent, power_of_ten
from gdpo_core.bfcl import REWARDS
from gdpo_core.conventions import exceptions, formulas
from gdpo_core.frameworks import FRAMEWORKS, Framework
from views.html import Html, fold, framed, prose, show, tag
from views.link import Session
from views.state import State, methods

DATA = Path(__file__).resolve().parent.parent / "data"
SOURCES = {"lab": "the Lab's answers", "run": "the run of chapter 4"}
NO_GATE = "none"
TINY = 1e-4  # by which one of four answers differs, to show what an eps does to a small difference


# --- what the reader chooses -----------------------------------------------------------------------------------------


def opening() -> str:
    """Markdown: the claim and what the chapter holds."""
    return (
        "# A few lines switch it on. Your rewards say whether to\n\n"
        "The lines for your trainer, **for the pays and weights that the Lab shows now**, what this trainer does "
        "differently, and how to make sure that it ran. And what GDPO would change on these rewards, or on those of "
        "the run you audited: where it helps, changes nothing, or hurts."
    )


def choices(session: Session) -> mo.ui.dictionary:
    """The trainer, the gate, and whose rewards to judge by."""
    options = {
        "framework": ("Trainer", {f.title: f.id for f in FRAMEWORKS.values()}),
        "gate": ("Gate", {title: key for key, title in gates().items()}),
        "source": ("Judge by", {title: key for key, title in SOURCES.items()}),
    }
    elements = {key: _choice(session, f"use-{key}", label, of) for key, (label, of) in options.items()}
    element = mo.ui.dictionary(elements)
    for key, (_, of) in options.items():
        session.keep(f"use-{key}", lambda key=key: element.value[key], next(iter(of.values())))
    return element


def _choice(session: Session, key: str, label: str, options: dict[str, str]) -> mo.ui.dropdown:
    titles = {value: title for title, value in options.items()}
    first = next(iter(titles))
    brought = session.start(key, first)
    if brought not in titles:
        session.refuse(key, f"one of {', '.join(titles)}")
    return mo.ui.dropdown(options, value=titles.get(brought, titles[first]), label=label)


def gates() -> dict[str, str]:
    """Which rewards count only for right answers, by key."""
    first, *others = REWARDS
    one = {name: f"{name} only where {first} is passed" for name in others}
    return {NO_GATE: "none", **one, "all": f"{listing(others)} only where {first} is passed"}


def gated(gate: str) -> tuple[str, ...]:
    """The rewards behind a gate."""
    return REWARDS[1:] if gate == "all" else tuple(name for name in REWARDS[1:] if name == gate)


def asked(element: mo.ui.dictionary) -> mo.Html:
    """The controls in one line."""
    return show(framed("asked-use", *element.elements.values()))


# --- the lines -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lab:
    """What the Lab holds now: its state, and the lengths of its answers."""

    state: State
    lengths: tuple[int, ...]

    @classmethod
    def now(cls, session: Session) -> "Lab":
        """As the session has it."""
        state = session.lab.state
        return cls(state, tuple(map(len, session.lab.sheets[state.task]["answers"])))

    def rewards(self, gate: str) -> Any:
        """(answers, rewards) what each answer is paid behind the gate."""
        rewards = gc.explain(self.state.rewards).rewards
        for name in gated(gate):
            rewards = gc.condition(rewards, reward=REWARDS.index(name), on=0, threshold=self.state.pays[0])
        return rewards

    def explained(self, convention: gc.Convention, gate: str) -> gc.Explanation:
        """GDPO on these rewards."""
        given = {"weights": self.state.weights, "lengths": self.lengths, "convention": convention}
        return gc.explain(self.rewards(gate), "gdpo", **given)


def lines(framework: str, state: State, gate: str) -> str:
    """All lines of configuration for a state of the Lab."""
    pays = ", ".join(f"{name} 0 or {pay:g}" for name, pay in zip(REWARDS, state.pays, strict=True))
    parts = [f"# what the rewards pay: {pays}"]
    parts += [config_lines.gate(framework, REWARDS, name, REWARDS[0], state.pays[0]) for name in gated(gate)]
    parts.append(config_lines.switch_to_gdpo(framework, REWARDS, state.weights, len(state.marks)))
    return _own("\n".join(parts))


def log_lines(framework: str) -> str:
    """The lines that make the log hold what the audit needs."""
    return _own(config_lines.log_rewards(framework, REWARDS))


def _own(text: str) -> str:
    """Without the notes for axolotl beside TRL's lines: who uses it chooses it here."""
    return "\n".join(line for line in text.split("\n") if not line.startswith("# axolotl"))


def configuration(chosen: dict[str, str], session: Session) -> mo.Html:
    """The chosen trainer: its lines, its log, how to make sure, and what it does differently."""
    framework, gate, lab = FRAMEWORKS[chosen["framework"]], chosen["gate"], Lab.now(session)
    session.programs["use"] = lambda: program(framework, gate, lab)
    return show(
        report.STYLE,
        tag(
            "section",
            tag("h2", f"GDPO in {framework.title} ", tag("small", framework.version)),
            report.copied(lines(framework.id, lab.state, gate), f"GDPO in {framework.title}"),
            *(tag("p", prose(said)) for said in _about(lab, gate)),
            tag("h3", "Write a log that can be audited"),
            report.copied(log_lines(framework.id), "a log that can be audited"),
            tag("h3", "Make sure that it ran"),
            report.copied(f"gdpo audit {framework.log_place}", "the audit that makes sure"),
            tag("p", framework.proof),
            tag("h3", f"What {framework.title} does differently" if framework.id != "generic" else "What to know"),
            _points(differs(framework, gate, lab)),
            fold("Its last step, missing rewards, a group of one", _points(left_open(framework))),
            fold("Or keep GRPO and divide the scales out by weights", *_instead(framework, lab)),
            kind="audit use",
        ),
    )


def _points(said: Sequence[str]) -> Html:
    return tag("ul", *(tag("li", one) for one in said))


def _about(lab: Lab, gate: str) -> list[str]:
    """What the lines do with the Lab's pays, method and gate."""
    state, notes = lab.state, []
    if len(set(state.pays)) > 1:
        notes.append(
            "What a pass pays drops out under GDPO, which divides each reward by its own spread. What should count for "
            "more needs a larger **weight**."
        )
    if state.method != "gdpo":
        notes.append(f"No trainer here has {methods()[state.method]}, which the Lab shows; these lines are for GDPO.")
    if gated(gate):
        before, after = (
            gc.collapse(rewards, "gdpo", weights=state.weights).inversions(0)
            for rewards in (lab.rewards(NO_GATE), lab.rewards(gate))
        )
        notes.append(
            f"On the Lab's answers the gate takes the pairs in which a wrong answer stands above a right one from "
            f"**{percent(before)}** to **{percent(after)}**. It gives 0, the worst these rewards pay; a penalty would "
            "need its own worst value there."
        )
    return notes


def differs(framework: Framework, gate: str, lab: Lab) -> list[str]:
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
    error = (lab.explained(c, gate).advantages - lab.explained(gc.PAPER, gate).advantages).abs().max().item()
    if c != gc.PAPER:
        tokens = ", with a token per character," if c.last_step == "tokens" else ""
        notes.append(
            f"On the Lab's answers{tokens} its advantages are off the paper's formula by at most {number(error, 2)}."
        )
    return notes or ["Nothing: this library computes the paper's formula."]


def left_open(framework: Framework) -> tuple[str, ...]:
    """The trainer's last step, and what it does in the cases that the formulas leave open."""
    c = gc.CONVENTIONS[framework.convention]
    return formulas("gdpo", c, len(REWARDS))[-1], *exceptions(c)


def _tiny(c: gc.Convention) -> float:
    return gc.explain([[0.0, 0], [0, 1], [0, 0], [TINY, 1]], "gdpo", convention=c, lengths=[1] * 4).z[-1, 0].item()


def _instead(framework: Framework, lab: Lab) -> list[Html]:
    """GRPO with weights that undo the spreads."""
    e = lab.explained(gc.PAPER, NO_GATE)
    stds = [std.item() for std in e.group_stds]
    if not all(stds):
        constant = listing(name for name, std in zip(REWARDS, stds, strict=True) if not std)
        return [tag("p", f"All answers agree in {constant}, so there is no spread to divide by.")]
    weights = [float(f"{w / std:.4g}") for w, std in zip(lab.state.weights, stds, strict=True)]
    fit = "With these weights GRPO has GDPO's order in the Lab's group. They fit this group alone; GDPO fits each anew."
    configuration = _own(config_lines.set_weights(framework.id, REWARDS, weights, "grpo"))
    return [tag("p", fit), report.copied(configuration, "GRPO with these weights")]


def program(framework: Framework, gate: str, lab: Lab) -> str:
    """A program of at most 15 lines that prints this trainer's numbers on the Lab's marks."""
    c = framework.convention
    rows = [list(row) for row in lab.state.rewards]
    half = -(-len(rows) // 2)
    lengths = f", lengths={list(lab.lengths)}" if gc.CONVENTIONS[c].last_step == "tokens" else ""
    conditions = [
        f"rewards = gc.condition(rewards, reward={REWARDS.index(name)}, on=0, threshold={lab.state.pays[0]})"
        for name in gated(gate)
    ]
    body = [
        "import torch",
        "",
        "import gdpo_core as gc",
        "",
        f"rewards = torch.tensor({rows[:half]}".removesuffix("]") + ",",
        f"    {rows[half:]}".replace("[[", "[", 1) + ", dtype=torch.float64)",
        *conditions,
        f"weights = {list(lab.state.weights)}",
        f'e = gc.explain(rewards, "gdpo", weights=weights{lengths}, convention=gc.CONVENTIONS["{c}"])',
        "print(e.convention.name, e.batch_mean, e.batch_std)",
        "print([round(a, 4) for a in e.advantages.tolist()])",
        "paper = gc.gdpo(rewards, weights=weights)",
        'print("off the paper by", f"{(e.advantages - paper).abs().max().item():.2g}")',
    ]
    return "\n".join(body) + "\n"
