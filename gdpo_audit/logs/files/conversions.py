"""Files that only other programs read: pickled Python objects, with the command that makes a log of one, and
spreadsheets.
"""

import json
from shlex import quote

from gdpo_core.shared.words import one_line

PICKLES = (".pkl", ".pickle", ".joblib")
TENSORS = (".pt", ".pth")  # files of torch
BINARY = (*PICKLES, *TENSORS)
# No library that we depend on reads spreadsheets, which may hold several tables, titles and formulas; to save one table
# as CSV takes a moment, and shows what is in it.
SHEETS = (".xlsx", ".xlsm", ".xls", ".ods")
A_SHEET = "a spreadsheet; save its sheet with a row per response as CSV, and audit that file"
ZIP, _PICKLED_MEMBER = b"PK\3\4", b"data.pkl"  # how a zip begins, and what torch puts into one first
# The code that finds rows: a list of them, alone or under the name that slime gives it. Any other object is one row,
# which may hold its columns as lists.
_ROWS = "d = d.get('samples', d) if isinstance(d, dict) else d; r = d if isinstance(d, list) else [d]"
_PLAIN = "lambda x: x.tolist() if hasattr(x, 'tolist') else getattr(x, '__dict__', None) or str(x)"


def is_torch(name: str, start: bytes) -> bool:
    """Return whether a file comes from torch.save: its name says so, or it is a zip that begins with pickled data.

    start: the first bytes of the file, at least 300 of them if it has so many.
    """
    return name.lower().endswith(TENSORS) or (start.startswith(ZIP) and _PICKLED_MEMBER in start[30:300])


def pickled(path: str) -> str:
    """Return the words "a pickle", followed by the `advice` on the file at this path."""
    return f"a pickle; {advice(path)}"


def advice(path: str) -> str:
    """Return words that say why a file of pickled objects is not loaded, and which command makes a log of it."""
    return f"loading it runs what is in it; if you trust it, this makes a log of it: {conversion(path)}"


def conversion(path: str) -> str:
    """Return the command that writes the rows in a file of Python objects as lines of JSON into PATH.jsonl beside it.

    The command loads the file with pickle if its name ends as one of `PICKLES` does. It loads any other file with
    torch.

    >>> conversion("1.pkl").split(";")[1]
    ' d = pickle.load(open("1.pkl", "rb"))'
    """
    here, there = json.dumps(path, ensure_ascii=False), json.dumps(f"{path}.jsonl", ensure_ascii=False)
    if path.lower().endswith(PICKLES):
        load = f'import json, pickle; d = pickle.load(open({here}, "rb"))'
    else:
        load = f'import json, torch; d = torch.load({here}, map_location="cpu", weights_only=False)'
    rows, plain = (code.replace("'", '"') for code in (_ROWS, _PLAIN))
    write = f'open({there}, "w").writelines(json.dumps(x, default={plain}) + "\\n" for x in r)'
    return f"python -c {quote(one_line(f'{load}; {rows}; {write}'))}"
