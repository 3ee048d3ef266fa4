import marimo

__generated_with = "0.25.2"
app = marimo.App()

with app.setup:
    import marimo as mo
    import polars as pl

    import gdpo_audit as ga


@app.cell(hide_code=True)
def _():
    mo.md("""
    # Audit my run

    **1. Train with a log.** TRL writes a Parquet file per step into `OUT/completions`, a row per completion with each
    reward and the advantage:

    ```python
    GRPOConfig(output_dir="OUT", log_completions=True, logging_steps=1)
    ```

    Other trainers have other lines: the page's chapter *Use it* writes them.

    **2. Read it.** Put your own `OUT/completions` in place of the sample, and name the reward that matters most. The
    sample is the log of a small language model under TRL's GRPO, where conciseness pays 5 and the other rewards pay 1.
    """)
    return


@app.cell
def _():
    log, primary = "data/samples/pays_5_grpo", "correctness"
    run = ga.read_run(log)  # a path, several, a URL, or a table of polars, pandas or Arrow
    run.table.head()
    return primary, run


@app.cell(hide_code=True)
def _():
    mo.md("""
    **3. What made the advantages, and what each reward did.** The first line says what to do, if anything.
    `gdpo audit OUT/completions --html report.html` writes the same as a file with sliders for the weights.
    """)
    return


@app.cell
def _(primary, run):
    report = ga.audit(run, primary=primary)
    report
    return (report,)


@app.cell(hide_code=True)
def _():
    mo.md("""
    **4. The findings**, and the groups that show them best, with prompt and answers.
    """)
    return


@app.cell
def _(report):
    mo.vstack([report.findings_table(), report.groups_table()])
    return


@app.cell(hide_code=True)
def _():
    mo.md("""
    **5. The plan.** Each setting was tried on this log; the first is the run as it was. Shares are of the update.
    """)
    return


@app.cell
def _(report):
    plan = pl.DataFrame(
        {
            "setting": setting.title,
            "recommended": setting.recommended,
            **{f"share of {name}": round(share, 2) for name, share in setting.update_share.items()},
            "wrong order": setting.inversions,
            "tied pairs": setting.tied_pairs,
        }
        for setting in report.plan
    )
    plan
    return (plan,)


@app.cell
def _(report):
    # The lines that bring the recommended setting about, if the log gives a reason to change anything.
    lines = next((setting.lines for setting in report.plan if setting.recommended), "nothing to change")
    mo.md(f"```python\n{lines}\n```")
    return (lines,)


@app.cell
def _(report):
    # Any other setting that you like, computed on the whole run.
    report.what_if(method="gdpo", weights={"conciseness": 0.5}).after
    return


if __name__ == "__main__":
    app.run()
