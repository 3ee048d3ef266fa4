import marimo

__generated_with = "0.25.2"
app = marimo.App(width="full", app_title="The page's first section beside a download")

with app.setup:
    from functools import cache
    from pathlib import Path

    import marimo as mo

    from gdpo_core import bfcl
    from views.lab import Lab
    from views.link import Session

    DATA = Path(__file__).resolve().parents[2] / "data"

    @cache
    def table():
        """50 MB of numbers in CSV, of which gzip leaves about half."""
        line = "".join(f"{n},{n * 2654435761 % 2**32},{n * 40503 % 65536 / 65536:.6f}\n" for n in range(20_000))
        return (line * (50_000_000 // len(line) + 1)).encode()[:50_000_000]


@app.cell
def _():
    mo.ui.anywidget(Lab(bfcl.load_tasks(DATA / "tasks"), Session()))
    return


@app.cell
def _():
    mo.download(table(), filename="run.csv", mimetype="text/csv")
    return


if __name__ == "__main__":
    app.run()
