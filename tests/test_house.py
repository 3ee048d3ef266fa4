"""The rules of the house: which package may import which, what the page may not hold, how texts are written, and where
data comes from.
"""

import ast
import fnmatch
import os
import re
from functools import cache
from hashlib import sha256
from pathlib import Path

import documents
import pytest

ROOT = Path(__file__).parent.parent
APP = ROOT / "app.py"
CORE = sorted([*(ROOT / "gdpo_core").rglob("*.py"), *(ROOT / "gdpo_audit").rglob("*.py")])
VIEWS = sorted((ROOT / "views").rglob("*.py"))
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
TOOLS = sorted(
    path for name in ("benchmarks", "conformance", "experiments", "scripts") for path in (ROOT / name).rglob("*.py")
)
TESTS = sorted(path for path in (ROOT / "tests").rglob("*.py") if "configs" not in path.parts)


def relative(path):
    return path.relative_to(ROOT).as_posix()


@cache
def imported(path) -> set[str]:
    """Return the top-level names of all that a file imports, anywhere in it; a relative import counts as the file's own
    package.
    """
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module.split(".")[0] if node.level == 0 else path.relative_to(ROOT).parts[0])
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            names |= {arg.value.split(".")[0] for arg in node.args if isinstance(arg, ast.Constant)}
    return names


# --- the direction of the arrows -------------------------------------------------------------------------------------

ARROW = ("app.py", "views", "gdpo_audit", "gdpo_core")
KEPT_OUT = {  # of a package, but for its folders that are for it
    "gdpo_core": {"marimo", "altair", "anywidget", "typer", "rich", "polars"},
    "gdpo_audit": {"marimo", "altair", "anywidget", "typer"},
}
FOR = {"board": {"anywidget"}}


@pytest.mark.parametrize("path", [APP, *VIEWS, *CORE], ids=relative)
def test_imports_go_one_way(path):
    package, *folders = path.relative_to(ROOT).parts
    above = {name.removesuffix(".py") for name in ARROW[: ARROW.index(package)]}
    allowed = set().union(*(FOR.get(folder, set()) for folder in folders))
    assert not imported(path) & (above | KEPT_OUT.get(package, set()) - allowed)


LOGS = ROOT / "gdpo_audit" / "logs"
# The rooms of gdpo_audit/logs in the order in which a log passes through them. Before them stand the names of columns
# and the refusals, and after them the reading, which walks through all.
LOG_ROOMS = (
    "names",
    "refusals",
    "files",
    "tables",
    "numbers",
    "forms",
    "trainers",
    "shapes",
    "columns",
    "groups",
    "read",
)
IN_LOGS = re.compile(r"^ *from gdpo_audit\.logs(?:\.(\w+)[.\w]*)? import (.+)", re.MULTILINE)


@pytest.mark.parametrize("path", sorted(LOGS.rglob("*.py")), ids=relative)
def test_a_room_of_logs_imports_only_from_those_before_it(path):
    room = path.relative_to(LOGS).parts[0].removesuffix(".py")
    imports = {module or names for module, names in IN_LOGS.findall(path.read_text(encoding="utf-8"))}
    assert room == "__init__" or imports <= {*LOG_ROOMS[: LOG_ROOMS.index(room) + 1]}


def test_a_room_of_logs_holds_at_most_16_files_and_each_stands_in_a_room():
    files = [path.relative_to(LOGS).parts for path in LOGS.rglob("*.py")]
    assert {parts[0].removesuffix(".py") for parts in files} == {*LOG_ROOMS, "__init__"}
    assert all(sum(parts[0] == room for parts in files) <= 16 for room in LOG_ROOMS)


def test_records_import_nothing_that_reads_a_log():
    assert "gdpo_audit" not in imported(ROOT / "gdpo_audit" / "records.py")


TOOL_FOLDERS = {"benchmarks", "conformance", "experiments", "scripts", "tests"}


@pytest.mark.parametrize("path", [APP, ROOT / "serve.py", ROOT / "gdpo_cli.py", *VIEWS, *CORE], ids=relative)
def test_what_is_installed_imports_no_folder_of_tools(path):
    """The container and the wheel hold none of these folders."""
    assert not imported(path) & TOOL_FOLDERS


READS_A_LOG = re.compile(r"\brun\.(?:tables|sample|table|extracts|count_undecided|_\w+)\b|\.tables\(\)")


MAY_READ = {  # what gathers facts, sums a run up, or looks for another way to read its log
    *(f"gdpo_audit/facts/{name}.py" for name in ("by_column", "log_details")),
    "gdpo_audit/trials/summing_up.py",
    *(
        f"gdpo_audit/unexplained/{name}.py"
        for name in ("changing_total", "combining", "edited", "followed_total", "readings", "solving")
    ),
}


def test_findings_and_report_open_no_log():
    """The audit reads beforehand what they need of the log; a report reads it again only where its owner asks for
    that.
    """
    readers = {relative(path): READS_A_LOG.findall(path.read_text("utf-8")) for path in CORE}
    judging = ("facts", "findings", "report", "sums", "trials", "unexplained")
    rooms = {path: reads for path, reads in readers.items() if path.split("/")[1] in judging and reads}
    assert {path for path in rooms if path not in MAY_READ} == {"gdpo_audit/report/audit_report.py"}
    assert len(rooms.pop("gdpo_audit/report/audit_report.py")) == 3 and {*rooms} == MAY_READ


def test_only_the_charts_import_altair():
    importers = {relative(path) for path in (APP, *CORE, *VIEWS, *EXAMPLES) if "altair" in imported(path)}
    assert importers == {"views/widgets/charts.py", "views/widgets/chart_looks.py"}


# --- names and docstrings ---------------------------------------------------------------------------------------------

NO_VERBS = {"A", "An", "As", "Each", "How", "It", "Of", "One", "That", "The", "What", "Where", "Whether", "Why"}
VERBS_FIRST = {
    "gdpo_audit", "advice", "command", "comparing", "facts", "findings",
    "pages", "printing", "report", "sums", "trials", "unexplained",
}  # fmt: skip
NOT_READ = {"views/server/patches.py", "views/server/sessions.py"}
READ = [
    *(path for path in CORE if path.parent.name in VERBS_FIRST),
    *(path for path in VIEWS if relative(path) not in NOT_READ),
    *TOOLS,
]


@pytest.mark.parametrize("path", READ, ids=relative)
def test_a_docstring_of_a_function_begins_with_a_verb(path):
    """A property is a thing, so its docstring begins with a noun."""
    parts = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    functions = [part for part in parts if isinstance(part, FUNCTIONS)]
    functions = [f for f in functions if not any("property" in ast.unparse(how) for how in f.decorator_list)]
    first = {text.split()[0] for f in functions if (text := ast.get_docstring(f))}
    assert not first & NO_VERBS and all(word.isalpha() and word[0].isupper() for word in first)


# --- the page: prose, controls, wiring -------------------------------------------------------------------------------


def test_the_page_does_no_arithmetic_on_tensors():
    assert not imported(APP) & {"torch", "numpy", "scipy", "polars", "pandas", "math", "statistics"}


def test_values_flow_through_the_variables_of_cells():
    tree = ast.parse(APP.read_text(encoding="utf-8"))
    assigned = [ast.unparse(n.targets[0]) for n in ast.walk(tree) if isinstance(n, ast.Assign)]
    assert "_" not in assigned  # A variable called _ would only force an order of cells.
    assert "on_change" not in {node.arg for node in ast.walk(tree) if isinstance(node, ast.keyword)}
    cells = [n for n in tree.body if isinstance(n, ast.FunctionDef)]
    returned = [n.value for cell in cells for n in ast.walk(cell) if isinstance(n, ast.Return) and n.value]
    held = {n.id for value in returned for n in ast.walk(value) if isinstance(n, ast.Name)}
    assert {"board", "rewards", "weights", "convention", "grpo", "gdpo", "runs", "log", "report"} <= held
    assert all(c.end_lineno - c.lineno <= 40 for c in cells)
    assert all(len(c.args.args) <= (4 if c.name.endswith("_address") else 6) for c in cells)


# --- one HTML layer, one theme ----------------------------------------------------------------------------------------

SHEETS = sorted(path for folder in ARROW[1:] for path in (ROOT / folder).rglob("*.css"))
SCRIPTS = sorted([*(ROOT / "views").rglob("*.js"), *(ROOT / "gdpo_core").rglob("*.js")])
LAYERS = {"gdpo_core/shared/markup.py", "views/widgets/html.py"}
REPORT = [path for path in CORE if "report" in path.parts]
THEME = "gdpo_core/theme.css"


def calls(path, *names):
    """Return all calls of these functions in a file, as nodes of its syntax tree."""
    tree = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return [node for node in tree if isinstance(node, ast.Call) and ast.unparse(node.func) in names]


def said(path) -> list[str]:
    """Return all strings in a file except for docstrings; of an f-string, the parts that are plain text."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    strings = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [node.value for node in strings if id(node) not in alone]


def test_colours_stand_in_the_theme_alone():
    colour = re.compile(r"#(?:[0-9a-f]{6}|[0-9a-f]{3})\b|\b(?:rgb|hsl)a?\(", re.IGNORECASE)
    # This is the colour that a chart drew, with its name in the theme.
    filled = re.compile(r"\[fill=\"(#\w+)\"\](?=.*var\((--[\w-]+)\) \d+%)")
    texts = {relative(p): p.read_text("utf-8") for p in (APP, *CORE, *VIEWS, *SHEETS, *SCRIPTS)}
    holders = {path for path, text in texts.items() if colour.search(filled.sub("", text))}
    assert holders == {THEME}, "a colour stands in the theme alone"
    drawn = {(name, value) for text in texts.values() for value, name in filled.findall(text)}
    assert not [one for one in drawn if "{}: {};".format(*one) not in texts[THEME]], "the charts draw another colour"


def test_bold_is_one_weight():
    weights = re.compile(r"font(?:-w|W)eight[\":=]+ ?(\d+)|\bfont: (\d+) ")
    for path in [*SHEETS, *SCRIPTS, *VIEWS]:
        used = {a or b for a, b in weights.findall(path.read_text("utf-8"))}
        assert used <= {"400", "600"}, relative(path)


def test_a_line_under_text_is_drawn_in_webkit_too():
    """WebKit ignores a `text-decoration` that names anything besides the kind of line."""
    for path in SHEETS:
        more = re.findall(r"text-decoration: \w+ \w", path.read_text("utf-8"))
        assert not more, relative(path)


def test_sizes_of_text_and_spaces_are_those_of_the_theme():
    of_its_own = re.compile(r"(?<![\w-])(?:font-size|font|padding[\w-]*|margin[\w-]*|gap): [^;{}]*?[\d.]+px")
    for sheet in SHEETS:
        text = re.sub(r"calc\([^;]*\)", "", sheet.read_text(encoding="utf-8"))
        assert relative(sheet) == THEME or not of_its_own.findall(text)


@pytest.mark.slow
def test_tables_and_folds_are_built_by_the_layer_alone():
    for path in (APP, *VIEWS, *CORE):
        if relative(path) != "gdpo_core/shared/markup.py":
            first = [call.args[0] for call in calls(path, "tag", "html.tag", "markup.tag") if call.args]
            assert not {"table", "tr", "td", "th", "details"} & {getattr(arg, "value", None) for arg in first}


@pytest.mark.parametrize("path", [APP, *VIEWS, *REPORT], ids=relative)
def test_no_string_becomes_html_unescaped(path):
    if relative(path) in LAYERS:
        return
    tags = re.compile(r"</?[a-z][\w-]*[\s/>]|<$")
    assert not [text for text in said(path) if tags.search(text)]
    assert not calls(path, "mo.Html", "Markup", "markupsafe.Markup")
    assert all(isinstance(arg, ast.Constant) for call in calls(path, "Html", "html.Html") for arg in call.args)


# --- the documents ---------------------------------------------------------------------------------------------------

DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *ROOT.glob("[de]*/README.md")]
DOCUMENTS += ROOT.glob("skills/*/SKILL.md")
DOCUMENTS += ROOT.glob("gdpo_*/**/README.md")  # the guides of the rooms


def test_a_guide_to_a_room_is_read_on_one_screen():
    guides = [path for path in DOCUMENTS if path.parts[len(ROOT.parts)].startswith("gdpo_")]
    assert len(guides) == 3 and all(len(path.read_text("utf-8").splitlines()) <= 30 for path in guides)


@pytest.mark.parametrize("path", DOCUMENTS, ids=relative)
def test_a_link_inside_the_project_leads_somewhere(path):
    for link in re.findall(r"(?:\]\(|src=\"|srcset=\")([^)\s\"]+)[)\"]", path.read_text(encoding="utf-8")):
        file, _, section = link.partition("#")
        if "://" not in link:
            there = (path.parent / file) if file else path
            assert there.exists(), link
            titles = re.findall(r"^#+ (.+)$", there.read_text(encoding="utf-8"), re.M) if section else []
            assert not section or section in [re.sub(r"[^\w -]", "", t).lower().replace(" ", "-") for t in titles], link


# These texts between backticks look like paths and are none of the project. Each document has exactly these.
NO_PATHS = {
    "docs/audit.md": {
        "audit/constant_groups/NAME",
        "audit/push/NAME",
        "audit/update_share/METHOD/NAME",
        "media/table",
    },  # of trackers
    "docs/means.md": {"rewards/NAME/mean", "rewards/NAME/std", "trainer_state.json"},  # of trackers and of TRL
}
PATH = re.compile(  # a name with "._" is that of a private module
    r"(?!\w+\._)[\w.*<>-][\w.*/<>-]*(?:/[\w.*<>-]*|\.(?:py|md|json|css|js|toml|txt|yml|cff|csv|parquet|zip|ipynb|png))"
)


@cache
def tree() -> set[str]:
    """Return the path of every file and folder of the project, with a slash before it."""
    found = set()
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if not name.startswith(".") or name == ".github"]
        inside = [*files, *folders, *(f"{name}/" for name in folders)]
        found |= {f"{folder.removeprefix(str(ROOT))}/{name}" for name in inside}
    return found


@pytest.mark.parametrize("path", DOCUMENTS, ids=relative)
def test_a_path_that_a_document_names_is_there(path):
    """A path that does not begin at the root has to be the end of one that does."""
    text = path.read_text(encoding="utf-8")
    blocks = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
    of_others = re.compile(r"^### Where trainers leave their logs$.*?^## ", re.MULTILINE | re.DOTALL)
    prose = of_others.sub("", blocks.sub("", text))
    spans = {name.partition("::")[0] for name in re.findall(r"`([^`\s]+)`", prose)}
    named = set(filter(PATH.fullmatch, spans)) | set(re.findall(r"[\w./]*\w\.py\b", "".join(blocks.findall(text))))
    missing = {name for name in named if not fnmatch.filter(tree(), f"*/{name}")}
    assert missing == NO_PATHS.get(relative(path), set())


def test_the_commands_of_the_documents_are_found_and_each_that_is_not_tried_is_there():
    found = {document: list(documents.commands(document)) for document in documents.DOCUMENTS}
    assert found["README.md"][0] == "make run" and ".venv/bin/gdpo audit OUT --watch" in found["README.md"]
    assert "FORWARDED_ALLOW_IPS=10.0.0.2 .venv/bin/python serve.py --host 0.0.0.0" in found["docs/serving.md"]
    assert set(documents.NOT_TRIED) <= {command for commands in found.values() for command in commands}
    loop = "for a in 1 2; do\n  b $a\ndone"
    assert documents.typed(f"{loop}  # twice\n\nc  # d\n") == [loop, "c"]


def test_a_command_of_a_document_says_which_python_runs_it(subtests):
    bare = re.compile(r"(?<![\w/.-])python3? (?:-m |[\w/]+\.py)|^(?:gdpo|pip) ", re.MULTILINE)
    for path in DOCUMENTS:
        # The commands of these documents go to other people.
        if relative(path) != documents.REPORTS and path.name != "SKILL.md":
            with subtests.test(relative(path)):
                assert not bare.findall(path.read_text(encoding="utf-8"))


# --- the words of the code -------------------------------------------------------------------------------------------

NO_FIRST_WORDS = re.compile(r"(?:The same|That|What|Of|As|It|Its|This|Those|These|Which|How|Where|And|Also)\b")
PRONOUNS = {"one", "of", "it", "own", "other", "others", "found", "said"}


def docstrings(path) -> list[tuple[str, str]]:
    """Return the name and the docstring of a module, its classes and its functions, as far as they have one."""
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef)
    nodes = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, owners)]
    return [(getattr(node, "name", ""), text) for node in nodes if (text := ast.get_docstring(node))]


def bindings(path) -> set[str]:
    """Return every name that a file binds: variables, parameters, attributes, functions, classes and imports."""
    names: set[str | None] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.id if isinstance(node, ast.Name) else node.attr)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef | ast.MatchAs):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name)
    return {name.strip("_") for name in names if name}


@pytest.mark.parametrize("path", [*CORE, *VIEWS, *TOOLS, *TESTS, ROOT / "gdpo_cli.py", ROOT / "serve.py"], ids=relative)
def test_a_docstring_begins_with_what_it_says(path):
    assert not {name: text[:60] for name, text in docstrings(path) if NO_FIRST_WORDS.match(text)}


FILES = [*ROOT.glob("*.py"), *CORE, *VIEWS, *EXAMPLES, *TOOLS]
DESCRIPTION = re.compile(r"(?<=[.;:)] )(\*{0,2}\w+(?:, \*{0,2}\w+)*): ")  # "name: " or "a, b: " behind a sentence


def members(owner) -> set[str]:
    """Return the names that a docstring may describe: the arguments of a function, or the annotated fields of a
    class.
    """
    if isinstance(owner, ast.ClassDef):
        return {ast.unparse(part.target) for part in owner.body if isinstance(part, ast.AnnAssign)}
    return {part.arg for part in ast.walk(owner.args) if isinstance(part, ast.arg)}


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_the_description_of_an_argument_or_field_begins_a_line(path):
    owners = (ast.ClassDef, *FUNCTIONS)
    for owner in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(owner, owners):
            prose = (ast.get_docstring(owner) or "").partition(">>>")[0]
            inside_lines = DESCRIPTION.findall(prose)
            described = [names for names in inside_lines if set(re.findall(r"\w+", names)) <= members(owner)]
            assert not described, owner.name


@pytest.mark.parametrize("path", [*CORE, *VIEWS], ids=relative)
def test_names_are_nouns_of_the_field(path):
    assert not bindings(path) & PRONOUNS


# --- the length of the code ------------------------------------------------------------------------------------------

PACKAGES = [*CORE, *VIEWS, *sorted([*(ROOT / "scripts").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")])]
# These are the commands, conformance, examples and experiments.
BESIDE = [path for path in sorted([*ROOT.glob("*.py"), *ROOT.glob("[ce]*/*.py")]) if path != APP]
# Each of these functions is a table of sentences, in which nothing is computed from step to step.
TABLES = {("views/chapters/use/published_claims.py", "claims"), ("views/chapters/use/which.py", "cases")}


def length_of_code(function) -> int:
    """Return the number of lines of a function, without those of its docstring and of docstrings inside it."""
    documented = [f for f in ast.walk(function) if isinstance(f, FUNCTIONS) and ast.get_docstring(f) is not None]
    docstrings = [f.body[0] for f in documented]
    return function.end_lineno - function.lineno + 1 - sum(d.end_lineno - d.lineno + 1 for d in docstrings)


def test_a_file_has_at_most_400_lines_and_a_function_40():
    """The docstring of a function does not count. The page may be longer, as its limit is that of its cells, 40 lines
    each.
    """
    texts = {relative(path): path.read_text(encoding="utf-8") for path in [*PACKAGES, *BESIDE]}
    assert not {path for path, text in texts.items() if len(text.splitlines()) > 400}
    parts = [(path, part) for path in map(relative, PACKAGES) for part in ast.walk(ast.parse(texts[path]))]
    functions = [(path, f) for path, f in parts if isinstance(f, FUNCTIONS)]
    assert {(path, f.name) for path, f in functions if length_of_code(f) > 40} == TABLES


# --- the data --------------------------------------------------------------------------------------------------------

README = ROOT / "data" / "README.md"
COLUMNS = ["file", "what it is", "origin", "licence", "how made", "rows", "sha256"]


def rows() -> list[dict]:
    lines = [line for line in README.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    assert cells[0] == COLUMNS
    return [dict(zip(COLUMNS, row, strict=True)) for row in cells[2:]]


def test_every_file_of_data_has_one_row_with_every_cell_filled():
    named = [row["file"].strip("`") for row in rows()]
    assert len(named) == len(set(named))
    there = {
        relative(path)
        for folder in ("data", "tests/goldens")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path != README and not path.name.startswith(".")
    }
    assert set(named) == there
    assert all(cell for row in rows() for cell in row.values())


def test_a_file_of_data_has_the_checksum_of_its_row(subtests):
    for row in rows():
        with subtests.test(row["file"]):
            content = (ROOT / row["file"].strip("`")).read_bytes()
            assert sha256(content).hexdigest() == row["sha256"].strip("`")
