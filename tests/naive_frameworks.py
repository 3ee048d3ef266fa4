"""The formulas of the training frameworks a second time, the slow way: decimals of 50 digits, lists and loops.

Rows are responses, (responses, rewards) as floats with NaN for a missing reward; `ids` says which group each row is
in, `lengths` how many tokens each response has. The versions are those that data/README.md names. Where the
frameworks divide round-off of their own by itself, exact arithmetic has a zero. Nothing here imports gdpo_core.
"""

from decimal import Decimal, localcontext
from itertools import pairwise

METHODS = ("grpo", "grpo_no_std", "gdpo")
NAN = Decimal("nan")
EPS_4, EPS_6, EPS_8 = Decimal("1e-4"), Decimal("1e-6"), Decimal("1e-8")

# Floats that should cancel leave less than ROUND_OFF beside what they were added up from; what is between the two is
# neither surely round-off nor kept by float64 with enough digits to compare.
ROUND_OFF, SIGNAL = Decimal("1e-13"), Decimal("1e-6")


class Undecided(Exception):
    """A group's normalised rewards nearly cancel: only the eps keeps them apart."""


def advantages(framework, method, rows, ids, weights=None, lengths=None) -> list[float]:
    """What the framework (a key of FRAMEWORKS) returns, were its arithmetic exact; NaN where it gives NaN."""
    with localcontext(prec=50):
        rows = [[Decimal(float(v)) for v in row] for row in rows]
        weights = [Decimal(1) if weights is None else Decimal(float(weights[k])) for k in range(len(rows[0]))]
        lengths = [Decimal(1 if lengths is None else int(lengths[i])) for i in range(len(rows))]
        return [float(a) for a in FRAMEWORKS[framework](method, rows, list(ids), weights, lengths)]


# --- parts that several of them share ------------------------------------------------------------------------------


def mean(values):
    return sum(values) / len(values)


def centred(values):
    """Minus the mean; equal values give exact zeros."""
    if all(v == values[0] for v in values):
        return [Decimal(0)] * len(values)
    return [v - mean(values) for v in values]


def std(values):
    """ddof 1, as everywhere; NaN for a single value."""
    return (sum(c * c for c in centred(values)) / (len(values) - 1)).sqrt() if len(values) > 1 else NAN


def standardised(values, eps, alone=0):
    """(x − mean) / (std + eps); `alone`: what the framework has for the std of a single value."""
    if not values:
        return []
    divisor = (std(values) if len(values) > 1 else alone) + eps
    return [c / divisor for c in centred(values)]


def there_only(f):
    """f on the values that are there; NaN stays."""

    def skipping(values):
        done = iter(f([v for v in values if not v.is_nan()]))
        return [v if v.is_nan() else next(done) for v in values]

    return skipping


def or_zero(values):
    return [Decimal(0) if v.is_nan() else v for v in values]


def members(ids):
    return [[i for i, id in enumerate(ids) if id == one] for one in dict.fromkeys(ids)]


def by_group(values, ids, f):
    """f on the values of each group, put back in their places."""
    out = list(values)
    for group in members(ids):
        for i, value in zip(group, f([values[i] for i in group]), strict=True):
            out[i] = value
    return out


def empty(row):
    return all(v.is_nan() for v in row)


def weighted(rows, weights):
    return [[w * v for w, v in zip(weights, row, strict=True)] for row in rows]


def raw_sums(rows, ids, weights, missing):
    """Σ_k w_k r_k by row, `missing` says what a NaN gives; sums of a group that differ by round-off are made equal."""
    terms = weighted(rows, weights)
    s = [sum(missing(row)) for row in terms]
    for group in members(ids):
        size = max(sum(abs(v) for v in or_zero(terms[i])) for i in group)
        ascending = sorted((i for i in group if not s[i].is_nan()), key=lambda i: s[i])
        for i, j in pairwise(ascending):
            if s[j] - s[i] <= ROUND_OFF * size:
                s[j] = s[i]
    return s


def normalised_sums(rows, ids, weights, one_reward, missing):
    """Σ_k w_k z_k by row; one_reward: the z of one reward in one group. A group that cancels has exact zeros."""
    z = [by_group([row[k] for row in rows], ids, one_reward) for k in range(len(weights))]
    terms = weighted(zip(*z, strict=True), weights)
    s = [sum(missing(row)) for row in terms]
    for group in members(ids):
        if any(s[i].is_nan() for i in group):
            continue
        size = max(sum(abs(v) for v in or_zero(terms[i])) for i in group)
        largest = max(abs(s[i]) for i in group)
        if largest <= ROUND_OFF * size:
            for i in group:
                s[i] = Decimal(0)
        elif largest <= SIGNAL * size:
            raise Undecided
    return s


# --- the eight -----------------------------------------------------------------------------------------------------


def trl(method, rows, ids, weights, lengths):
    """TRL: NaN is skipped, a row without rewards is left out of all statistics and gets 0; std + 1e-4 throughout."""

    def unless_empty(s):
        return [NAN if empty(row) else v for row, v in zip(rows, s, strict=True)]

    if method != "gdpo":
        step = centred if method == "grpo_no_std" else lambda s: standardised(s, EPS_4)
        s = unless_empty(raw_sums(rows, ids, weights, or_zero))
        return or_zero(by_group(s, ids, there_only(lambda s: step(s) if s else [])))
    s = normalised_sums(rows, ids, weights, there_only(lambda r: standardised(r, EPS_4)), or_zero)
    return or_zero(there_only(lambda s: standardised(s, EPS_4))(unless_empty(s)))


def nvlabs_trl(method, rows, ids, weights, lengths):
    """The authors' fork of TRL: NaN is 0 before anything is normalised; one reward alone takes GRPO's path."""
    if method == "gdpo" and len(weights) > 1:
        rows = [or_zero(row) for row in rows]
        s = normalised_sums(rows, ids, weights, lambda r: or_zero(standardised(r, EPS_4, alone=NAN)), list)
        return standardised(s, EPS_4, alone=NAN)
    s = raw_sums(rows, ids, weights, or_zero)
    return by_group(s, ids, centred if method == "grpo_no_std" else lambda s: standardised(s, EPS_4, alone=NAN))


def verl(method, rows, ids, weights, lengths):
    """verl: NaN spreads, a group of one has mean 0 and std 1, the last step runs over tokens."""

    def group(values):
        if len(values) == 1:
            return values if method == "grpo_no_std" else [values[0] / (1 + EPS_6)]
        return centred(values) if method == "grpo_no_std" else standardised(values, EPS_6)

    if method != "gdpo":
        return by_group(raw_sums(rows, ids, weights, list), ids, group)
    s = normalised_sums(rows, ids, weights, group, list)
    tokens = sum(lengths)
    middle = sum(n * v for n, v in zip(lengths, s, strict=True)) / tokens
    variance = sum(n * (v - middle) ** 2 for n, v in zip(lengths, s, strict=True)) / (tokens - 1)
    return [(v - middle) / (variance + EPS_8).sqrt() for v in s]


def ms_swift(method, rows, ids, weights, lengths):
    """ms-swift: NaN is skipped reward by reward, a row without rewards stays with sum 0; std + 1e-8 in GDPO."""
    if method != "gdpo":
        return _zero_for_nothing(method, rows, ids, weights)

    return standardised(_zero_for_missing(rows, ids, weights, EPS_8, alone=NAN), EPS_8, alone=NAN)


def axolotl_async(method, rows, ids, weights, lengths):
    """axolotl's asynchronous trainer: as ms-swift with std + 1e-4 in every place."""
    if method != "gdpo":
        return _zero_for_nothing(method, rows, ids, weights)
    return standardised(_zero_for_missing(rows, ids, weights, EPS_4), EPS_4)


def axolotl_streaming(method, rows, ids, weights, lengths):
    """The same, scored group by group: the last step runs over the group, whose std is NaN for one response."""
    if method != "gdpo":
        return _zero_for_nothing(method, rows, ids, weights)
    return by_group(_zero_for_missing(rows, ids, weights, EPS_4), ids, lambda s: standardised(s, EPS_4, alone=NAN))


def _zero_for_missing(rows, ids, weights, eps, alone=0):
    """Normalised sums in ms-swift and axolotl: what is missing adds nothing."""
    one_reward = there_only(lambda r: standardised(r, eps, alone))
    return normalised_sums(rows, ids, weights, lambda r: or_zero(one_reward(r)), list)


def _zero_for_nothing(method, rows, ids, weights):
    """GRPO in ms-swift and axolotl: the sum of what is there, 0 for a row without rewards."""
    step = centred if method == "grpo_no_std" else lambda s: standardised(s, EPS_4)
    return by_group(raw_sums(rows, ids, weights, or_zero), ids, step)


def nemo_rl(method, rows, ids, weights, lengths, leave_one_out=False):
    """NeMo-RL: NaN spreads, nothing is divided where the std is 0, GDPO's last step has no eps."""

    def of_one(values, j):
        compared = values[:j] + values[j + 1 :] if leave_one_out else values
        spread = std(compared) if len(compared) > 1 else 0
        divisor = 1 if method == "grpo_no_std" or spread == 0 else spread + EPS_6
        return mean([values[j] - v for v in compared]) / divisor if compared else Decimal(0)

    def group(values):
        nothing = any(v.is_nan() for v in values)
        return [NAN if nothing else of_one(values, j) for j in range(len(values))]

    if method != "gdpo":
        return by_group(raw_sums(rows, ids, weights, list), ids, group)
    s = normalised_sums(rows, ids, weights, group, list)  # the framework refuses a single reward; the rule goes on
    if any(v.is_nan() for v in s):
        return [NAN] * len(s)
    spread = std(s) if len(s) > 1 else 0
    return [c / (spread if spread > 0 else 1) for c in centred(s)]


def nemo_rl_loo(*given):
    """NeMo-RL's default: each response against the mean and std of the other ones of its group."""
    return nemo_rl(*given, leave_one_out=True)


FRAMEWORKS = {
    f.__name__: f for f in (trl, nvlabs_trl, verl, ms_swift, nemo_rl, nemo_rl_loo, axolotl_async, axolotl_streaming)
}
