"""Print the lines of code in each folder: `python3 scripts/code_lines.py`. In Python files, blank lines, comments and
docstrings do not count.
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
    """Return the number of lines in a file that hold code; in a file that is not Python, that of the lines that are not
    blank.
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
    """Return the lines of code in each folder of the root, and in each of tests/, of the files that git knows. A file
    of the root itself stands under its own name.
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
