"""Sentences and tables of a report on responses and prompts that taught nothing, and on the length of the responses."""

from gdpo_audit.json_types import PromptsPart
from gdpo_audit.report.audit_report import AuditReport
from gdpo_audit.report.meanings import SILENT_EXPLAINED
from gdpo_audit.report.summary import shown_method
from gdpo_audit.report.tables import TextTable
from gdpo_core.shared.words import MISSING, count, listing, number, one_line, percent, signed


def taught(report: AuditReport) -> list[str]:
    """Return sentences about what a run taught, each only if the report knows its numbers.

    The first says how many responses taught nothing, because every advantage in their group is 0. The second says for
    how many prompts this holds in all of their groups. It is left out if there is no such prompt, or if no prompt came
    more than once. The third says how the mean length of the responses changes over the run, and how lengths correlate
    with at most three rewards.
    """
    sentences, responses, prompts = [], report.run["silent_responses"], report.prompts
    if responses:
        sentences.append(_silent_responses(report, responses))
    if prompts and prompts["silent"] and prompts["repeated"]:  # else each prompt is a group, which is told already
        sentences.append(_silent_prompts(prompts))
    if lengths := report.lengths:
        first, last = (number(lengths[end], 3) for end in ("first_quarter", "last_quarter"))
        known = [(name, x) for name, x in lengths["correlations"].items() if x is not None]
        by_size = sorted(known, key=lambda pair: -abs(pair[1]))
        in_words = listing(f"{signed(x)} with {name}" for name, x in by_size[:3])
        inside = f" Inside groups, the length of a response has a correlation of {in_words}." if known else ""
        first, ends = f"{first} {lengths['unit']}", ("in the first quarter of the run", "in the last")
        if report.source["steps"] < 4:  # then a quarter is no whole step
            ends = "at the start of the run", "at its end"
        goes = f"goes from {first} {ends[0]} to {last} {ends[1]}"
        if first == f"{last} {lengths['unit']}":
            same = f", {ends[0]} as well as {ends[1]}" if report.source["steps"] > 1 else ""
            goes = f"is {first}{same}"
        sentences.append(f"The mean length of the responses {goes}.{inside}")
    return sentences


def _silent_responses(report: AuditReport, responses: int) -> str:
    """Return the sentence that says how many responses taught nothing because every advantage in their group is 0.

    If they are all of one group, the sentence says that too.

    responses: how many did so, at least 1.
    """
    method, share = shown_method(report)[0], percent(responses / report.source["responses"])
    silent = report.methods[method]["silent_groups"] if method else None
    many = round((silent or 0) * report.source["groups"])
    of_one, groups = "", "its group" if responses == 1 else "their groups"
    if many == 1 and responses > 1:
        of_one, groups = ", all of one group,", "that group"
    residue = report.run.get("but_residue", "")
    return (
        f"{count(responses, 'response')} ({share}){of_one} taught nothing: every advantage in {groups} is 0{residue}."
    )


def _silent_prompts(prompts: PromptsPart) -> str:
    """Return the sentence that says how many prompts had only silent groups, in which every advantage is 0.

    If these are not all prompts, the sentence also says how many of the prompts that came more than once are among
    them.
    """
    silent, every, repeated = prompts["silent"], prompts["prompts"], prompts["repeated"]
    which = f"{count(silent)} of {count(every, 'prompt')}"
    if silent == every:
        which = "the only prompt" if every == 1 else "both prompts" if every == 2 else f"all {count(every)} prompts"
    again = f"; this holds for {count(prompts['silent_repeated'])} of the {count(repeated)} that came more than once"
    if repeated == 1:
        again = f"; the only prompt that came more than once is {'not ' * (not prompts['silent_repeated'])}among these"
    return f"For {which}, every group had only advantages of 0{again * (silent < every)}."


def prompts_table(report: AuditReport) -> TextTable | None:
    """Return a table of the prompts with the most responses in groups in which every advantage is 0; None where there
    is no such group, or where prompts are not known.
    """
    if not report.prompts or not report.prompts["worst"]:
        return None
    rows = [
        [one_line(p["prompt"] or MISSING), f"{p['silent_visits']} of {p['visits']}", count(p["silent_responses"])]
        for p in report.prompts["worst"]
    ]
    on_screen = 3 if report.prompts["repeated"] else 0
    head = ["prompt", "silent groups", "responses in them"]
    note = "" if report.plan else SILENT_EXPLAINED  # the plan, which stands first, says it too
    return TextTable("Prompts that wasted most responses", head, rows, note, on_screen=on_screen)
