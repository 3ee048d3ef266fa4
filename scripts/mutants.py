"""Faults put at random into the code that reads logs, finds recipes and makes findings: how many do the tests catch?

`python -m scripts.mutants` makes so many faults (`--faults`), each alone and in memory: a comparison with or without
its bound, a sign, an operator, `and` for `or`, a number that is a little larger. Each meets the tests of `make check`
that use the package, one case each. The last line is the rate; a fault that nobody caught is a test to be written, or
code that changes nothing.
"""

import argparse
import ast
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from importlib.machinery import SourceFileLoader
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("logs", "recipe", "findings")
SECONDS = 600  # a fault that makes the tests take longer is one that they would notice
# pytest would load the file under test anew, for the sake of its assertions, and so without the fault.
FAST = ("--assert=plain", "-x", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-m", "not slow", "--one-case")
OTHERS = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq},
    **{ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And},
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult},
}


def faults(tree: ast.Module) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Yield a node of the code and what takes its place, for each fault that can be made in it."""
    for node in _code(tree):
        if isinstance(node, ast.Compare) and type(node.ops[0]) in OTHERS:
            yield node, ast.Compare(node.left, [OTHERS[type(node.ops[0])](), *node.ops[1:]], node.comparators)
        elif isinstance(node, ast.BoolOp):
            yield node, ast.BoolOp(OTHERS[type(node.op)](), node.values)
        elif isinstance(node, ast.BinOp) and type(node.op) in OTHERS and not _has_text(node):
            yield node, ast.BinOp(node.left, OTHERS[type(node.op)](), node.right)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
            yield node, node.operand
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
            yield node, ast.Constant(not node.value)
        elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            yield node, ast.Constant(node.value + 1 if isinstance(node.value, int) else node.value * 1.5 + 1e-9)


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below a node, in the order of the text, but those that compute nothing: annotations, whether
    `zip` is strict, and whether a dataclass is frozen.
    """
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            unused = name in ("annotation", "returns") or getattr(child, "arg", None) in ("strict", "frozen")
            if isinstance(child, ast.AST) and not unused:
                yield child
                yield from _code(child)


def _has_text(node: ast.AST) -> bool:
    """Return whether a node holds a text or a list, which no sign or factor suits."""
    texts = (ast.JoinedStr, ast.List, ast.Tuple, ast.ListComp)
    return any(isinstance(n, texts) or (isinstance(n, ast.Constant) and isinstance(n.value, str)) for n in _code(node))


class _Replacing(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return ast.copy_location(self.new, node) if node is self.old else self.generic_visit(node)


def with_fault(path: Path, number: int) -> tuple[ast.Module, str]:
    """Return the code of a file with one of its faults, and a line that says which one."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    old, new = [*faults(tree)][number]
    where = f"{path.relative_to(ROOT)}:{old.lineno}"
    said = f"{where}: {ast.unparse(old)} → {ast.unparse(ast.fix_missing_locations(deepcopy(new)))}"
    return ast.fix_missing_locations(_Replacing(old, new).visit(tree)), " ".join(said.split())


def tests_of(path: Path) -> list[str]:
    """Return paths for pytest: the file itself, for its doctests, and each file of tests that names its package, those
    first that name the file, too.
    """
    package = path.relative_to(ROOT).parts[0]
    using = [test for test in sorted((ROOT / "tests").glob("test_*.py")) if package in test.read_text(encoding="utf-8")]
    named = [test for test in using if path.stem in test.read_text(encoding="utf-8")]  # they are likely to notice
    return [str(path), *dict.fromkeys(map(str, [*named, *using]))]


def meet(path: Path, number: int) -> int:
    """Run the tests in this process, in which a file has a fault, and return pytest's status."""
    import pytest

    plain, (tree, _) = SourceFileLoader.get_code, with_fault(path, number)

    def get_code(loader, name):
        return compile(tree, path, "exec", dont_inherit=True) if Path(loader.path) == path else plain(loader, name)

    SourceFileLoader.get_code = get_code
    return pytest.main([*FAST, "--hypothesis-profile=dev", *tests_of(path)])


def caught(path: Path, number: int) -> bool:
    """Return whether the tests fail if a file has this fault. Errors of pytest itself, such as no tests, are raised."""
    command = [sys.executable, "-m", "scripts.mutants", "--meet", str(path), str(number)]
    one_core = {"OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
    try:
        ended = subprocess.run(command, cwd=ROOT, env=os.environ | one_core, capture_output=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return True
    if ended.returncode not in (0, 1, 2):  # 2: a test file could not be imported
        raise RuntimeError(ended.stdout.decode()[-2000:] + ended.stderr.decode()[-2000:])
    return ended.returncode > 0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faults", type=int, default=100, help="how many faults are tried")
    parser.add_argument("--seed", default="", help="by which they are drawn")
    parser.add_argument("--jobs", type=int, default=1, help="how many are tried at one time")
    parser.add_argument("--meet", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.meet:
        return meet(Path(options.meet[0]), int(options.meet[1]))
    files = sorted(file for room in ROOMS for file in (ROOT / "gdpo_audit" / room).rglob("*.py"))
    every = [(f, n) for f in files for n, _ in enumerate(faults(ast.parse(f.read_text(encoding="utf-8"))))]
    drawn = random.Random(options.seed).sample(every, options.faults)
    with ThreadPoolExecutor(options.jobs) as pool:
        results = []
        for fault, was_caught in zip(drawn, pool.map(caught, *zip(*drawn, strict=True)), strict=True):
            results.append(was_caught)
            print("caught" if was_caught else "SURVIVED", with_fault(*fault)[1], flush=True)
    print(f"{sum(results)} of {len(drawn)} faults are caught, of {len(every)} that can be made (seed {options.seed!r})")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
