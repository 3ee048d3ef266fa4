"""The function calls in the text of an answer, bare or somewhere in prose, which are parsed and never run."""

import ast
import math
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from gdpo_core.shared.words import clip, count
from views.bfcl.task import Task, is_name, parameters_of, quoted

MAX_ANSWER = 4000  # the most characters of an answer; far longer text can keep the Python parser busy for seconds


@dataclass(frozen=True)
class Call:
    """A call of a function as an answer sent it, with its arguments by name.

    positional: the names of the arguments that were sent by position.
    """

    function: str
    args: dict[str, object]
    positional: tuple[str, ...] = ()


class UnreadableAnswer(Exception):
    """The error for an answer in which no call can be read; its text says why and fits the end of a sentence."""


def parse_calls(task: Task, answer: str) -> tuple[list[Call], str]:
    """Return the calls of an answer, and words for what is wrong with the text around them, "" if there is no such
    text.

    In an answer with other text only calls of the task's functions are found, and calls that cannot be read are passed
    over.

    task: the task whose functions are called. Arguments that are sent by position get their names from its
        documentation.

    Raises UnreadableAnswer where no call can be read, or the answer is longer than `MAX_ANSWER`.
    """
    if len(answer) > MAX_ANSWER:
        raise UnreadableAnswer(f"the answer has {count(len(answer), 'character')}, more than {count(MAX_ANSWER)}")
    text = answer.strip()
    if calls := _python_calls(task, text):
        return calls, ""
    names = "|".join(map(re.escape, task.parameters))
    # The repeats are possessive, so that hostile text cannot make the search backtrack.
    pattern = rf"""(?<![\w.])(?:{names})\((?:[^()"']|"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+')*+\)"""
    calls = []
    why = UnreadableAnswer(f"the text holds no complete call of {names.replace('|', ' or ')}")
    for match in re.finditer(pattern, text, re.DOTALL):
        try:
            calls += _python_calls(task, match[0]) or []
        except UnreadableAnswer as error:
            why = error
    if not calls:
        raise why
    return calls, "Wrapped in other text"


def _python_calls(task: Task, source: str) -> list[Call] | None:
    """Return the calls of a text that is a single call, or a list or tuple of calls and nothing else.

    The result is None for any other text. Raises UnreadableAnswer if a name in a call is no plain name or comes twice,
    or if an argument is no plain value.

    task: the task whose documentation gives names to arguments that are sent by position.
    """
    try:
        with warnings.catch_warnings():  # Python warns of texts such as 5apples, which the verdict refuses anyway
            warnings.simplefilter("ignore", SyntaxWarning)
            body = ast.parse(source, mode="eval").body
        nodes = body.elts if isinstance(body, ast.List | ast.Tuple) else [body]
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        if len(calls) == len(nodes):
            return [_python_call(task, call) for call in calls]
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        pass
    return None


def _python_call(task: Task, node: ast.Call) -> Call:
    function = ast.unparse(node.func)
    parameters = list(parameters_of(task, function))
    parameters += [f"argument_{i + 1}" for i in range(len(parameters), len(node.args))]
    positional = tuple(parameters[: len(node.args)])
    keywords = [keyword.arg for keyword in node.keywords if keyword.arg is not None]
    names = [*positional, *keywords]
    unpacked = len(keywords) < len(node.keywords)  # **arguments have no name
    if unpacked or not all(map(is_name, (function, *names))) or len(set(names)) < len(names):
        raise UnreadableAnswer("a function or parameter in it has no proper name, or one name comes twice")
    nodes = [*node.args, *(keyword.value for keyword in node.keywords)]
    return Call(function, dict(zip(names, map(_plain_value, names, nodes), strict=True)), positional)


def _plain_value(name: str, node: ast.expr) -> object:
    if isinstance(node, ast.Name) and node.id in ("true", "false"):
        return node.id  # JSON's spelling is kept as text, for which the answer fails in style
    try:
        value: object = ast.literal_eval(node)
    except (ValueError, TypeError):
        value = ...
    if not _is_plain(value):
        raise UnreadableAnswer(f"{name}={clip(' '.join(ast.unparse(node).split()))} is not a plain value")
    return value


def _is_plain(value: object, depth: int = 0) -> bool:
    if isinstance(value, list | tuple | dict):
        items = [*value, *value.values()] if isinstance(value, dict) else value
        return depth < 5 and all(_is_plain(item, depth + 1) for item in items)
    if isinstance(value, int):
        return value.bit_length() <= 64  # Python refuses to turn far longer ones into floats or text
    return value is None or isinstance(value, str) or (isinstance(value, float) and math.isfinite(value))


def show_calls(calls: Sequence[Call]) -> str:
    """Return calls as text for the reason of a verdict: the first three, joined by "and", and "and more" if there are
    others.
    """
    shown = [f"{c.function}({', '.join(f'{k}={quoted(v)}' for k, v in c.args.items())})" for c in calls]
    return " and ".join(shown[:3]) + (" and more" if len(shown) > 3 else "")
