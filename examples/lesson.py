# /// script
# requires-python = ">=3.11"
# dependencies = ["marimo>=0.25.2", "altair>=6.3", "polars>=1.31", "gdpo[audit]"]
# ///
import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="GRPO and GDPO in eight cells")

with app.setup:
    import marimo as mo
    import polars as pl

    import gdpo_core as gc

    BOTH_METHODS = {"GRPO": "grpo", "GDPO": "gdpo"}
    GRADERS = ["correct", "well styled", "concise"]
    COINS = ["first coin", "second coin", "third coin"]
    COLOURS = {"domain": ["GRPO", "GDPO", "no method"], "range": ["#c8641e", "#3b82d0", "#8a8a8a"]}
    IN_COLOURS = {"type": "nominal", "scale": COLOURS}
    LARGEST_ON_TOP = {"type": "nominal", "sort": "-x", "title": None}
    FROM_0_TO_1 = {"type": "quantitative", "scale": {"domain": [0, 1]}, "title": None}
    MARKS = [[1, 1, 1], *[[1, 1, 0]] * 5, [1, 0, 1], *[[1, 0, 0]] * 3, [0, 1, 1], [0, 1, 0]]  # (answers, rewards)

    def drawn(chart, title):
        """Return a chart with a title, as wide as there is room, and with fixed axes."""
        return chart.properties(title=title, description=title, width="container", params=[])


@app.cell(hide_code=True)
def _():
    mo.md("""
    # GRPO and GDPO in eight cells

    A model gave twelve answers to one request, and three graders marked each of them: 1 for a pass, 0 for a fail.
    GRPO adds the marks of an answer, then normalises the sum within the twelve. GDPO normalises each mark first, then
    adds. **Change a mark:** drag it, or select it and press an arrow key. Which answers get the same advantage?
    """)
    return


@app.cell
def _():
    marks = mo.ui.matrix(MARKS, min_value=0, max_value=1, row_labels=[*map(str, range(1, 13))], column_labels=GRADERS)
    marks
    return (marks,)


@app.cell
def _(marks):
    answers = [f"{i}: {' '.join(map(str, row))}" for i, row in enumerate(marks.value, 1)]
    table = pl.DataFrame(
        {"answer": answers, "GRPO": gc.grpo(marks.value).tolist(), "GDPO": gc.gdpo(marks.value).tolist()}
    )
    mo.ui.table(table, pagination=False, selection=None, format_mapping=dict.fromkeys(BOTH_METHODS, "{:+.2f}"))
    return (table,)


@app.cell
def _(marks):
    # A mix says which marks an answer passed. Two answers with different mixes and the same advantage are a tied pair.
    ties = {name: gc.collapse(marks.value, method) for name, method in BOTH_METHODS.items()}
    pl.DataFrame(
        {"method": name, "mixes": len({*map(tuple, marks.value)}), "advantages": len({*collapse.level.tolist()})}
        | {"tied": collapse.tied_pair_count}
        for name, collapse in ties.items()
    )
    return (ties,)


@app.cell
def _(table, ties):
    # A level is one of the distinct advantages. Where answers of one level have different marks, the method ties them.
    mix = pl.col("answer").str.split(": ").list.last()
    bars = []
    for name, collapse in ties.items():
        tied = mix.n_unique().over(pl.lit(pl.Series(collapse.level.tolist()))) > 1
        marked = table.with_columns(pl.when(tied).then(pl.lit(name)).otherwise(pl.lit("no method")).alias("tied by"))
        bar = marked.plot.bar(x=name, y={"field": "answer", **LARGEST_ON_TOP}, color={"field": "tied by", **IN_COLOURS})
        bars.append(drawn(bar, f"Advantages under {name}, coloured where {name} ties different answers"))
    mo.hstack([mo.style(bar, flex="1 1 20rem") for bar in bars], wrap=True)  # side by side where there is room
    return


@app.cell
def _():
    start = mo.ui.slider(0.05, 0.95, 0.05, 0.3, label="first coin", show_value=True)
    mo.md(f"""
    ## What a policy learns from it

    Three coins stand for the three graders. A coin that shows 1 earns its reward: 1 for the first coin, 3 for the
    second, 10 for the third. In 150 epochs training raises the probability of a 1. Where does the first coin start?

    {start}
    """)
    return (start,)


@app.cell
def _(start):
    p0, scale, weights = [start.value, 0.5, 0.1], [1, 3, 10], [1, 1, 1]
    runs = {
        name: gc.train(method, p0, scale=scale, weights=weights, epochs=150, seeds=8)
        for name, method in BOTH_METHODS.items()
    }
    # The table says after how many epochs a coin shows 1 in nine of ten throws: the median of eight seeds.
    pl.DataFrame({"coin": COINS} | {name: run.steps_to(0.9).median(0).values.tolist() for name, run in runs.items()})
    return (runs,)


@app.cell
def _(runs):
    curves = pl.concat(
        pl.DataFrame(run.p.median(0).values.numpy(), COINS).with_row_index("epoch").with_columns(method=pl.lit(name))
        for name, run in runs.items()
    )
    panels = []
    for coin in COINS:
        rows = curves.select("epoch", "method", pl.col(coin).round(3))
        lines = rows.plot.line(x="epoch", y={"field": coin, **FROM_0_TO_1}, color={"field": "method", **IN_COLOURS})
        panels.append(drawn(lines, f"{coin.capitalize()}: probability of a 1"))
    mo.hstack([mo.style(panel, flex="1 1 18rem") for panel in panels], wrap=True)
    return


if __name__ == "__main__":
    app.run()
