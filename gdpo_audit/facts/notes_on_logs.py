"""Notes on what reading found in a log, one function for each kind of issue that nobody has to act on."""

from collections.abc import Callable, Mapping
from shlex import quote
from typing import Any

from gdpo_audit.phrases import MOST_GROUPS, at_steps, bounds_in_words, does_or_do, is_or_are, some, was_or_were
from gdpo_core.shared.words import clip, count, listing, number, percent

# Why a column was taken for the number of the step, where that was seen before any advantage was.
STEPS_BY = {
    "name": "it is called so, and groups are whole in each of its steps",
    "numbers": "it rises by one distance, and several whole groups share each of its numbers",
}


def _files_left_out(details: Mapping[str, Any]) -> str:
    """Return a note on files, or parts of them, that were not read, whose names are `files` in the details."""
    return f"The following was not read: {some(details['files'])}."


def _eval_logged(details: Mapping[str, Any]) -> str:
    """Return a note on tables of evaluations, whose steps are `eval_steps` in the details."""
    steps = details["eval_steps"]
    tables = f"{count(len(steps), 'table')} ({at_steps(steps)}) {was_or_were(len(steps))} left out, because"
    return f"{tables} {'it holds an evaluation' if len(steps) == 1 else 'they hold evaluations'}."


def _group_size_changes(details: Mapping[str, Any]) -> str:
    """Return a note on the sizes of groups, which change; `sizes` and `from_steps` in the details go together."""
    first, *later = zip(details["sizes"], details["from_steps"], strict=True)
    sizes = [f"{first[0]} responses at first", *(f"{n} from step {step} on" for n, step in later)]
    return f"Groups hold {some(sizes)}."


def _total_by_step(details: Mapping[str, Any]) -> str:
    """Return a note on a total whose weights change; the details have the `total` and its `rewards`."""
    sums = f"In each step {details['total']} is a weighted sum of {some(details['rewards'])}"
    return f"{sums}. The weights change between steps, and where one set of weights is named, it is the last one."


def _steps_found(details: Mapping[str, Any]) -> str:
    """Return a note on a `column` that was taken for the number of the step, by a key of `STEPS_BY` or by a total."""
    why = STEPS_BY.get(details.get("by", ""), "the logged advantages are reproduced in the steps that it numbers")
    if total := details.get("total"):
        why = f"{total} is a weighted sum in each of the steps that it numbers"
    return f"The column {details['column']} was taken for the number of the step, because {why}."


def _advantage_found(details: Mapping[str, Any]) -> str:
    """Return a note on a `column` that was taken for the advantage; the rewards explain the share `explained` of it."""
    name, groups = details["column"], details["grouped_by"]
    why = f"it adds up to 0 in every group (by {groups}) and the rewards explain {percent(details['explained'])}"
    return f"The column {name} was taken for the advantage, because {why} of it there."


def _reward_taken_in(details: Mapping[str, Any]) -> str:
    """Return a note on a column that was taken for a reward, which is `reward` in the details."""
    return f"{details['reward']} was taken for a reward, because the logged advantages depend on it."


def _no_reward(details: Mapping[str, Any]) -> str:
    """Return a note on columns that were not read as rewards; `columns` in the details says why, by name."""
    names = list(details["columns"])
    reasons = some(f"{name} ({why})" for name, why in details["columns"].items())
    option = f"The option --reward takes a column in, as in --reward {quote(names[0])}."
    return f"{reasons} {was_or_were(len(names))} not read as rewards. {option}"


def _not_in_score(details: Mapping[str, Any]) -> str:
    """Return a note on a `score` that counts `rewards` alone, and not the other `columns` of the details."""
    alone = f"The {details.get('score', 'score')} is a weighted sum of {some(details['rewards'])} alone"
    return f"{alone}, so {some(details['columns'])} {does_or_do(len(details['columns']))} not count."


def _header_again(details: Mapping[str, Any]) -> str:
    """Return a note on a header that stands in the middle of a file.

    details: the details of the issue `header-again`. `file` is the first file with such a header, `lines` are its
        lines, and `later` says by column how many rows stand before the header that adds this column. `gone` are the
        columns that such a header leaves out.
    """
    lines = f"line{'s' * (len(details['lines']) > 1)} {some(details['lines'])} of {details['file']}"
    again = f"The header stands again in {lines}, as a run that was started again writes it, and was skipped."
    lacks = some(f"{name} (the first {count(rows, 'row')})" for name, rows in details["later"].items())
    again += f" Rows before a column was added have no value there: {lacks}." if details["later"] else ""
    return f"{again} Rows behind it have no value of {some(details['gone'])}." if details["gone"] else again


def _decimal_comma(details: Mapping[str, Any]) -> str:
    """Return a note on columns with a decimal comma, whose names are `columns` in the details of the issue."""
    return f"In {some(details['columns'])} the comma was read as the decimal sign."


def _titles_skipped(details: Mapping[str, Any]) -> str:
    """Return a note on lines before the header of a file, which are `lines` in the details of the issue."""
    return f"What stands before the names of the columns was skipped: {some(clip(x, 60) for x in details['lines'])}."


def _empty_rows(details: Mapping[str, Any]) -> str:
    """Return a note on rows without any value, of which `rows` in the details is the number."""
    rows = details["rows"]
    return f"{count(rows, 'row')} without any value {was_or_were(rows)} left out."


def _read_inside(details: Mapping[str, Any]) -> str:
    """Return a note on rows that were read inside an object; `members` in the details are the names that lead there."""
    return f"The responses were read inside {'.'.join(details['members'])}."


def _copies(details: Mapping[str, Any]) -> str:
    """Return a note on files that repeat others.

    details: the details of the issue `copies`: `files` of `of` files do so, such as `file`, which repeats `first`.
    """
    files = count(details["files"], "file")
    example = f"{details['file']} the rows of {details['first']}"
    return f"{files} of {count(details['of'])} repeat the rows of another file ({example}); these rows count once."


def _wide(details: Mapping[str, Any]) -> str:
    """Return a note on a table with several responses in a row, each in columns of its own.

    details: the details of the issue `wide`. `names` are the parts of names that all responses share, `size` is the
        number of responses in a row, and `rows` the number of rows.
    """
    names = f"{'each of ' * (len(details['names']) > 1)}{some(details['names'])}"
    columns = f"for {names} there are {details['size']} columns"
    rows = f"Each of {count(details['rows'], 'row')} was read as a group of {details['size']} responses"
    return f"{rows}, because {columns}."


def _rows_twice(details: Mapping[str, Any]) -> str:
    """Return a note on groups whose rows all stand twice, which are `groups` groups at the `steps` of the details."""
    groups = f"{count(details['groups'], 'group')} ({at_steps(details['steps'])})"
    return (
        f"In {groups} every row that was looked at stands twice, as where a run was started again and logged its steps "
        "again. These rows count twice here; leave one of each pair out to count them once."
    )


def _search_cut_short(details: Mapping[str, Any]) -> str:
    """Return a note on a search that ended before all readings were tried.

    details: the details of the issue `search-cut-short`: `tried` readings were tried, in `seconds` of computing.
    """
    tried = f"{count(details['tried'], 'way')} in {number(details['seconds'])} seconds of computing"
    return f"Not every other way to read the log was tried: the search ended after {tried}."


def _same_numbers(details: Mapping[str, Any]) -> str:
    """Return a note that one column was read in the place of another one that holds the same numbers.

    details: the details of the issue `same-numbers`: the columns `taken` and `left`, with left = factor × taken +
        constant.
    """
    kept, left, factor, constant = (details[name] for name in ("taken", "left", "factor", "constant"))
    is_it = f"{left} is {kept}" if factor == 1 else f"{left} is {number(factor)} × {kept}"
    plus = "" if not constant else f" {'+' if constant > 0 else '−'} {number(abs(constant))}"
    alike = f"{is_it}{plus} in every row that was looked at"
    return f"{alike}, so only {kept} was read, by its name. If both count, its weight is that of both together."


def _not_trained(details: Mapping[str, Any]) -> str:
    """Return a note on rows that were left out because no training was made of them.

    details: the details of the issue `not-trained`. `rows` rows in `groups` groups were left out, and `of` rows stayed.
        `why` names the rule that tells them. `column` and `value`, if they are there, say which value of a column these
        rows have, and no other row.
    """
    rows, groups = details["rows"], details["groups"]
    few = rows == 1
    marked = f"{details['column']} is {details['value']} there, and in no other row" if "column" in details else ""
    why = {
        "empty": f"{'its group has' if few else 'their groups have'} no reward at all",
        "evaluation": f"{'it is' if few else 'they are'} of an evaluation: {marked}",
        "advantage": f"no row of {'its group' if few else 'their groups'} has an advantage, and other rows have one",
        "alone": f"each of them is a group of its own, in which nothing is compared, and {marked}",
    }[details["why"]]
    also = f" ({marked})" if marked and details["why"] == "advantage" else ""
    left = f"{count(rows, 'row')} in {count(groups, 'group')} {was_or_were(rows)} left out as no part of the training"
    return f"{left}, because {why}{also}."


def _clipped(details: Mapping[str, Any]) -> str:
    """Return a note on advantages that were clipped: `rows` of `of` are on a bound."""
    rows = f"{count(details['rows'])} of {count(details['of'], 'advantage')} {is_or_are(details['rows'])} on a bound"
    return (
        f"The advantages were clipped at {bounds_in_words(details)}: {rows}, where the method makes larger ones. "
        "The figures here are computed without the clip."
    )


def _groups_incomplete(details: Mapping[str, Any]) -> str:
    """Return a note on groups whose mean was taken over rows that are not logged: `groups` of `of` do not add up to 0.

    details: the details of the issue `groups-incomplete`; `whole` is true if a method was checked in whole groups.
    """
    groups = (
        f"In {count(details['groups'])} of {count(details['of'], 'group')} the logged advantages do not add up to 0"
    )
    why = "in every group they are the weighted sum of the rewards, less a number of the group"
    if details["whole"]:
        why = "there they are a multiple of the weighted sum of the rewards, less a number of the group. "
        why += "Method and weights were checked in the groups that are whole"
    so = "So the mean was taken over rows that are not all in the log"
    if details["groups"] >= MOST_GROUPS * details["of"]:
        so = "Either the mean was taken over rows that are not all in the log, or each group has a baseline"
    sure = "The weights are" if details["whole"] else "The ratio of the weights is"
    figures = f"{sure} certain, but shares, pushes and silent groups are those of the logged rows."
    return f"{groups}: {why}. {so}. {figures}"


def _rows_again(details: Mapping[str, Any]) -> str:
    """Return a note on rows that a group holds twice: `rows` of `of` are left out."""
    rows, several = count(details["rows"], "row"), details["rows"] > 1
    repeat = f"{rows} of {count(details['of'])} {'repeat' if several else 'repeats'} a row of the same group"
    return f"{repeat}, and without {'them' if several else 'it'} the logged advantages add up to 0: each counts once."


def _weights_by_column(details: Mapping[str, Any]) -> str:
    """Return a note on weights that depend on a `column`; `recipes` in the details has the recipe of each value."""
    recipes, rewards = details["recipes"], details["rewards"]
    by_weights = dict[str, list[str]]()
    for value, recipe in recipes.items():
        words = listing(f"{name} {number(w)}" for name, w in zip(rewards, recipe.weights, strict=True))
        by_weights.setdefault(words, []).append(value)
    each = (f"{words} where it is {listing(values, 'or')}" for words, values in by_weights.items())
    return f"The weights depend on {details['column']}: {'; '.join(each)}. The figures are computed with these."


def _total_of_parts(details: Mapping[str, Any]) -> str:
    """Return a note that only a total was read as a reward, with the share of its variance that the columns beside it
    explain.

    details: the details of the issue `total-of-parts`. `total` is the name of the total, and `parts` are the names of
        the columns. `explained` is the share, and `named` is true if the caller asked for the total.
    """
    share = percent(details["explained"], 1)
    total, terms = details["total"], details["parts"]
    beside = f"Beside it, the log holds {some(terms)}"
    their_sum = f"{terms[0]}" if len(terms) == 1 else "a weighted sum of them"
    explains = f"{their_sum} explains {share} of the variance of {total}"
    if details.get("named"):
        return f"{total} was read alone, as asked. {beside}; {explains}."
    add_up = "which does" if len(terms) == 1 else "which do"
    return f"The logged advantages are those of {total} alone. {beside}, {add_up} not add up to {total}: {explains}."


def _regrouped(details: Mapping[str, Any]) -> str:
    """Return one or two notes about groups that the audit had to find out by itself.

    The first note says by what the responses were grouped, and why. The second says that several rows have one
    advantage in common and only the last of them counts; it is left out if there are no such rows.

    details: the details of the issue `regrouped`. `by` says in words how the groups are told apart now, and `not_by`
        how they were before. `ids` is true if only the values of a column show the groups. `once` names what rows with
        one advantage have in common; it is empty without such rows. `judged` is true if the advantages show the groups.
    """
    named = bool(details["not_by"]) and details["not_by"] != details["by"]
    why = "because nothing else in the log shows the groups"
    if details.get("ids"):
        why = "whose values repeat inside a step as ids of prompts do; nothing else in the log shows the groups"
        return f"Responses were grouped by {details['by']}, {why}."
    if details["judged"]:
        does = "are reproduced" if named else "add up to 0"
        does = "follow the rewards" if details.get("follows") else does
        why = f"because the logged advantages {does} in these groups"
    contrast = f"; in groups by {details['not_by']} they are not reproduced" if details["judged"] and named else ""
    once = f" Several rows of one {details['once']} repeat one advantage, and only the last of these rows counts."
    return f"Responses were grouped by {details['by']}, {why}{contrast}.{once * bool(details['once'])}"


def _masked(details: Mapping[str, Any]) -> str:
    """Return a note on the rows whose advantage was set to 0, by a mask, a filter, or a rule that no advantage may be
    below 0, and on rows that a column tells from those of the training.

    details: the details of the issue `masked`. `rows` of `of` rows are such rows, and `below` is true if the rule is
        the reason. `column` and `value` say which value of a column marks the rows, None if no column does. `counts`
        says whether the rows count in the statistics of their group, `missing` whether they have no advantage, and
        `untrained` whether the column alone tells them.
    """
    if details.get("below"):
        return (
            f"No logged advantage is below 0: in {count(details['rows'])} of {count(details['of'], 'row')} "
            f"({percent(details['rows'] / details['of'])}) the advantage would be below 0 and was set to 0."
        )
    value = details["value"] if isinstance(details["value"], str) else number(details["value"] or 0.0)
    where = f" These are the rows where {details['column']} is {value}." if details["column"] else ""
    count_in = "count" if details["counts"] else "do not count"
    rows = f"{count(details['rows'])} of {count(details['of'], 'row')} ({percent(details['rows'] / details['of'])})"
    if details["missing"] or details["untrained"]:
        marked = f", because {details['column']} is {value} there, and in no other row" if details["column"] else ""
        judged = "have no advantage" if details["missing"] else "have the advantage 0 whatever their rewards"
        return (
            f"{rows} were left out as no part of the training{marked}. They {judged}, and do not count in the "
            "statistics of their group: without them all others are reproduced."
        )
    return (
        f"The advantage of {rows} is 0 whatever the rewards, so a mask or a filter set it to 0.{where} Such rows "
        f"{count_in} in the statistics of their group."
    )


# By the id of an issue that was noted while the log was read: the function that returns the note about it.
NOTES: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "advantage-found": _advantage_found,
    "clipped": _clipped,
    "copies": _copies,
    "decimal-comma": _decimal_comma,
    "empty-rows": _empty_rows,
    "eval-logged": _eval_logged,
    "files-left-out": _files_left_out,
    "group-size-changes": _group_size_changes,
    "groups-incomplete": _groups_incomplete,
    "rows-again": _rows_again,
    "header-again": _header_again,
    "masked": _masked,
    "no-reward": _no_reward,
    "not-in-score": _not_in_score,
    "not-trained": _not_trained,
    "read-inside": _read_inside,
    "regrouped": _regrouped,
    "reward-taken-in": _reward_taken_in,
    "rows-twice": _rows_twice,
    "same-numbers": _same_numbers,
    "search-cut-short": _search_cut_short,
    "steps-found": _steps_found,
    "titles-skipped": _titles_skipped,
    "total-by-step": _total_by_step,
    "total-of-parts": _total_of_parts,
    "weights-by-column": _weights_by_column,
    "wide": _wide,
}
