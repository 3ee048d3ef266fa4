"""Print the lines of Python, JavaScript and CSS in each folder: `python3 scripts/code_lines.py`. Blank lines do not
count, and in Python neither do comments and docstrings.
"""

import ast
import io
import subprocess
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_lines(path: Path) -> int:
    """Return the number of lines in a Python file that hold code, without comments and docstrings; in any other file,
    the number of lines that are not blank.
    """
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return sum(bool(line.strip()) for line in text.splitlines())
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            lines -= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return len(lines)


def by_folder() -> Counter[str]:
    """Return the number of lines of code by folder: each folder of the root, and each folder of tests/. A file of the
    root itself stands under its own name. Only the Python, JavaScript and CSS files that git knows are counted.
    """
    named = subprocess.run(["git", "ls-files", "*.py", "*.js", "*.css"], cwd=ROOT, capture_output=True, text=True)
    counted: Counter[str] = Counter()
    for name in filter(lambda name: (ROOT / name).exists(), named.stdout.split()):
        folders = name.split("/")
        counted["/".join(folders[:-1][: 1 + (folders[0] == "tests")]) or name] += code_lines(ROOT / name)
    return counted


if __name__ == "__main__":
    for folder, lines in by_folder().most_common():
        print(f"{lines:7,} {folder}")
