"""Methods that came after GDPO, compared with numbers by hand and plain loops; and what they share with GRPO and
GDPO.
"""

from itertools import product
from math import fsum, isnan, nan, sqrt

import naive
import pytest
import torch
from helpers import check_refusal, close, f64, zeros
from hypothesis import assume, given
from hypothesis import strategies as st

import gdpo_core as gc
from gdpo_core import conventions, training
from gdpo_core.numerics.batch import batch_of

NAMES = ("mo_grpo", "papo", "dvao", "saw", "gd2po", "sa_mrpo", "corr_grpo")
DECOUPLED = ("mo_grpo", "papo", "saw", "gd2po", "sa_mrpo")
EACH_METHOD = pytest.mark.parametrize("method", NAMES)


# --- worked by hand --------------------------------------------------------------------------------------------------

# In 1, 1, 1, 0 the mean is 3/4 and the std 1/2, so that z is 1/2, 1/2, 1/2, −3/2; in 1, 0, 0, 0 it is the opposite.
REWARDS = [[1, 1], [1, 0], [1, 0], [0, 0]]
# Both z are 1/2, 1/2, 1/2, −3/2 in some order: ρ = −3/2 · 1/2 · 2 + 1/2 · 1/2 · 2, over 3, is −1/3; Σρ = 4/3.
CROSSED, ROOT = [[1, 0], [0, 1], [1, 1], [1, 1]], sqrt(4 / 3)
BY_HAND = (  # method, rewards, weights, advantages
    ("mo_grpo", REWARDS, [1, 1], [2, 0, 0, -2]),
    ("mo_grpo", REWARDS, [2, 0.5], [1.75, 0.75, 0.75, -3.25]),
    ("dvao", REWARDS, [1, 1], [1, 0, 0, -1]),  # sums 2, 1, 1, 0 with mean 1; both stds 1/2
    ("dvao", REWARDS, [4, 1], [0.7, 0.3, 0.3, -1.3]),  # sums 5, 4, 4, 0 with mean 13/4; 4/2 + 1/2 = 5/2
    ("corr_grpo", CROSSED, [1, 1], [a / ROOT for a in (-0.5, -0.5, 0.5, 0.5)]),
    # The scale of a reward changes what is divided and not what it is divided by.
    ("corr_grpo", [[10 * a, b] for a, b in CROSSED], [1, 1], [a / ROOT for a in (1.75, -7.25, 2.75, 2.75)]),
    ("gd2po", [[1, 1], [1, 0], [0, 1], [0, 0]], [1, 1], [1 / sqrt(2), 0, 0, -1 / sqrt(2)]),  # two of four are kept
    # The first three are right: their 5, 3 and 1 have mean 3 and std 2. The 9 of the wrong one says nothing.
    ("papo", [[1, 5], [1, 3], [1, 1], [0, 9]], [1, 1], [1.5, 0.5, -0.5, -1.5]),
    ("papo", [[1, 5], [1, 3], [1, 1], [0, 9]], [2, 0.5], [1.5, 1, 0.5, -3]),
    ("papo", [[1, 5], [0, 3], [0, 1], [0, 9]], [1, 1], [1.5, -0.5, -0.5, -0.5]),  # the only right one has no peer
)


@pytest.mark.parametrize("method, rewards, weights, expected", BY_HAND)
def test_worked_by_hand(method, rewards, weights, expected):
    close(gc.advantages(rewards, method, weights=weights), expected)


def test_corr_grpo_gives_the_multiplier_of_the_example_in_its_repository():
    # Two rewards have the correlation .9756; a third has .1098 with both, and nine times their std. So the centred sum
    # is multiplied by .4307.
    root = torch.linalg.cholesky(f64([[1, 0.9756, 0.1098], [0.9756, 1, 0.1098], [0.1098, 0.1098, 1]]))
    # The three columns of these four rollouts are orthogonal, of mean 0 and std 1, and are mixed to have these
    # correlations.
    plain = f64([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]) * sqrt(3) / 2
    rewards = plain @ root.T * f64([1, 1, 9])
    centred = rewards.sum(1)
    close(gc.advantages(rewards, "corr_grpo") / centred, [0.4307] * 4, 1e-4)


def test_sa_mrpo_weighs_by_what_is_left():
    # The first reward reaches 3/4 of its range and the second 1/4, so the weights are √(1/4) and √(3/4).
    rewards = [[[1, 0], [1, 0], [1, 0], [0, 1]], [[1, 0], [1, 0], [1, 0], [0, 1]]]
    e = gc.explain(rewards, "sa_mrpo")
    close(e.weights, [0.5, sqrt(0.75)])
    close(e.weighted_sums, [[0.25 - sqrt(0.75) / 2] * 3 + [-0.75 + 1.5 * sqrt(0.75)]] * 2)
    s = e.weighted_sums.flatten()
    close(e.advantages.flatten(), s / s.std())
    close(gc.explain(rewards, "sa_mrpo", weights=[2, 3]).weights, [1, 3 * sqrt(0.75)])


def test_saw_weighs_by_the_coefficient_of_variation_over_the_batch():
    # The first reward is 1 in one of five answers, the second in four of five: std / mean is 2 and 1/2, whatever a 1
    # pays.
    group = [[1, 0], [0, 1], [0, 1], [0, 1], [0, 1]]
    for pays in (1, 7):
        e = gc.explain([[[pays * a, b] for a, b in group]] * 2, "saw")
        close(e.weights, [2 * 2 / 2.5, 2 * 0.5 / 2.5])
    # A reward without weight takes no part, and one that never varies takes none of the weight.
    further = [[a, b, i] for i, (a, b) in enumerate(group)]
    close(gc.explain(further, "saw", weights=[1, 1, 0]).weights, [1.6, 0.4, 0])
    close(gc.explain([[a, b, 3] for a, b in group], "saw").weights, [2.4, 0.6, 0])
    # Beside a reward whose mean is 0, no other reward counts.
    close(gc.explain([[1, 1], [-1, 0], [1, 0], [-1, 0]], "saw").weights, [2, 0])
    a = gc.advantages([group] * 2, "saw", weights=[3, 2])
    close(a, gc.gdpo([group] * 2, weights=[3 * 1.6, 2 * 0.4]))


def test_gd2po_keeps_a_small_disagreement():
    # Rollout 0 passes four of five rewards that half of the group pass, so |3| of 5 is .6; with ten rewards |8| of 10
    # is .8.
    def group(count):
        return [[1] * (count - 1) + [0], [0] * (count - 1) + [1], [1] * count, [0] * count]

    few, many = gc.advantages(group(5), "gd2po"), gc.advantages(group(10), "gd2po")
    assert zeros(few[:2]) and few[2] > 0
    assert bool((many != 0).all())  # At the threshold no answer is dropped, whatever round-off says.
    assert gc.explain(group(5), "gd2po").factors.tolist() == [0, 0, 0.5, 0.5]


# --- compared with plain loops ---------------------------------------------------------------------------------------


def there(values):
    return [v for v in values if not isnan(v)]


def correlation(x, y):
    """Return Pearson's correlation of two columns; 0 if one of them is constant."""
    (mx, sx), (my, sy) = naive.mean_and_std(x), naive.mean_and_std(y)
    if sx == 0 or sy == 0:
        return 0.0
    return fsum((a - mx) * (b - my) for a, b in zip(x, y, strict=True)) / (len(x) - 1) / (sx * sy)


def naive_mo_grpo(rows, ids, weights, convention):
    return [0.0 if isnan(s) else s for s in naive.compute(rows, ids, "gdpo", weights, convention).sums]


def naive_dvao(rows, ids, weights, convention):
    centred = naive.compute(rows, ids, "grpo_no_std", weights, convention).advantages
    stds = naive.compute(rows, ids, "gdpo", weights, convention).stds
    out = []
    for a, id in zip(centred, ids, strict=True):
        divisor = fsum(abs(w) * s for w, s in zip(weights, stds[id], strict=True))
        out.append(a / (divisor + naive.EPS[convention][0]) if divisor else 0.0)
    return out


def naive_corr_grpo(rows, ids, weights, convention):
    out = naive.compute(rows, ids, "grpo_no_std", weights, convention).advantages
    for group in naive.members(ids).values():
        columns = [[w * rows[i][k] for i in group] for k, w in enumerate(weights)]
        total = fsum(correlation(x, y) for x in columns for y in columns)
        total = total if total > 1e-12 else 0.0
        for i in group:
            root = sqrt(total + naive.EPS[convention][0])
            out[i] = out[i] / root if root else 0.0
    return out


def naive_papo(rows, ids, weights, convention):
    """Return PAPO's advantages: the first reward is normalised over the group, and every other one over the answers of
    the group that have the first.
    """
    out = [0.0] * len(rows)
    for group in naive.members(ids).values():
        for k, w in enumerate(weights):
            # A comparison with NaN is false, so missing first rewards are left out.
            among = group if k == 0 else [i for i in group if rows[i][0] > 0]
            mean, std = naive.mean_and_std([rows[i][k] for i in among])
            for i in among:
                z = naive.standardised(rows[i][k], mean, std, naive.EPS[convention][0])
                out[i] += 0.0 if isnan(z) else w * z
    return out


def naive_saw(rows, ids, weights, convention):
    cv = []
    for k, w in enumerate(weights):
        values = there([row[k] for row in rows])
        mean = fsum(values) / len(values) if values else 0.0
        spread = sqrt(fsum((v - mean) ** 2 for v in values) / len(values)) if values else 0.0
        assume(spread == 0 or abs(mean) > 1e-6)  # Next to a mean of 0, round-off decides.
        cv.append(spread / abs(mean) if w and len(set(values)) > 1 else 0.0)
    kept = sum(1 for w in weights if w)
    shares = [w * c / (fsum(cv) or 1) * kept for w, c in zip(weights, cv, strict=True)]
    return naive.compute(rows, ids, "gdpo", shares, convention).advantages


def naive_sa_mrpo(rows, ids, weights, convention):
    left = []
    for k, w in enumerate(weights):
        values = there([row[k] for row in rows])
        low, high = min(values, default=0), max(values, default=0)
        mean = fsum(values) / len(values) if values else 0
        s = (mean - low) / (high - low) if high > low else 1.0
        left.append(w * min(max(s if w < 0 else 1 - s, 0.0), 1.0) ** 0.5)
    return naive.compute(rows, ids, "gdpo", left, convention).advantages


def naive_gd2po(rows, ids, weights, convention, threshold=0.8):
    found = naive.compute(rows, ids, "gdpo", weights, convention)
    kept = {}
    for i, s in enumerate(found.sums):
        # A comparison with NaN is false, so missing rewards are left out.
        t = [w * z for w, z in zip(weights, found.z[i], strict=True) if abs(z) > 1e-8]
        size = fsum(abs(v) for v in t)
        both = any(v > 0 for v in t) and any(v < 0 for v in t)
        # What happens at the threshold is tested by hand above.
        assume(not both or abs(abs(s) - threshold * size) > 1e-9)
        kept[i] = not isnan(s) and not (both and abs(s) < threshold * size)
    a = {}
    for group in naive.members(ids).values():
        group = [i for i in group if not isnan(found.sums[i])]
        for i in group:
            a[i] = found.sums[i] * sum(kept[j] for j in group) / len(group)
    over = [a[i] for i in a if kept[i]]
    mean, std = naive.mean_and_std(over, 1e-12 * max(map(abs, over), default=0.0))
    eps = naive.EPS[convention][1]
    return [(a[i] - mean) / (std + eps) if i in a and kept[i] and std else 0.0 for i in range(len(rows))]


NAIVE = {
    "mo_grpo": naive_mo_grpo,
    "papo": naive_papo,
    "saw": naive_saw,
    "dvao": naive_dvao,
    "corr_grpo": naive_corr_grpo,
    "sa_mrpo": naive_sa_mrpo,
    "gd2po": naive_gd2po,
}


@pytest.mark.parametrize("convention", (gc.PAPER, gc.TRL), ids=lambda c: c.name)
@EACH_METHOD
@given(data=st.data())
def test_it_is_what_a_plain_loop_computes(method, convention, data):
    of_pairs = method == "corr_grpo"  # The paper defines this method for complete rewards alone.
    batch = data.draw(naive.batches(missing=not of_pairs))
    got = gc.advantages(f64(batch.rows), method, weights=batch.weights, groups=batch.ids, convention=convention)
    expected = NAIVE[method](batch.rows, batch.ids, batch.weights or [1.0] * len(batch.rows[0]), convention.name)
    # A small Σρ loses digits, because it is added up from numbers around 1.
    close(got, expected, 1e-6 if of_pairs else 1e-8)


# --- missing rewards and conventions ---------------------------------------------------------------------------------


def test_corr_grpo_takes_the_variance_of_what_is_there():
    rewards = f64([[1, 0], [0, nan], [1, 1], [0, 1], [1, 0]])
    s = f64([1, 0, 2, 1, 1])
    z = torch.stack([(c - c.nanmean()) / c[~c.isnan()].std() for c in rewards.T]).nansum(0)
    close(gc.advantages(rewards, "corr_grpo"), (s - s.mean()) / z.std())


def test_dvao_leaves_one_out():
    rewards, w = f64([[1, 0], [0, 3], [1, 1], [0, 1], [1, 2]]), f64([2.0, 0.5])
    want = []
    for i in range(5):
        others = rewards[[j for j in range(5) if j != i]]
        want.append(((rewards[i] - others.mean(0)) @ w / (w @ others.std(0) + 1e-6)).item())
    close(gc.advantages(rewards, "dvao", weights=w, convention=gc.NEMO_RL_LOO), want)
    # Where the others agree in all rewards, nothing is divided.
    close(gc.advantages([[1, 1], [0, 0], [0, 0]], "dvao", convention=gc.NEMO_RL_LOO)[0], 2.0)


def test_what_a_convention_says_of_gdpo_holds_for_its_kin():
    # The authors' fork takes a missing reward as 0, and GDPO of one reward as GRPO.
    rewards = f64([[[1, nan], [0, 1], [1, 1]], [[0, 1], [1, nan], [0, 0]]])
    for method in DECOUPLED:
        a, full = (gc.advantages(r, method, convention=gc.NVLABS_TRL) for r in (rewards, rewards.nan_to_num()))
        close(a, full, 0)
        one = rewards[..., :1]
        grpo = gc.advantages(one, "grpo", convention=gc.NVLABS_TRL)
        close(gc.advantages(one, method, convention=gc.NVLABS_TRL), grpo, 0)


def test_gd2po_over_tokens_has_mean_zero_and_unit_variance_over_the_kept_tokens():
    rewards = torch.randint(0, 2, (8, 6, 2), generator=torch.Generator().manual_seed(1)).double()
    lengths = torch.randint(1, 50, (8, 6), generator=torch.Generator().manual_seed(4)).double()
    a = gc.advantages(rewards, "gd2po", lengths=lengths, convention=gc.VERL)
    kept = gc.explain(rewards, "gd2po").advantages != 0
    assert 0 < int(kept.sum()) < 48 and zeros(a[~kept])
    n = lengths[kept].sum()
    assert abs((a * lengths)[kept].sum() / n) < 1e-9
    close((a.square() * lengths)[kept].sum() / (n - 1), 1.0, 1e-6)


REFUSED = (
    (gc.advantages, {"method": "sa_mrpo", "convention": gc.VERL}, "lengths", "by which verl weighs, got none"),
    (gc.advantages, {"method": "gd2po", "convention": gc.VERL}, "lengths", "by which verl weighs, got none"),
    (gc.advantages, {"method": "corr_grpo", "convention": gc.NEMO_RL_LOO}, "convention", "with whole groups"),
    (gc.advantages, {"method": "papo", "convention": gc.NEMO_RL_LOO}, "convention", "with whole groups"),
    (gc.advantages, {"method": "saw", "convention": gc.VERL}, "lengths", "by which verl weighs, got none"),
    (gc.group_advantages, {"rewards": [[[1], [0]]], "method": "sa_mrpo"}, "method", "that looks at nothing but"),
)


def test_bad_input_is_named(subtests):
    for function, options, argument, came in REFUSED:
        with subtests.test(argument=argument, came=came):
            check_refusal(function, {"rewards": [[1], [0]], **options}, argument, came)


# --- explain, collapse, train ----------------------------------------------------------------------------------------


P0, SCALE = [0.3, 0.6], [1, 4]


@pytest.mark.parametrize(
    "method, match_scale", [*product(NAMES, (True, False)), *product(("grpo_batch_std", "gd2po"), ("published",))]
)
def test_its_large_group_limit_is_where_large_groups_go(method, match_scale):
    options = {"scale": SCALE, "epochs": 6, "match_scale": match_scale}
    limit = gc.mean_field(method, P0, **options)
    drawn = gc.train(method, P0, rollouts=512, prompts=64, seeds=2, seed=1, **options).p.mean(0)
    close(drawn, limit, 0.01)


@EACH_METHOD
def test_each_seed_is_a_batch_of_its_own(method):
    p = f64([0.9, 0.2, 0.5])[:, None, None, None]
    r = (torch.rand(3, 4, 8, 5, generator=torch.Generator().manual_seed(6)) < p).double()
    r[0, 0] = 1  # The first reward is solved for one seed alone.
    weights = torch.ones(3, 1, 1, 1, dtype=torch.float64)

    def computed(part, match_scale):
        return training.step_advantages(method, batch_of(part, weights), match_scale)

    for match_scale in (True, False):
        together = computed(r, match_scale)
        for seed in range(4):
            close(together[seed], computed(r[:, seed : seed + 1], match_scale)[0], 1e-9)
        if match_scale:
            close(together.square().sum((-2, -1)) / (8 * 5 - 1), [1.0] * 4)


# --- the names -------------------------------------------------------------------------------------------------------


def test_successors_say_where_they_come_from_and_what_is_compared_and_recognised_knows_nothing_of_them():
    assert tuple(sorted(gc.SUCCESSORS)) == tuple(sorted(NAMES))
    published = [s.published for s in gc.SUCCESSORS.values()]
    assert published == sorted(published)
    for s in gc.SUCCESSORS.values():
        assert s.published.replace("-", "")[2:] == s.paper[:4] and s.name and s.title and s.formula
    assert list(gc.METHODS) == ["grpo", "grpo_no_std", "gdpo"]
    # These are recognised in logs.
    recognised = ["grpo_batch_std", "reinforce_pp_baseline", "reinforce_pp", "mo_grpo", "max_rl"]
    assert list(conventions.NAMES) == [*gc.METHODS, *recognised]
