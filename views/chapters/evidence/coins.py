"""The runs of a small language model under TRL's own trainer, beside what the coins of the chapter Train had predicted
of them.
"""

from gdpo_core.conventions import NAMES
from gdpo_core.intervals import CONFIDENCE
from gdpo_core.shared.words import count, decimal, listing, number, percent, signed, word
from views.chapters.evidence.experiment import (
    ANSWERS,
    PARAMETERS,
    PREDICTED_SAME,
    PREDICTION_VERDICTS,
    CheckedPrediction,
    Experiment,
    load_experiment,
    verdict_on_gap,
)
from views.widgets.html import Cell, Html, callout, join, paragraphs, table, tag

FIRST_LEAST = 0.02  # the smallest difference as it was before two runs of the tuning set-up; see experiments/README.md
# data/predictions.json has the rule as it was committed before the runs.
RULE = (
    "For each set-up and reward we compare mean pass rates over all steps (of conciseness without the gate, too): the "
    f"mean over seeds of GDPO's less GRPO's of the same seed, with the {percent(CONFIDENCE)} interval of Student's t. "
    "The coins predicted “faster” or “slower” where their median difference is at least the smallest difference, and "
    "“no difference” elsewhere. “Faster” or “slower” held if the whole interval is on that side of 0. “No difference” "
    "held if the whole interval is nearer to 0 than the smallest difference."
)


def title() -> str:
    """Return the title of the fold: how many predictions of the coins held."""
    comparisons = load_experiment().comparisons
    held = sum(comparison.verdict == PREDICTION_VERDICTS[0] for comparison in comparisons)
    asked = "What did the coins of Train predict?"
    return f"{asked} {held} of {len(comparisons)} predictions about GDPO against GRPO held"


def coins() -> Html:
    """Return what the coins of the chapter Train had predicted of five set-ups, and what the runs showed: in words and
    in a table.
    """
    return join(callout(*_says(load_experiment())), _results_table())


def _says(experiment: Experiment) -> list[str]:
    """Return paragraphs: how many predictions held, in how many comparisons each method leads, and a sentence on each
    prediction that did not hold.
    """
    many, least = len(experiment.comparisons), experiment.predictions["smallest_difference"]
    held, not_held, unseen = (
        [comparison for comparison in experiment.comparisons if comparison.verdict == word]
        for word in PREDICTION_VERDICTS
    )
    apart = [comparison for comparison in experiment.comparisons if comparison.prediction != PREDICTED_SAME]
    right = [
        comparison for comparison in apart if (comparison.measured.mean > 0) == (comparison.prediction == "faster")
    ]
    large = sum(abs(comparison.measured.mean) >= least for comparison in right)
    never = sum(
        verdict_on_gap(PREDICTED_SAME, comparison.measured, least) == PREDICTION_VERDICTS[0]
        for comparison in experiment.comparisons
    )
    setups = count(len(experiment.predictions["setups"]), "set-up")
    before, point = (count(round(100 * x), "point") for x in (FIRST_LEAST, least))
    rest = f" {count(len(unseen))} {'shows' if len(unseen) == 1 else 'show'} no difference." if unseen else ""
    gdpo, grpo = (len(experiment.ahead(method)) for method in ("gdpo", "grpo"))
    return [
        f"A model of {PARAMETERS:,} parameters was trained by TRL in {setups}, with "
        f"{experiment.runs['seed'].n_unique()} seeds each. Before the first run the coins of Train said of each reward "
        f"whether GDPO would learn it faster, slower, or within {point} of GRPO (within {before} at first, until two "
        "runs of a set-up for tuning had shown how little seeds differ). "
        f"**{len(held)} of {many} predictions held, {len(not_held)} did not.**{rest} Of {len(apart)} predicted "
        f"differences {len(right)} have the right sign and {large} are of {point} or more; a prediction of “no "
        f"difference” each time would have held in {never}.",
        f"Counting every difference of {point} or more, **GDPO leads in {len(experiment.ahead('gdpo', least))} and "
        f"GRPO in {len(experiment.ahead('grpo', least))}** of the {many} comparisons. Counting every difference whose "
        f"{percent(CONFIDENCE)} interval excludes 0, **GDPO leads in {gdpo} and GRPO in {grpo}**; chance alone would "
        f"give about {decimal((1 - CONFIDENCE) * many, 1)}.",
        *(_surprise(experiment, comparison) for comparison in not_held),
    ]


def _surprise(experiment: Experiment, comparison: CheckedPrediction) -> str:
    """Return a sentence on a prediction that did not hold: what the coins said, and which method leads by how much."""
    difference = comparison.measured.mean
    method = NAMES["gdpo" if difference > 0 else "grpo"]
    return (
        f"The coins missed one thing: in the set-up “{experiment.title(comparison.setup)}” they said "
        f"“{comparison.prediction}” of {comparison.reward}, and {method} is {_points(abs(difference))} points ahead."
    )


def _signed(x: float) -> str:
    """Return a difference of shares as text with its sign, in percentage points with one decimal.

    A difference of less than 0.05 points, up or down, has two decimals; if it rounds to 0 even so, it has no sign.
    """
    return signed(100 * x, 1 if abs(x) >= 0.0005 else 2)


def _points(x: float) -> str:
    """Return a difference of shares as text in percentage points, with one decimal unless it is whole or rounds to 0.

    The text has neither a plus sign nor the word "points".
    """
    return decimal(100 * x, 1)


def limits() -> Html:
    """Return the paragraph on what such a small experiment cannot show."""
    runs, measured = load_experiment().runs, load_experiment().predictions["measured"]
    seeds, last = runs["seed"].n_unique(), runs["step"].max()
    return paragraphs(
        "The model was made here from nothing; it answers requests of a few kinds with calls of "
        f"{number(runs['length'].min(), 2)} to {number(runs['length'].max(), 2)} tokens, and starts where "
        f"{listing(map(percent, measured['pass_rates']))} of its answers pass the {word(len(measured['pass_rates']))} "
        f"graders. Each run is {last} steps of {ANSWERS} answers, with {seeds} seeds per set-up and method, Adam and "
        "TRL's defaults, on requests that it is also graded on. Its faults were planted independently of each other; "
        "real ones need not be. A larger model, another task or longer training can differ. The comparisons of one "
        "set-up share their runs, so they are not independent."
    )


def _results_table() -> Html:
    """Return a table with a row per prediction, and below it the rule by which a prediction gets its verdict.

    A row has the difference GDPO − GRPO twice: for the coins, from which the prediction was made, and for the model's
    runs.
    """
    experiment = load_experiment()
    rows = [
        [
            experiment.title(comparison.setup),
            comparison.reward,
            comparison.prediction,
            _signed(comparison.coins),
            _signed(comparison.measured.mean),
            f"{_signed(comparison.measured.low)} to {_signed(comparison.measured.high)}",
            Cell(comparison.verdict, "ahead" if comparison.verdict != PREDICTION_VERDICTS[0] else ""),
        ]
        for comparison in experiment.comparisons
    ]
    head = ["set-up", "reward", "predicted of GDPO", "coins", "model", f"{percent(CONFIDENCE)} interval", "verdict"]
    return join(
        table(head, rows, "figures", "GDPO − GRPO of the mean pass rate over all steps, in points"),
        tag("p", RULE, kind="note"),
    )
