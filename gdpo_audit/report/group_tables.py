"""Tables of the groups that show a finding best, one for each group, for the terminal and for HTML."""

from gdpo_audit.findings.examples import MOST_EXAMPLES, PUNISHED, ExampleGroup
from gdpo_audit.findings.finding import Finding
from gdpo_audit.report.audit_report import AuditReport
from gdpo_audit.report.summary import wanted
from gdpo_audit.report.tables import TextTable
from gdpo_core.conventions import NAMES
from gdpo_core.shared.words import clip, count, number, one_line, percent, signed

_MANY, _ROWS = 16, 64  # the number of answers above which equal ones share a row, and the most rows of a table
MARKS = "●▲■◆★✚"  # the answers of one tie share a mark
PUNISHED_TITLE = "Groups with the most responses better than the group’s mean that get an advantage of 0 or less"
GROUPS_EXPLAINED = (
    "The column of a method holds the advantages that the method gives this group by itself, with the weights and the "
    f"convention of the run. Responses that share a sign ({' '.join(MARKS[:3])}) have different rewards "
    "but the same advantage."
)


def group_tables(
    report: AuditReport, finding: Finding, most: int = MOST_EXAMPLES, clipped: int = 60
) -> list[TextTable]:
    """Return tables of the groups that show a finding best, one for each group, at most `most`.

    Empty where no group shows the finding. If several findings have one id, only the first of them has tables.

    clipped: the most characters of an answer; a prompt may have three times as many.
    """
    first = next(earlier for earlier in report.findings if earlier.id == finding.id)
    return _tables(report, finding.id, most, clipped) if finding is first else []


def punished_tables(report: AuditReport, most: int = 1, clipped: int = 60) -> list[TextTable]:
    """Return tables of the groups with the most punished answers, which are better than the group's mean of a reward
    and yet get an advantage of 0 or less.

    The reward is the primary one, or else the first.

    most: the largest number of tables.
    clipped: the most characters of an answer; a prompt may have three times as many.
    """
    return _tables(report, PUNISHED, most, clipped)


def _tables(report: AuditReport, finding: str, most: int, clipped: int) -> list[TextTable]:
    """Return tables of the first groups that a report holds for a finding.

    finding: the id of the finding.
    most: the largest number of tables.
    clipped: the most characters of an answer; a prompt may have three times as many.
    """
    groups = [group for group in report.groups if group.finding == finding]
    return [group_table(report, group, clipped) for group in groups[:most]]


def group_table(report: AuditReport, group: ExampleGroup, clipped: int = 60) -> TextTable:
    """Return a table of one group with a row for each answer: its rewards, and its advantages.

    The advantages are the logged one, if there is one, and the ones that GRPO, GDPO and the run's method give this
    group by itself. In a group of more than _MANY answers, answers with the same rewards and logged advantage share a
    row. After _ROWS rows, one row says how many are left out.

    clipped: the most characters of an answer; a prompt may have three times as many.
    """
    methods = list(dict.fromkeys(["grpo", "gdpo", group.method]))
    head = ["response", *map(one_line, group.names), *["logged"] * bool(group.logged), *(NAMES[m] for m in methods)]
    answers: dict[object, list[int]] = {}
    for i, rewards in enumerate(group.rewards):
        key = str((rewards, group.logged and group.logged[i])) if len(group.rewards) > _MANY else i
        answers.setdefault(key, []).append(i)
    columns = [_advantages(group, method) for method in methods]
    rows = []
    for i, *more in list(answers.values())[:_ROWS]:
        text = group.completions[i] if group.completions else None
        name = f"response {i + 1}" if text is None else clip(one_line(text.strip()), clipped) or "(empty)"
        cells = [name + f" × {len(more) + 1}" * bool(more), *map(number, group.rewards[i])]
        rows.append([*cells, *([signed(group.logged[i])] if group.logged else []), *(cells[i] for cells in columns)])
    if len(answers) > _ROWS:
        rows.append([f"… and {count(len(answers) - _ROWS, 'other')}", *[""] * (len(head) - 1)])
    prompt = "" if group.prompt is None else f"Prompt: {clip(one_line(group.prompt), 3 * clipped)}"
    return TextTable(group_title(report, group), head, rows, prompt)


def _advantages(group: ExampleGroup, method: str) -> list[str]:
    """Return the advantage of each answer in this group alone under a method, as text.

    Answers that a method ties, though their rewards differ, have the same mark behind their advantage.
    """
    ties = [MARKS[tie % len(MARKS)] if tie is not None else "" for tie in group.ties(method)]
    return [f"{signed(a)}{tie}" for a, tie in zip(group.advantages_under(method), ties, strict=True)]


def group_title(report: AuditReport, group: ExampleGroup) -> str:
    """Return the title of a group: its step, its number, and what it shows."""
    return f"Step {group.step}, group {group.group}: {_shows(report, group)}"


def _shows(report: AuditReport, group: ExampleGroup) -> str:
    """Return in words what a group shows of its finding, such as the number of its tied pairs."""
    if group.finding == "reward-dominates":
        return f"{one_line(group.reward)} accounts for {percent(group.score)} of the group's update"
    if group.finding == PUNISHED:
        side = "below" if wanted(report).get(str(group.reward), 0) < 0 else "above"
        responses = f"{count(group.score, 'response')} {side} the mean of {one_line(group.reward)}"
        return f"{responses} {'gets' if group.score == 1 else 'get'} an advantage of 0 or less"
    if group.finding == "advantage-impossible":
        return f"a logged advantage of size {number(group.score)}"
    pairs = count(group.score, "pair")
    if group.finding == "priority-inversion":
        primary = one_line(report.run["primary"])
        worse = "higher" if wanted(report).get(str(report.run["primary"]), 0) < 0 else "lower"
        return f"{pairs} in which the response that scores {worse} on {primary} gets the larger advantage"
    pairs += " with different rewards"
    if group.finding == "ties-hide-signal":
        return f"{pairs} but the same advantage"
    return f"every advantage is 0, in spite of {pairs}" if group.score else "every advantage is 0"
