"""The check of a configuration that the reader pastes: what it will run, and its traps."""

import marimo as mo

from gdpo_audit import report
from gdpo_core.checking.check import ConfigCheck, check_config
from gdpo_core.checking.traps import FoundTrap
from gdpo_core.shared.errors import InputError
from gdpo_core.shared.markup import Html, tag
from views.server.worker import call
from views.widgets.html import join, show

PASTED = "pasted"  # the name that the check gives the pasted text, as if it were a file
_LONGEST = 50_000  # characters; verl's whole configuration has forty thousand
_ABOUT = (
    "Paste a configuration of TRL, verl, ms-swift, NeMo-RL or axolotl: a command, a script, YAML, JSON, or "
    "the Python that makes it. It is read, never run, and not kept in the address of the page. In a "
    "terminal, gdpo check reads several files."
)
LIKE = 'algorithm.adv_estimator=gdpo +algorithm.gdpo_reward_keys=\'["accuracy","format"]\' …'


def paste_area() -> mo.ui.text_area:
    """Return the text area for a configuration."""
    label = "Your configuration"
    return mo.ui.text_area(placeholder=LIKE, label=label, rows=4, max_length=_LONGEST, full_width=True)


def section(configuration: mo.ui.text_area) -> mo.Html:
    """Return the section on a pasted configuration: what to paste, the text area, and what the configuration in it will
    run.
    """
    heading = tag("h2", "Check a configuration before it runs", kind="section")
    return show(heading, tag("p", _ABOUT, kind="note"), configuration, answer(configuration.value))


def answer(text: str) -> Html:
    """Return what the configuration `text` will run, with its traps, or why that cannot be told; empty for an empty
    text.

    The text is read in another process.
    """
    if not text.strip():
        return Html()
    try:
        told = _told(call(check_config, {PASTED: text}))
    except InputError as error:
        told = tag("p", str(error), role="alert")
    return join(report.REPORT_STYLE, tag("section", told, kind="audit use checked"))


def _told(check: ConfigCheck) -> Html:
    """Return the result of a check of a configuration as HTML.

    It has a sentence on what runs, the errors, the facts of the configuration, the lines with which the run writes a
    log that can be audited, and the other traps that the configuration holds. If it holds no known trap, a sentence
    says so.
    """
    facts = (tag("p", tag("b", name), " ", says) for name, says in check.facts.items())
    wanted = [tag("p", "These lines make a log that can be audited:")] if check.lines else []
    lines = (report.copy_box(line, "a log that can be audited") for line in check.lines)
    none = [] if check.traps else [tag("p", tag("b", check.looked))]
    first = tag("p", tag("b", check.headline))
    asked = [tag("h3", "What the configuration asks for")] * bool(check.errors)
    return join(first, *map(_trap, check.errors), *asked, *facts, *wanted, *lines, *none, *map(_trap, check.milder))


def _trap(trap: FoundTrap) -> Html:
    """Return a trap as HTML. It has the trap's severity, id and place in the configuration, what happens, and the line
    to write instead. Its last line says where in the trainer's code or documents this was read.
    """
    where = f" {trap.place.removeprefix(PASTED).replace(':', 'line ', 1)}" * bool(trap.place)
    title = tag("h3", f"{trap.severity}: {trap.id} ", tag("small", where))
    read = tag("p", f"Read in {trap.read_in}.", kind="note")
    return join(title, tag("p", trap.says), report.copy_box(trap.line, f"what mends {trap.id}"), read)
