"""The sample logs that come with the page, and where each of them comes from."""

from dataclasses import dataclass
from pathlib import Path

DATA_FOLDER = Path(__file__).resolve().parents[3] / "data"
REAL = "A real trainer ({}) wrote this log with a tiny random model: the log is short, and the responses are gibberish."


@dataclass(frozen=True)
class Sample:
    """A log that comes with the page.

    title: the name that the page shows.
    path: the sample's file or folder in data/samples.
    source_note: sentences on where the log comes from, in which text between two ** is bold.
    primary: the reward that matters most, None if none is known.
    """

    title: str
    path: str  # in data/samples
    source_note: str  # sentences on where it comes from; text between two ** is bold
    primary: str | None = None

    @property
    def id(self) -> str:
        """The name that the sample has in the address."""
        return self.path.removesuffix(".zip")

    def files(self) -> dict[str, bytes]:
        """Return the content of the sample's files by their names."""
        path = DATA_FOLDER / "samples" / self.path
        return {file.name: file.read_bytes() for file in (sorted(path.iterdir()) if path.is_dir() else [path])}


def _trained(title: str, path: str, method: str) -> Sample:
    """Return the sample of a real run of our small language model, trained with TRL. The runs of GRPO and of GDPO have
    the same checkpoint and seed.

    path: the folder of the log in data/samples.
    method: the name of the method, GRPO or GDPO.
    """
    note = (
        f"**A real run**: TRL's trainer with **{method}** on a small language model of our own. Correctness and style "
        "pay 1, conciseness pays 5. These are its first steps; Evidence shows whole runs."
    )
    return Sample(title, path, note, "correctness")


SAMPLES = (
    _trained("a small model under GRPO", "pays_5_grpo", "GRPO"),
    _trained("the same model and seed under GDPO", "pays_5_gdpo", "GDPO"),
    Sample(
        "mathematics: a small model that adds",
        "arithmetic",
        "**A real run**: TRL's trainer with **GRPO** on a tiny model of our own that does sums. It has three rewards, "
        "each 1 or 0: for the form of the answer, for its value, and for being a whole number.",
        "correct",
    ),
    Sample(
        "made from published answers",
        "published_answers.zip",
        "This log was made for this page and is **no training run**: it holds verdicts on published answers of 71 "
        "configurations of 50 models, laid out like a log of TRL's GRPO. Every weight is 1, but style pays 0 or 5 and "
        "the other rewards pay 0 or 1, a common mistake. The steps follow the benchmark from one call to several: what "
        "changes over the steps is the prompts, not a policy.",
        primary="correctness",
    ),
    Sample("TRL with GDPO", "trl_gdpo", REAL.format("TRL 1.16")),
    Sample(
        "TRL, two reward functions of one name",
        "trl_same_name",
        REAL.format("TRL 1.16") + " Two of its reward functions have the same name, which the log shows.",
    ),
    Sample("ms-swift", "ms_swift", "ms-swift 4.6 itself wrote this log, for responses that are invented."),
    Sample("verl, v1 trainer", "verl_v1", "verl 0.9 itself wrote this log, for responses that are invented."),
)
