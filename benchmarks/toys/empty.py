import marimo

__generated_with = "0.25.2"
app = marimo.App(width="full", app_title="Nothing but a sentence")


@app.cell
def _():
    import marimo as mo

    return (mo,)


@app.cell
def _(mo):
    mo.Html("<p class='shown'>This app computes nothing.</p>")
    return


if __name__ == "__main__":
    app.run()
