"""The page's first section in Dash: one checklist per answer, and one callback that draws both bar charts."""

import sys
from pathlib import Path

import plotly.graph_objects as go
from dash import ALL, Dash, Input, Output, dcc, html

import gdpo_core as gc
from views import bfcl

ROOT = Path(__file__).resolve().parents[2]
GRADED = [grades.vector for grades in bfcl.grade_all(bfcl.load_tasks(ROOT / "data" / "tasks")[0])]
LIMIT = gc.grpo([[1]] + [[0]] * (len(GRADED) - 1)).max().item()

app = Dash(__name__, title="The toy, in Dash")


def checklist(answer: int) -> dcc.Checklist:
    """Return the three boxes of one answer, one for each mark. The boxes of passed marks are ticked.

    answer: its number, from 0.
    """
    ticked = [name for name, passed in zip(bfcl.REWARDS, GRADED[answer], strict=True) if passed]
    return dcc.Checklist(list(bfcl.REWARDS), ticked, id={"answer": answer}, inline=True)


def bars(title: str, advantages: list[float], colour: str) -> go.Figure:
    """Return a chart with one horizontal bar per answer. Its axis never changes, and goes as far as the largest
    advantage that an answer can get.
    """
    answers = [str(i + 1) for i in range(len(advantages))]
    figure = go.Figure(go.Bar(x=advantages, y=answers, orientation="h", marker_color=colour))
    figure.update_layout(title=title, width=420, height=120 + 22 * len(advantages))
    figure.update_xaxes(range=[-LIMIT, LIMIT])
    figure.update_yaxes(type="category", autorange="reversed")
    return figure


app.layout = html.Div(
    [
        *(
            html.Div([html.Span(f"Answer {i + 1}"), checklist(i)], style={"display": "flex"})
            for i in range(len(GRADED))
        ),
        html.Div([dcc.Graph(id="grpo"), dcc.Graph(id="gdpo")], style={"display": "flex"}),
        html.P(id="sentence"),
    ]
)


@app.callback(
    Output("grpo", "figure"),
    Output("gdpo", "figure"),
    Output("sentence", "children"),
    Input({"answer": ALL}, "value"),
)
def draw(ticked):
    """Return the chart of GRPO, the chart of GDPO, and the sentence below them.

    ticked: for each answer, the names of the marks it passed.
    """
    passed = [[int(name in row) for name in bfcl.REWARDS] for row in ticked]
    grpo, gdpo = gc.grpo(passed).tolist(), gc.gdpo(passed).tolist()
    levels = [len({round(a, 6) for a in advantages}) for advantages in (grpo, gdpo)]
    mixes = len({tuple(row) for row in passed})
    return (
        bars("GRPO", grpo, "#c8641e"),
        bars("GDPO", gdpo, "#3b82d0"),
        f"{mixes} reward mixes get {levels[0]} levels from GRPO and {levels[1]} levels from GDPO.",
    )


if __name__ == "__main__":
    app.run(host="127.0.0.1", port=sys.argv[1], debug=False)
