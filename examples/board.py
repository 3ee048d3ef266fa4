import marimo

__generated_with = "0.25.2"
app = marimo.App(width="full")

with app.setup:
    import marimo as mo

    import gdpo_core as gc
    from gdpo_core.board import Board


@app.cell
def _():
    # One prompt, eight answers: their rewards and, where you have them, their texts.
    board = mo.ui.anywidget(
        Board(
            [[1, 1, 0.2], [1, 1, 0.9], [0, 1, 0.9], [1, 0, 0.4], [0, 1, 0.2], [1, 1, 0.2], [0, 0, 0.9], [1, 0, 0.9]],
            names=["correct", "format", "fluency"],
            primary="correct",
        )
    )
    board
    return (board,)


@app.cell
def _(board):
    # Runs again whenever a mark is flipped.
    {method: gc.advantages(board.rewards, method, weights=board.weights).tolist() for method in ("grpo", "gdpo")}
    return


if __name__ == "__main__":
    app.run()
