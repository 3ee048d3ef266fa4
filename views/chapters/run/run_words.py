"""Sentences of the audit in the words of the page: they name controls of the page in place of options of the command
line.
"""

import re

from views.chapters.run.choose import TEXT_CONTROLS

_CONTROLS = {"reward": "rewards", "group-size": "group_size", "group": "group", "parts": "parts", "weight": "weights"}
_NAME = r"(?:'[^']*'|\S*[^\s,.;:)'])"
_VALUE = {
    "reward": _NAME,
    "group-size": r"(?:N\b|\d+)",
    "group": _NAME,
    "parts": r"\S+=[\d.]*\d",
    "weight": r"(?:'[^']*'|\S+)=(?:W\b|[\d.]*\d)",
}
_SENTENCES = {  # words of the audit for which the page has other words
    "Open: name": "Name",
    "Open: should": "Your decision: should",
    "(--primary)": "(with the buttons above)",
    "The option --reward": f"“{TEXT_CONTROLS['rewards'][0]}”",
    "(--reward names rewards)": f"(“{TEXT_CONTROLS['rewards'][0]}” takes columns in)",
    "; with skip_bad (--skip-bad) it is left out": "; without this file the others are read",
    "only --what-if computes": "only the library computes",
    "; --what-if does": "; the library does",
    " (--debug prints the traceback)": "",
    "give group_size, the": "give the",
}
_OF_THE_LIBRARY = re.compile(r"(?<![\w-])--(asked|by|columns|not-steps)[ =]")  # no control of the page does these
_REWARDS = re.compile(rf"--reward[ =]{_NAME}(?: --reward[ =]{_NAME})*")


def on_page(sentence: str) -> str:
    """Return a sentence of the audit with the page's controls in place of the options of the command line.

    >>> on_page("Open: name the reward that matters most (--primary): a or b.")
    'Name the reward that matters most (with the buttons above): a or b.'
    >>> on_page("give group_size, the responses per prompt, as --group-size N, or the column, as --group prompt (x)")
    'give the responses per prompt, in “Responses per prompt”, or the column, in “Group column”: prompt (x)'
    >>> on_page("name those that are, of --reward acc --reward 'two words' --reward=-x")
    'name those that are, of acc, two words, -x (in “Reward columns”)'
    >>> on_page("1 each (otherwise --weight 'two words'=W)")
    '1 each (otherwise “Weights, if they differ from those in the log”: two words=W)'
    >>> on_page("no column counts steps (otherwise --columns step=NAME)")
    'no column counts steps (otherwise “columns” of the library: step=NAME)'
    >>> on_page("--reward_weights 1 --log-rewards")
    '--reward_weights 1 --log-rewards'
    """
    for in_terminal, here in _SENTENCES.items():
        sentence = sentence.replace(in_terminal, here)
    sentence = _OF_THE_LIBRARY.sub(lambda match: f"“{match[1].replace('-', '_')}” of the library: ", sentence)
    sentence = _REWARDS.sub(_rewards, sentence)
    for option, value in _VALUE.items():
        pattern = rf"(as in |as |: )?(?<![\w-])--{option}(?![\w-])(?:[ =]({value}))?"
        sentence = re.sub(pattern, _given, sentence)
    return sentence


def _rewards(match: re.Match[str]) -> str:
    """Return words in place of a row of options `--reward NAME`: the names, and the control of the page that takes
    them.

    match: the match of the whole row in a sentence.
    """
    names = [name.strip("'") for name in re.findall(rf"--reward[ =]({_NAME})", match[0])]
    return f"{', '.join(names)} (in “{TEXT_CONTROLS['rewards'][0]}”)"


def _given(match: re.Match[str]) -> str:
    """Return words in place of an option of the command line: the control of the page, and the option's value.

    The value is left out if it is the placeholder N or if there is none.

    match: the match of the option, with the word before it as group 1 and the value as group 2.
    """
    option = re.sub(r"^.*?--|[ =].*", "", match[0], flags=re.DOTALL)
    lead = {None: "", ": ": " in "}.get(match[1], "in ")
    value = re.sub("^'([^']*)'", r"\1", match[2] or "N")
    return f"{lead}“{TEXT_CONTROLS[_CONTROLS[option]][0]}”" + f": {value}" * (value != "N")
