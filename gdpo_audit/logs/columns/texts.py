"""Prompts and completions of a few responses, read when a report shows them, so that no audit waits for texts."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from itertools import groupby

import polars as pl

from gdpo_audit.logs.names import ROW, ROWS_OF_A_FILE
from gdpo_audit.logs.tables.formats import DAMAGED, Table, is_number_type
from gdpo_audit.records import PromptAndCompletion
from gdpo_core.shared.errors import InputError
from gdpo_core.shared.words import excerpt

PROMPT_TEXTS = ("prompt", "prompts", "input", "inputs", "question", "questions", "query", "problem")
COMPLETIONS = (
    *("completion", "completions", "response", "responses", "output", "outputs"),
    *("generation", "prediction", "predicted"),
)
CHATS = ("messages", "content", "text", "texts")  # columns that hold the prompt and the completion together
_NAMES = {*PROMPT_TEXTS, *COMPLETIONS, *CHATS}
LONGEST_PROMPT, LONGEST_COMPLETION = 1_000, 2_000  # the most characters that are shown of each
# The errors that mean that texts cannot be read, which is no reason to fail.
_GONE = (InputError, *DAMAGED, ValueError, RecursionError, MemoryError)


class TextReader:
    """The reader of a log's texts, which finds none in a file that is gone or has changed since the reader was made.

    tables: the tables of the log.
    responses: a function that takes the rows of a table and the table's number, and returns a row per response. The
        column `ROW` holds the number of each response in its table, from 0.
    """

    def __init__(self, tables: Sequence[Table], responses: Callable[[pl.LazyFrame, int], pl.LazyFrame]) -> None:
        self._tables, self._responses = tables, responses
        self._marks = [_mark(table) for table in tables]

    def __call__(self, places: Collection[int]) -> Mapping[int, PromptAndCompletion]:
        """Return the prompts and completions of responses by their places, as far as they can be read.

        places: the places of the responses, as the column `_place` holds them.
        """
        by_place: dict[int, PromptAndCompletion] = {}
        for number, some in groupby(sorted(places), key=lambda place: place // ROWS_OF_A_FILE):
            rows = [place % ROWS_OF_A_FILE for place in some]
            with suppress(*_GONE):
                if _mark(self._tables[number]) == self._marks[number]:
                    by_place |= self._in_table(number, rows)
        return by_place

    def _in_table(self, number: int, rows: Sequence[int]) -> dict[int, PromptAndCompletion]:
        """Return the texts of some rows of a table, by the place of each row in the log; {} if the table has no texts.

        number: which of the log's tables it is, from 0.
        rows: the numbers of the wanted rows in the table, as the column `ROW` holds them. A place is `number` times
            `ROWS_OF_A_FILE` plus the number of the row.
        """
        whole = self._responses(self._tables[number].again(), number)
        kinds = whole.collect_schema()
        texts = [name for name, kind in kinds.items() if name.lower() in _NAMES and not is_number_type(kind)]
        if not texts:
            return {}
        records = whole.filter(pl.col(ROW).is_in(rows)).select(ROW, *texts).collect().to_dicts()
        return {number * ROWS_OF_A_FILE + record.pop(ROW): texts_in(record) for record in records}


def _mark(table: Table) -> tuple[int, int] | None:
    """Return the size of a table's file and the time when it was written, which show whether it changed.

    None for a table without a file on disk, and (-1, -1) if the file is gone.
    """
    with suppress(OSError):
        state = table.path.stat() if table.path is not None else None
        return None if state is None else (state.st_size, state.st_mtime_ns)
    return (-1, -1)


def texts_in(record: Mapping[str, object]) -> PromptAndCompletion:
    """Return the prompt and the completion in the columns of a response, each cut if it is long.

    Some columns hold prompt and completion together, such as messages. They count only if no column of prompts has a
    text, and no column of completions has one.
    record: the values of the response's columns, by name.

    >>> texts_in({"question": "2 + 2?", "response": [{"role": "assistant", "content": "4"}]})
    PromptAndCompletion(prompt='2 + 2?', completion='4')
    >>> texts_in({"prompt": "2 + 2?", "completion": ""})
    PromptAndCompletion(prompt='2 + 2?', completion='')
    >>> texts_in({"messages": [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]})
    PromptAndCompletion(prompt='2 + 2?', completion='4')
    """
    filled = ((name, value) for name, value in record.items() if isinstance(value, str | list | dict) and value)
    by_name: Mapping[str, object] = {name.lower(): value for name, value in filled}
    prompt, completion, chat = (
        next((by_name[name] for name in names if name in by_name), None) for names in (PROMPT_TEXTS, COMPLETIONS, CHATS)
    )
    if prompt is None and completion is None:
        prompt, completion = _split_chat(chat)
    if completion is None and any(value == "" and name.lower() in COMPLETIONS for name, value in record.items()):
        completion = ""
    texts = ((readable(prompt), LONGEST_PROMPT), (readable(completion), LONGEST_COMPLETION))
    return PromptAndCompletion(*(None if text is None else excerpt(text, longest) for text, longest in texts))


def _split_chat(chat: object) -> tuple[object, object]:
    """Return the prompt and the completion in a chat; the completion begins with the assistant's first answer.

    If no message is the assistant's, the last one is the completion. Anything but a list is a completion without a
    prompt.
    """
    if not isinstance(chat, list):
        return None, chat
    roles = [message.get("role") if isinstance(message, dict) else None for message in chat]
    at = roles.index("assistant") if "assistant" in roles else len(chat) - 1
    return chat[:at], chat[at:]


def readable(value: object) -> str | None:
    """Return a value as a text to read; None for None and for an empty list.

    A text stays as it is. A chat becomes lines `role: content`; a chat of one message, and a message, become the
    content alone. Any other value becomes its JSON.

    >>> print(readable([{"role": "user", "content": "Hi"}, {"role": "user", "content": [{"text": "2 + 2?"}]}]))
    user: Hi
    user: 2 + 2?
    """
    if value is None or value == []:
        return None
    if isinstance(value, list) and any(isinstance(item, dict | str) for item in value):
        messages = [(item.get("role") if isinstance(item, dict) else None, _content(item)) for item in value]
        lines = [f"{role}: {content}" if role and len(messages) > 1 else content for role, content in messages]
        value = "\n".join(lines)
    return _content(value)


def _content(item: object) -> str:
    """Return the text of a message or of a part of one; if it has no text, its JSON without members that are None."""
    if isinstance(item, dict):
        inner = item.get("content") or item.get("text")
        if inner:
            return readable(inner) or ""
        item = {name: value for name, value in item.items() if value is not None}
    return item if isinstance(item, str) else json.dumps(item, ensure_ascii=False, default=str)
