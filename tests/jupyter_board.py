"""The board in JupyterLab and in Jupyter Notebook, in a real browser; `make jupyter` runs it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import gdpo_core as gc
from benchmarks.browser import browser
from benchmarks.servers import end, until_listening, unused_port

ROOT = Path(__file__).parent.parent
NOTEBOOK = ROOT / "examples" / "board.ipynb"
BARS = """board => {
  const rows = [...board.querySelectorAll(".row")]
  const number = row => Number(row.querySelector(".number").textContent)
  rows.sort((one, other) => number(one) - number(other))
  const said = node => Number(node.textContent.match(/[+−]?[\\d.]+$/)[0].replace("−", "-"))
  return rows.map(row => [...row.querySelectorAll(".value")].map(said))
}"""


@pytest.fixture(scope="module")
def jupyter(tmp_path_factory):
    """Yield the address of a running JupyterLab whose folder holds the board's example, with a second view of the
    board.
    """
    port = unused_port()
    folder = tmp_path_factory.mktemp("notebooks")
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    again = {"cell_type": "code", "execution_count": None, "id": "again", "metadata": {}, "outputs": []}
    notebook["cells"].append(again | {"source": ["board"]})  # This cell shows the board a second time.
    (folder / "board.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    command = [sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root", f"--port={port}"]
    command += ["--ServerApp.token=", "--ServerApp.password=", f"--ServerApp.root_dir={folder}"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until_listening(server, port)
        yield f"http://127.0.0.1:{port}"
    finally:
        end(server)


def rewards():
    """Return the rewards in the example's notebook."""
    source = "".join(json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"][1]["source"])
    names = {"Board": lambda rewards, **_: rewards}
    exec(source, names)
    return names["board"]


@pytest.mark.parametrize(
    ("path", "width"), [("lab/tree/board.ipynb", 1400), ("notebooks/board.ipynb", 1400), ("notebooks/board.ipynb", 390)]
)
def test_a_flip_in_jupyter_moves_the_bars_to_what_the_core_computes(jupyter, path, width):
    """After a flip the bars move in both views of the board, and in another tab, which is opened after some marks were
    set.
    """
    expected = rewards()

    def all_show_it():
        both = [gc.advantages(expected, method).tolist() for method in ("grpo", "gdpo")]
        wanted = json.dumps([[round(a, 2) for a in one] for one in zip(*both, strict=True)], separators=(",", ":"))
        for page in pages:
            page.wait_for_function(
                f"""wanted => {{
                  const seen = [...document.querySelectorAll(".board-root")].filter((host) => host.checkVisibility())
                  const boards = seen.map((host) => host.shadowRoot.querySelector(".board"))
                  return boards.length === 2 && boards.every((board) => JSON.stringify(({BARS})(board)) === wanted)
                }}""",
                arg=wanted,
            )

    with browser() as started:
        context = started.new_context(viewport={"width": 1400, "height": 2400})
        pages = [first] = [context.new_page()]
        first.goto(f"{jupyter}/{path}")
        first.locator(".jp-Cell").first.wait_for(timeout=60_000)
        first.wait_for_timeout(5000)  # The kernel listens only after some seconds.
        first.locator(".jp-Cell .cm-content").first.click()
        for _ in range(4):
            first.keyboard.press("Shift+Enter")
            first.wait_for_timeout(500)
        first.locator(".board .bar .value").first.wait_for(timeout=60_000)
        first.set_viewport_size({"width": width, "height": 2400})
        all_show_it()
        boards = first.locator(".board")
        boards.nth(0).get_by_label("Answer 4, correct").click()
        expected[3][0] = 0
        all_show_it()
        fluency = boards.nth(1).get_by_label("Answer 6, fluency")
        fluency.fill("0.5")
        fluency.press("Tab")
        expected[5][2] = 0.5
        all_show_it()
        first.keyboard.press("Control+s")
        first.wait_for_timeout(2000)
        pages.append(context.new_page())
        pages[1].goto(f"{jupyter}/{path}")
        all_show_it()
        pages[1].locator(".board").nth(0).get_by_label("Answer 1, format").click()
        expected[0][1] = 0
        all_show_it()
