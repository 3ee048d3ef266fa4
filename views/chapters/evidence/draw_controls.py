"""The controls of Evidence: how many answers are drawn, which draw, which graders, and the weight of correctness."""

import marimo as mo

from views.bfcl import prompts
from views.widgets.nav import Nav


def draw_controls(page: Nav, models: int) -> tuple[mo.ui.slider, mo.ui.number]:
    """Return two controls at the values of the address: a slider for the answers per prompt, and a field for the number
    of the draw.

    page: holds the values of the address.
    models: how many answers each prompt has in all, which is the most that the slider can take.
    """
    answers = min(page.restore("evidence-group"), models)
    return (
        mo.ui.slider(2, models, value=answers, label="Answers per prompt", show_value=True, debounce=True),
        mo.ui.number(0, prompts.DRAWS - 1, value=page.restore("evidence-draw"), label="Draw"),
    )


def graders(page: Nav) -> mo.ui.array:
    """Return a menu for each mark, in which a reader chooses who grades it. At first the menus are set as the address
    says.
    """
    chosen = page.restore("evidence-graders", prompts.GRADED, ".".join(prompts.REWARDS))
    return mo.ui.array(
        [
            mo.ui.dropdown({words: key for key, words in readings.items()}, readings[key], label=f"{mark} is")
            for mark, readings, key in zip(prompts.REWARDS, prompts.READINGS, chosen.split("."), strict=True)
        ]
    )


def weight(page: Nav) -> mo.ui.slider:
    """Return the slider of the weight of correctness, at the value of the address."""
    value = page.restore("evidence-weight", prompts.WEIGHT_STEPS)
    label = "Weight of correctness"
    return mo.ui.slider(steps=prompts.WEIGHT_STEPS, value=value, label=label, show_value=True, debounce=True)
