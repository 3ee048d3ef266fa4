"""The thresholds of the findings, each with the reason for it. The evidence of a finding repeats the thresholds that
the finding used.
"""

from math import sqrt

# --- shares of the update ---

DOMINATES = 0.6  # A reward with this share makes more than all others together, with room for noise.
# It also has to make so many times what its weight asks for, or to leave to the others their part divided by this
# number. Less may be meant.
DOMINATES_BY = 2.0
# GDPO has to move a share so far towards what the weight asks for; otherwise the share is no matter of scale.
BY_SCALE = 1 / 3
# A reward is starved below this part of what its weight asks for. Spreads of 1 : 2 alone, squared, make a quarter.
STARVED = 0.25
STARVED_DUE = 0.03  # If its weight asks for less than this share, a reward is hardly meant to count.
STARVED_EXTENT = 0.5  # A reward that is starved for less than this part of the run, up to its end, may only be lagging.
# The run is searched in parts for the step from which on a reward is starved. In fewer groups a share says little.
STARVED_GROUPS = 16
MOVED = 0.1  # A share that moves by less counts as the same share.
# Weights that are said to give the shares that are asked for miss them by at most this part of the update: half of what
# counts as a move of a share.
MISSED = 0.05

# --- constant, nearly constant and fading rewards ---

# A reward is dead if it is constant in so large a share of the groups. One that differs in more still teaches
# something.
DEAD = 0.95
# A reward is nearly constant in a group if its std is at most this part of its largest absolute value there.
FAINT_STD = 1e-2
# If a larger share of a group has its lowest or highest value, the reward has few values, such as 5 and 5.01: no noise.
FEW_DIFFERENT = 0.25
# If a reward is nearly constant in this share of the groups in which it differs, most of what it says is noise.
FAINT = 0.5
# A reward fades if the share of constant groups rises by so much from the first quarter to the last: less is drift.
FADES_DEAD = 0.25
# At this part of the update share of the first quarter, a reward has lost three quarters of what it did.
FADES_SHARE = 0.25
# A sentinel is a value far from all others, as of a judge that failed. Few responses have it, but no single one.
SENTINEL_ROWS, SENTINEL_LEAST = 0.15, 5
# A reward with fewer other values, such as 0 and 1, has no scale that one of its values could stand outside of.
SENTINEL_VALUES = 3
# These responses make at least half of the variance inside groups, so that they decide what the reward does.
SENTINEL_VARIANCE = 0.5
SENTINEL_STDS = 3.0  # It stands so many standard deviations inside groups from the others: more than normal noise does.
# A value next to the others is one of them unless it is so many times as common as its neighbour: a scale thins out.
SENTINEL_SPIKE = 3
BY_GROUPS = 16  # Of fewer groups with one value of a column, all may be constant by chance.
BY_RISE = 0.25  # If a reward is constant more often by less than this than elsewhere, the value is not why.
# A run needs so many batches, and a quarter of it so many groups, before a quarter says much.
FADES_BATCHES, FADES_GROUPS = 8, 16

# --- how the means of rewards move ---

# A mean changes if it moves by so many standard errors, with at least so many steps on either side. By chance one run
# in a hundred shows more.
CHANGED, CHANGED_STEPS = 4.0, 3
FALLS = 0.25  # standard deviations of the reward over the run: a smaller fall of its mean is hardly seen in a plot
# So large a fall is a warning even if no other reward rises, or none is primary; less may be harder prompts, or meant.
FALLS_FAR = 0.75
RETURNING = 5  # Of fewer prompts that come both early and late, the change of one decides.
# The share of the update from groups without a right answer: a fifth is worth knowing, at a half being right decides
# less.
UNRIGHT_INFO, UNRIGHT_WARNING = 0.2, 0.5
TWO_VALUES = 1e-9  # The round-off of a variance, as a part of the squared range of a reward.

# --- what a method does ---

AMPLIFIED = 2.0  # GDPO amplifies noise if the noise has so many times its update share under GRPO.
AMPLIFIED_SHARE = 0.1  # Below this share of the update noise does little harm.
TIES = 0.25  # Ties are reported from this share of the groups whose responses differ.
TIED_PAIRS = 0.05  # A share of the pairs that differ: large groups easily hold a tie, and a few ties cost little.
# If GDPO leaves a larger part of the tied pairs, the ties come from the rewards and not from the method.
TIES_LEFT = 0.5
# Shares of the groups: from a tenth on, prompts are too easy or too hard; at three tenths a third of the work is lost.
SILENT_INFO, SILENT_WARNING = 0.1, 0.3
AMPLIFIES = 1.5  # With so many times the advantages, a step is half as long again as its learning rate says.
INVERTED_INFO, INVERTED_WARNING = 0.05, 0.1  # Shares of the pairs with different primary reward.
PUSHED = 0.2  # A reward that makes little of the update itself but is pushed so much rises together with others.
WEAK_PUSH = 0.5  # A reward with less than this part of the largest push is learnt more slowly than another one.
PUSH_MOVED = 0.02  # A push that moves by less moves by noise, even in a large log.
# With more than so many times the largest other weight, the other rewards hardly count, as behind a gate.
BREAK_EVEN = 100.0

# --- pairs of rewards, lengths, a trainer's own metrics ---

CONFLICT = -0.5  # At this correlation inside groups, a quarter of what one reward does undoes the other.
BLIND = 0.5  # If a reward is constant in so many more groups than the metric shows, half of the groups are hidden.
FILTERED = 0.1  # From this share of the groups on, a filter loses a tenth of a batch, or draws it again.
LENGTH = 0.3  # At this correlation inside groups, a tenth of what the reward says is length.
CHANCE = 3.0  # standard errors: in a small log larger correlations come by chance

# --- the log ---

EVERY_NTH = 0.8  # If so large a share of the gaps between steps is equal, the log holds every n-th step.
# Fewer of the groups that are not reproduced may hold equal rewards with different advantages by chance of rounding.
MERGED = 0.05
# If in so large a share of the groups that are not reproduced the advantages are a multiple of what they should be,
# that is how they went wrong.
SCALE_ONLY = 0.5
FEW_GROUPS = 30  # Below so many groups, a share of them is uncertain by a tenth and more.
# With fewer groups in which it varies, or fewer responses per reward, a reward follows from others by chance.
VARYING, DEGREES = 4, 3
# If more of the variance of a total is in no column, what is missing may outweigh what is there.
MISSING_OF_TOTAL = 0.1
# If others explain all but this part of a reward's variance, the reward follows from them: the rest is round-off.
NO_SPREAD = 1e-11


def push_noise(responses: int) -> float:
    """Return by how much a push that was measured on so many responses may differ by chance, at least `PUSH_MOVED`.

    >>> push_noise(100), push_noise(1_000_000)
    (0.1, 0.02)
    """
    return max(PUSH_MOVED, 1 / sqrt(max(responses, 1)))
