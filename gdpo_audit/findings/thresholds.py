"""The thresholds of the findings, each with the reason for it. The evidence of a finding repeats the thresholds that
the finding used.
"""

from math import sqrt

DOMINATES = 0.6  # share of the update: more than all other rewards together, with room for noise
DOMINATES_BY = 2.0  # times what its weight asks for, or the others at most their part over this: less may be meant
BY_SCALE = 1 / 3  # of the way to what its weight asks for: a share that GDPO moves by less is not a matter of scale
STARVED = 0.25  # of what its weight asks for: a quarter, where squares of spreads of 1 : 2 alone make such a quarter
STARVED_DUE = 0.03  # of the update, by its weight: a reward that could have less is hardly meant to count
STARVED_PART = 0.5  # of the run, up to its end: a reward starved for less may only be lagging
STARVED_GROUPS = 16  # in each part of the run that is searched for the step from which on: of fewer a share says little
MOVED = 0.1  # of the update: a share that moves less is the same share
DEAD = 0.95  # share of the groups: a reward that differs in one of twenty still teaches something, a rarer one hardly
FAINT_STD = 1e-2  # std in a group, beside the largest absolute value there: what differs by less is nearly constant
FEW_VALUES = 0.25  # share of a group at its lowest or highest value: more mean few values, such as 5 or 5.01, not noise
FAINT = 0.5  # share of the groups in which a reward differs: most of what it says is noise
FADES_DEAD = 0.25  # by which the share of constant groups rises from the first to the last quarter: less is drift
FADES_SHARE = 0.25  # times the update share of the first quarter: three quarters of what it did are gone
BY_GROUPS = 16  # that have a value of a column: of fewer, all may be constant by chance
BY_RISE = 0.25  # by which a reward is constant more often there than elsewhere: less is no matter of the value
FADES_BATCHES, FADES_GROUPS = 8, 16  # in the run, and in a quarter of it: of fewer a quarter says little
CHANGED, CHANGED_STEPS = 4.0, 3  # errors of a change of mean: one run in a hundred shows more by chance; steps a side
FALLS = 0.25  # standard deviations of a reward over the run: a smaller fall of its mean is hardly seen in a plot
FALLS_FAR = 0.75  # a warning even where nothing rises, or no reward is primary: less may be harder prompts, or meant
UNRIGHT_INFO, UNRIGHT_WARNING = 0.2, 0.5  # of the update: a fifth is worth knowing; of half, being right decides less
TWO_VALUES = 1e-9  # of the squared range: the round-off of a variance
AMPLIFIED = 2.0  # times the update share that it has under GRPO
AMPLIFIED_SHARE = 0.1  # of the update: below, noise does little harm
TIES = 0.25  # share of the groups whose responses differ
TIED_PAIRS = 0.05  # share of the pairs that differ: large groups hold a tie easily, and a few cost little
TIES_LEFT = 0.5  # of the tied pairs, under GDPO: where it leaves more, ties are of the rewards and not of the method
SILENT_INFO, SILENT_WARNING = 0.1, 0.3  # share of the groups: prompts too easy or too hard; then a third of the work
AMPLIFIES = 1.5  # times the advantages of the method that ran: a step half as long again as its learning rate says
INVERTED_INFO, INVERTED_WARNING = 0.05, 0.1  # share of the pairs with different primary reward
PUSHED = 0.2  # a push: a reward that makes little of the update itself, and is pushed so much, rises with others
WEAK_PUSH = 0.5  # times the largest push: a reward that is pushed half as much is learnt more slowly than another
PUSH_MOVED = 0.02  # a push that moves less moves by noise, also in a large log
BREAK_EVEN = 100.0  # times the largest other weight: beyond, the other rewards hardly count, as behind a gate
CONFLICT = -0.5  # correlation inside groups: a quarter of what one reward does undoes the other
BLIND = 0.5  # share of the groups in which a reward is constant and no metric shows it: half say nothing
FILTERED = 0.1  # share of the groups: of a batch a tenth is lost, or drawn again
LENGTH = 0.3  # correlation inside groups: a tenth of what the reward says is length
CHANCE = 3.0  # standard errors of a correlation: in a small log larger ones come by chance
EVERY_NTH = 0.8  # share of the gaps between steps that are equal
MERGED = 0.05  # share of the groups that are not reproduced: fewer may be equal by chance of rounding
SCALE_ONLY = 0.5  # share of the groups that are not reproduced whose advantages are a multiple of what they should be
FEW_GROUPS = 30  # a share of the groups is uncertain by a tenth and more below
VARYING, DEGREES = 4, 3  # groups in which a reward varies, and responses per reward: of fewer one follows by chance
MISSING_OF_TOTAL = 0.1  # of the variance of a total: what is in no column may then decide against what is
NO_SPREAD = 1e-11  # of the variance of a reward that others do not explain: float32's round-off


def push_noise(responses: int) -> float:
    """Return by how much a push that was measured on so many responses may differ by chance.

    >>> push_noise(100), push_noise(1_000_000)
    (0.1, 0.02)
    """
    return max(PUSH_MOVED, 1 / sqrt(max(responses, 1)))
