"""Compare the graders with BFCL's own decoder and AST checker; `make parity` installs bfcl-eval and runs it.

BFCL reads the text of an answer with its decoder, and checks the calls against the accepted ones. It gives a single
verdict, which ours is to equal: correctness passes and every type is exact; spelling, wrapping and conciseness do not
count.
"""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from views import bfcl
from views.bfcl.calls import parse_calls
from views.bfcl.task import type_error

TASKS = bfcl.load_tasks(Path(__file__).parent.parent / "data" / "tasks")

# For each task and number of an answer, from 0, this says why we and BFCL differ.
PROSE = "BFCL reads nothing if there is prose around the calls; to us that is a matter of style."
DISAGREEMENTS = {("weather", 2): PROSE, ("interest", 7): PROSE, ("interest", 8): PROSE, ("interest", 11): PROSE}

# The decoder and the checker import these packages but do not need them for Python calls, and the real ones want many
# other packages.
STAND_INS = {
    "bfcl_eval.constants.model_config": {"MODEL_CONFIG_MAPPING": {"any": SimpleNamespace(underscore_to_dot=False)}},
    "bfcl_eval.model_handler.parser.java_parser": {"parse_java_function_call": None},
    "bfcl_eval.model_handler.parser.js_parser": {"parse_javascript_function_call": None},
    "bfcl_eval.utils": {},
    "tenacity": dict.fromkeys(
        ("retry", "retry_if_exception_message", "retry_if_exception_type", "wait_random_exponential")
    ),
}


@pytest.fixture
def bfcl_accepts(monkeypatch):
    """Return a function from a task and the text of an answer to BFCL's verdict and the reason for it."""
    if importlib.util.find_spec("bfcl_eval") is None:
        pytest.fail("bfcl-eval is not installed: run `make parity`, which installs it first", pytrace=False)
    for name, attributes in STAND_INS.items():
        module = ModuleType(name)
        vars(module).update(attributes)
        monkeypatch.setitem(sys.modules, name, module)
    enums = importlib.import_module("bfcl_eval.constants.enums")
    decode = importlib.import_module("bfcl_eval.model_handler.utils").default_decode_ast_prompting
    check = importlib.import_module("bfcl_eval.eval_checker.ast_eval.ast_checker").ast_checker

    def accepts(task, answer):
        try:
            calls = decode(answer, enums.ReturnFormat.PYTHON)
        except Exception as error:  # BFCL counts whatever its decoder raises as an unreadable answer.
            return False, f"decoder: {type(error).__name__}"
        category = "simple" if len(task.accepted) == 1 else "parallel"
        verdict = check(list(task.functions), calls, list(task.accepted), enums.Language.PYTHON, category, "any")
        return verdict["valid"], verdict.get("error_type", "accepted")

    return accepts


def we_accept(task, answer):
    """Return whether an answer passes correctness and has exact types."""
    if not bfcl.grade(task, answer).correctness.passed:
        return False
    # The style verdict also covers spelling and wrapping, so its type check is taken alone.
    calls, _ = parse_calls(task, answer)
    schemas = {function: parameters["properties"] for function, parameters in task.parameters.items()}
    return not any(type_error(value, schemas[c.function][name]) for c in calls for name, value in c.args.items())


def test_correctness_and_exact_types_agree_with_bfcl_except_where_listed(bfcl_accepts):
    differing = set()
    for task in TASKS:
        print(f"\n{task.title}\nours  BFCL  answer")
        for i, answer in enumerate(task.answers):
            ours, (theirs, why) = we_accept(task, answer), bfcl_accepts(task, answer)
            note = "" if ours == theirs else f"  <- {DISAGREEMENTS.get((task.id, i), 'NOT LISTED')} ({why})"
            print(f"{'yes' if ours else 'no':6}{'yes' if theirs else 'no':6}{answer!r}{note}")
            differing |= {(task.id, i)} if ours != theirs else set()
    print(f"\n{len(differing)} of {sum(len(task.answers) for task in TASKS)} differ")
    assert differing == set(DISAGREEMENTS)
