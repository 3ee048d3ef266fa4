"""Names and the look of the methods, and the formats of numbers under the names that the views use."""

from gdpo_core._words import count, listing, percent, signed, word
from gdpo_core._words import decimal as number
from gdpo_core._words import power_of_ten as tiny
from gdpo_core.rules import NAMES

__all__ = ["BAND", "COLOURS", "DASHES", "NAMES", "SHAPES"]
__all__ += ["count", "listing", "number", "percent", "signed", "tiny", "word"]

COLOURS = {"GRPO": "#c8641e", "GRPO without std": "#8a8a8a", "GDPO": "#3b82d0"}
SHAPES = {  # SVG paths of size 2
    "GRPO": "M-1,0A1,1,0,1,1,1,0A1,1,0,1,1,-1,0Z",
    "GRPO without std": "M-.9,-.9H.9V.9H-.9Z",
    "GDPO": "M0,-1.1L1.1,.9H-1.1Z",
}
DASHES = {"GRPO": [1, 0], "GRPO without std": [2, 3], "GDPO": [8, 4]}

BAND = (0.05, 0.95)  # quantiles over seeds between which a band is drawn
