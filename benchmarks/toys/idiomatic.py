import marimo

__generated_with = "0.25.2"
app = marimo.App(width="full", app_title="The toy, as marimo's guide would write it")


@app.cell
def imports():
    from pathlib import Path

    import altair as alt
    import marimo as mo
    import polars as pl

    import gdpo_core as gc
    from views import bfcl

    return Path, alt, bfcl, gc, mo, pl


@app.cell
def rewards(Path, bfcl):
    root = Path(__file__).resolve().parents[2]
    graded = [grades.vector for grades in bfcl.grade_all(bfcl.load_tasks(root / "data" / "tasks")[0])]
    return (graded,)


@app.cell
def controls(bfcl, graded, mo):
    toggles = mo.ui.array(
        [
            mo.ui.checkbox(value=bool(passed), label=name)
            for row in graded
            for name, passed in zip(bfcl.REWARDS, row, strict=True)
        ]
    )
    mo.vstack(
        [
            mo.hstack([mo.md(f"Answer {i + 1}"), *toggles[3 * i : 3 * i + 3]], justify="start")
            for i in range(len(graded))
        ]
    )
    return (toggles,)


@app.cell
def chart(alt, gc, graded, pl):
    limit = gc.grpo([[1]] + [[0]] * (len(graded) - 1)).max().item()

    def bars(title, advantages, colour):
        rows = pl.DataFrame({"answer": range(1, len(advantages) + 1), "advantage": advantages})
        return (
            alt.Chart(rows)
            .mark_bar(color=colour)
            .encode(
                x=alt.X("advantage:Q", scale=alt.Scale(domain=[-limit, limit], nice=False)),
                y=alt.Y("answer:O"),
            )
            .properties(title=title, width=360, height=22 * len(advantages))
        )

    return (bars,)


@app.cell
def charts(bars, gc, graded, mo, toggles):
    passed = [[int(toggles.value[3 * i + k]) for k in range(3)] for i in range(len(graded))]
    grpo, gdpo = gc.grpo(passed).tolist(), gc.gdpo(passed).tolist()
    levels = [len({round(a, 6) for a in advantages}) for advantages in (grpo, gdpo)]
    mo.vstack(
        [
            mo.hstack([bars("GRPO", grpo, "#c8641e"), bars("GDPO", gdpo, "#3b82d0")], justify="start"),
            mo.md(
                f"{len(set(map(tuple, passed)))} reward mixes get **{levels[0]} levels** from GRPO "
                f"and **{levels[1]} levels** from GDPO."
            ),
        ]
    )
    return


if __name__ == "__main__":
    app.run()
