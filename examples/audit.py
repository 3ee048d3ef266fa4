import marimo

__generated_with = "0.25.2"
app = marimo.App()


@app.cell
def _():
    import polars as pl

    import gdpo_audit as ga

    table = pl.read_parquet("data/samples/trl_gdpo/*.parquet")  # or pandas, Arrow, a list of dicts
    report = ga.audit(ga.read_run(table))
    report
    return (report,)


@app.cell
def _(report):
    report.findings_table()
    return


if __name__ == "__main__":
    app.run()
