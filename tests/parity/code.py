"""Take single functions out of the files of an installed package, without importing the package and all that it
needs.
"""

import __future__

import ast
from collections.abc import Callable, Sequence
from importlib.metadata import Distribution
from pathlib import Path

import torch

# A directory of their own: beside our dependencies, these packages would bring in modules named tests and scripts.
INSTALLED = Path(__file__).parents[2] / ".parity"


def distribution(package: str) -> Distribution | None:
    """Return the package as it is installed in .parity, or None."""
    return next(iter(Distribution.discover(name=package, path=[str(INSTALLED)])), None)


def functions(file: Path, *names: str, known: dict) -> dict:
    """Return functions of a module by their names. They run in a namespace that holds torch, `known` and each other.
    Raises LookupError if the module lacks one.
    """
    tree = ast.parse(file.read_text())
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in names]
    missing = set(names) - {node.name for node in found}
    if missing:
        raise LookupError(f"{file.name} has no function {', '.join(sorted(missing))}")
    for node in found:
        node.decorator_list = []  # these only register the function in tables that are not here
    return _run(found, file, known)


def method(file: Path, name: str, *, known: dict) -> Callable:
    """Return a method of a class, the only one of that name in its module, as a function of `self`. known: the names
    that it uses. Raises LookupError unless there is just one.
    """
    nodes = ast.walk(ast.parse(file.read_text()))
    found = [node for node in nodes if isinstance(node, ast.FunctionDef) and node.name == name]
    if len(found) != 1:
        raise LookupError(f"{file.name} has {len(found)} methods {name}")
    found[0].decorator_list = []
    return _run(found, file, known)[name]


def assignment(file: Path, target: str, *, known: dict) -> Callable:
    """Return the first statement that assigns to `target`, such as "self.a", and calls something, as a function that
    runs it on `self`. Raises LookupError if there is none.
    """
    nodes = ast.walk(ast.parse(file.read_text()))
    found = [
        node
        for node in nodes
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == target and isinstance(node.value, ast.Call)
    ]
    if not found:
        raise LookupError(f"{file.name} assigns nothing to {target}")
    arguments = ast.arguments(posonlyargs=[], args=[ast.arg("self")], kwonlyargs=[], kw_defaults=[], defaults=[])
    function = ast.FunctionDef(name="assign", args=arguments, body=found[:1], decorator_list=[], type_params=[])
    return _run([function], file, known)["assign"]


def default_of(file: Path, field: str) -> object:
    """Return the default of a field of a dataclass, which stands as `field(default=…)` or as a plain value. Raises
    LookupError if no class of the module has the field.
    """
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == field and node.value is not None:
            given = node.value
            if isinstance(given, ast.Call):
                given = next(word.value for word in given.keywords if word.arg == "default")
            return ast.literal_eval(given)
    raise LookupError(f"{file.name} has no field {field}")


def aggregation_block(file: Path, arguments: Sequence[str], *, nth: int = 0, known: dict) -> Callable:
    """Return the n-th block of a trainer that turns rewards into advantages, as a function of `arguments`.

    In TRL's trainer, and in those made after it, this block stands in the middle of a method: an `if` on the kind of
    aggregation, before it the mask of responses without any reward, and after it their advantages of 0. known: the
    names that the block uses. Raises LookupError if there are not so many blocks.
    """
    bodies = [node.body for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef)]
    blocks = [block for block in map(_block, bodies) if block]
    if len(blocks) <= nth:
        raise LookupError(f"{file.name} has {len(blocks)} blocks that aggregate rewards, not more than {nth}")
    body = [*blocks[nth], ast.Return(ast.Name("advantages", ast.Load()))]
    parameters = ast.arguments(
        posonlyargs=[], args=[ast.arg(a) for a in arguments], kwonlyargs=[], kw_defaults=[], defaults=[]
    )
    function = ast.FunctionDef(name="advantages_of", args=parameters, body=body, decorator_list=[], type_params=[])
    return _run([function], file, known)["advantages_of"]


def _block(body: list[ast.stmt]) -> list[ast.stmt] | None:
    """Return the statements of a function's body that turn rewards into advantages; None if there are none."""
    found = [i for i, node in enumerate(body) if isinstance(node, ast.If) and _asks_for_aggregation(node.test)]
    if not found:
        return None
    at = found[0]
    before = [node for node in body[:at] if _assigned_name(node) == "unscorable_mask"]
    after = [node for node in body[at + 1 : at + 2] if _assigned_name(node) == "advantages"]
    return [*before, body[at], *after]


def _asks_for_aggregation(test: ast.expr) -> bool:
    """Return whether a condition asks for the kind of aggregation."""
    left = test.left if isinstance(test, ast.Compare) else None
    return isinstance(left, ast.Attribute) and left.attr == "multi_objective_aggregation"


def _assigned_name(node: ast.stmt) -> str | None:
    """Return the name to which a statement assigns a value; None if it is no assignment to one name."""
    one = isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)
    return node.targets[0].id if one else None


def _run(nodes: list[ast.stmt], file: Path, known: dict) -> dict:
    """Run some statements and return the names that they define. file: where they come from; known: names that they
    use.
    """
    module = ast.fix_missing_locations(ast.Module(body=nodes, type_ignores=[]))
    # annotations stay text, since their types are not here
    flags = __future__.annotations.compiler_flag
    namespace = {"torch": torch, **known}
    exec(compile(module, str(file), "exec", flags=flags, dont_inherit=True), namespace)
    return namespace
