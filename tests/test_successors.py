"""MO-GRPO, DVAO, GD²PO, SA-MRPO and CorrGRPO: by hand, against plain loops, and what they share with GRPO and GDPO."""

from math import fsum, isnan, nan, sqrt

import naive
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

import gdpo_core as gc
from gdpo_core import _groups, cli, conventions, successors, training

NAMES = ("mo_grpo", "dvao", "gd2po", "sa_mrpo", "corr_grpo")
DECOUPLED = ("mo_grpo", "gd2po", "sa_mrpo")
METHODS = pytest.mark.parametrize("method", NAMES)
CONVENTIONS = pytest.mark.parametrize("convention", (gc.PAPER, gc.TRL), ids=lambda c: c.name)


def f64(values):
    return torch.tensor(values, dtype=torch.float64)


def close(got, expected, tolerance=1e-9):
    got, expected = (torch.as_tensor(x, dtype=torch.float64) for x in (got, expected))
    torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance, equal_nan=True)


def zero(x) -> bool:
    return bool((torch.as_tensor(x) == 0).all())


# --- by hand ---------------------------------------------------------------------------------------------------------

# In 1, 1, 1, 0 the mean is 3/4 and the std 1/2, so that z is 1/2, 1/2, 1/2, −3/2; 1, 0, 0, 0 mirrors it.
REWARDS = [[1, 1], [1, 0], [1, 0], [0, 0]]


def test_mo_grpo_adds_up_normalised_rewards():
    close(gc.advantages(REWARDS, "mo_grpo"), [0.5 + 1.5, 0.5 - 0.5, 0.5 - 0.5, -1.5 - 0.5])
    close(gc.advantages(REWARDS, "mo_grpo", weights=[2, 0.5]), [1.75, 0.75, 0.75, -3.25])


def test_dvao_divides_the_centred_sum_by_the_sum_of_the_weighted_stds():
    # Sums 2, 1, 1, 0 with mean 1; both stds 1/2.
    close(gc.advantages(REWARDS, "dvao"), [1, 0, 0, -1])
    # Weights 4 and 1: sums 5, 4, 4, 0 with mean 13/4; 4/2 + 1/2 = 5/2.
    close(gc.advantages(REWARDS, "dvao", weights=[4, 1]), [0.7, 0.3, 0.3, -1.3])


def test_dvao_is_what_its_paper_defines_by_adaptive_weights():
    rewards, w = f64([[3, 1], [0, 5], [1, 2], [7, 2], [0, 0]]), f64([0.3, 2.0])
    std = rewards.std(0)
    adaptive = w * std / (w * std).sum()
    z = (rewards - rewards.mean(0)) / std
    close(gc.advantages(rewards, "dvao", weights=w), z @ adaptive)


def test_corr_grpo_divides_by_the_root_of_all_correlations():
    # Both z are 1/2, 1/2, 1/2, −3/2 in some order: ρ = −3/2 · 1/2 · 2 + 1/2 · 1/2 · 2, over 3, is −1/3; Σρ = 4/3.
    rewards = [[1, 0], [0, 1], [1, 1], [1, 1]]
    close(gc.advantages(rewards, "corr_grpo"), [a / sqrt(4 / 3) for a in (-0.5, -0.5, 0.5, 0.5)])
    # The scale of a reward changes what is divided and not what it is divided by.
    tenfold = [[10 * a, b] for a, b in rewards]
    close(gc.advantages(tenfold, "corr_grpo"), [a / sqrt(4 / 3) for a in (1.75, -7.25, 2.75, 2.75)])


def test_corr_grpo_gives_the_multiplier_of_the_example_in_its_repository():
    # Two rewards with correlation .9756, a third with .1098 to both and nine times their std: the centred sum is
    # multiplied by .4307.
    root = torch.linalg.cholesky(f64([[1, 0.9756, 0.1098], [0.9756, 1, 0.1098], [0.1098, 0.1098, 1]]))
    # Four rollouts whose three columns are orthogonal, of mean 0 and std 1, mixed to have these correlations.
    plain = f64([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]) * sqrt(3) / 2
    rewards = plain @ root.T * f64([1, 1, 9])
    centred = rewards.sum(1)
    close(gc.advantages(rewards, "corr_grpo") / centred, [0.4307] * 4, 1e-4)


def test_sa_mrpo_weighs_by_what_is_left():
    # The first reward reaches 3/4 of its range and the second 1/4: weights √(1/4) and √(3/4).
    rewards = [[[1, 0], [1, 0], [1, 0], [0, 1]], [[1, 0], [1, 0], [1, 0], [0, 1]]]
    e = gc.explain(rewards, "sa_mrpo")
    close(e.weights, [0.5, sqrt(0.75)])
    close(e.weighted_sums, [[0.25 - sqrt(0.75) / 2] * 3 + [-0.75 + 1.5 * sqrt(0.75)]] * 2)
    s = e.weighted_sums.flatten()
    close(e.advantages.flatten(), s / s.std())
    close(gc.explain(rewards, "sa_mrpo", weights=[2, 3]).weights, [1, 3 * sqrt(0.75)])


def test_sa_mrpo_turns_the_sign_that_gdpo_gives_to_a_solved_reward():
    # 14 of 16 pass the first reward, 4 the second; the first rollout passes only the second.
    rewards = [[0, 1]] + [[0, 0]] + [[1, 1]] * 3 + [[1, 0]] * 11
    gdpo, sa = gc.advantages(rewards, "gdpo"), gc.advantages(rewards, "sa_mrpo")
    assert gdpo[0] < 0 < sa[0]


def test_gd2po_drops_who_is_pulled_both_ways_and_scales_by_the_kept_share():
    # z of both: 11 → 2, 10 and 01 → 0 of 1.73, 00 → −1.73. Two of four are kept.
    e = gc.explain([[1, 1], [1, 0], [0, 1], [0, 0]], "gd2po")
    root = sqrt(3)
    close(e.weighted_sums, [root, 0, 0, -root])
    close(e.advantages, [1 / sqrt(2), 0, 0, -1 / sqrt(2)])
    assert zero(e.advantages[1:3])
    # A second group that is kept whole, 1 and −1, beside the first, 1 and −1 times root 3 times a half.
    rewards = [[[1, 1], [1, 0], [0, 1], [0, 0]], [[1, 1], [0, 0], [1, 1], [0, 0]]]
    s = [root / 2, -root / 2, root, -root, root, -root]
    std = sqrt(sum(v * v for v in s) / 5)
    close(gc.advantages(rewards, "gd2po"), [[s[0] / std, 0, 0, s[1] / std], [v / std for v in s[2:]]])


def test_gd2po_keeps_a_small_disagreement_unless_it_is_hard():
    # Rollout 0 passes four rewards of five that half of the group pass: |3| of 5 is .6; with ten, |8| of 10 is .8.
    def group(count):
        return [[1] * (count - 1) + [0], [0] * (count - 1) + [1], [1] * count, [0] * count]

    few, many = gc.advantages(group(5), "gd2po"), gc.advantages(group(10), "gd2po")
    assert zero(few[:2]) and few[2] > 0
    assert bool((many != 0).all())  # at the threshold nobody is dropped, whatever round-off says
    hard = successors.gd2po(group(10), threshold=1)
    assert zero(hard[:2]) and hard[2] > 0


# --- plain loops -----------------------------------------------------------------------------------------------------


def there(values):
    return [v for v in values if not isnan(v)]


def correlation(x, y):
    """Pearson's, 0 for a constant."""
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
        t = [w * z for w, z in zip(weights, found.z[i], strict=True) if abs(z) > 1e-8]  # not NaN
        size = fsum(abs(v) for v in t)
        both = any(v > 0 for v in t) and any(v < 0 for v in t)
        assume(not both or abs(abs(s) - threshold * size) > 1e-9)  # at the threshold: by hand
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
    "dvao": naive_dvao,
    "corr_grpo": naive_corr_grpo,
    "sa_mrpo": naive_sa_mrpo,
    "gd2po": naive_gd2po,
}


def check_against_the_loop(batch, method, convention, tolerance):
    weights = batch.weights or [1.0] * len(batch.rows[0])
    options = {"weights": batch.weights, "groups": batch.ids, "convention": convention}
    got = gc.advantages(f64(batch.rows), method, **options)
    close(got, NAIVE[method](batch.rows, batch.ids, weights, convention.name), tolerance)


@CONVENTIONS
@pytest.mark.parametrize("method", ("mo_grpo", "dvao", "sa_mrpo", "gd2po"))
@given(naive.batches())
def test_it_is_what_a_plain_loop_computes(method, convention, batch):
    check_against_the_loop(batch, method, convention, 1e-8)


@CONVENTIONS
@given(naive.batches(missing=False))
def test_corr_grpo_is_what_a_loop_over_pairs_of_rewards_computes(convention, batch):
    # A small Σρ, added up of numbers around 1, loses digits to the loop.
    check_against_the_loop(batch, "corr_grpo", convention, 1e-6)


# --- what they share with GRPO and GDPO ------------------------------------------------------------------------------


def ratios(a, b):
    """b / a where a is not 0, group by group; both (prompts, rollouts)."""
    assert zero(b[a == 0])
    return [(y[x != 0] / x[x != 0]) for x, y in zip(a, b, strict=True)]


@pytest.mark.parametrize("method", ("grpo", "dvao", "corr_grpo"))
@given(naive.batches(missing=False, dense=True))
def test_inside_a_group_it_has_the_direction_of_the_centred_sum(method, batch):
    prompts, rewards = len(set(batch.ids)), len(batch.rows[0])
    cube = f64(batch.rows).reshape(prompts, -1, rewards)
    centred = gc.advantages(cube, "grpo_no_std", weights=batch.weights)
    for ratio in ratios(centred, gc.advantages(cube, method, weights=batch.weights)):
        if len(ratio) and not (method == "corr_grpo" and zero(ratio)):  # it is 0 in a perfect conflict
            assert ratio[0] > 0
            close(ratio, [ratio[0].item()] * len(ratio), 1e-6)


@pytest.mark.parametrize("method", ("gdpo", *DECOUPLED))
def test_the_others_have_directions_of_their_own(method):
    rewards = f64([[[1, 0, 0], [0, 1, 0], [1, 1, 1], [0, 0, 0], [0, 1, 0], [0, 1, 1], [0, 1, 0], [0, 0, 0]]])
    centred, a = gc.advantages(rewards, "grpo_no_std"), gc.advantages(rewards, method)
    assert torch.cosine_similarity(centred, a).item() < 0.9995  # round-off is 1e-16
    assert centred[0, 0] == centred[0, 1]
    assert a[0, 0] != a[0, 1] or method == "gd2po"  # which drops both


@given(naive.batches(missing=False))
def test_no_advantage_of_dvao_is_larger_than_grpos(batch):
    rows, options = f64(batch.rows), {"weights": batch.weights, "groups": batch.ids}
    dvao, grpo = (gc.advantages(rows, method, **options).abs() for method in ("dvao", "grpo"))
    assert bool((dvao <= grpo * (1 + 1e-9)).all())  # proposition 2


@pytest.mark.parametrize("key", gc.CONVENTIONS)
@given(batch=naive.batches(dense=True))
def test_mo_grpo_is_gdpo_before_its_last_step(key, batch):
    prompts, convention = len(set(batch.ids)), gc.CONVENTIONS[key]
    cube = f64(batch.rows).reshape(prompts, -1, len(batch.rows[0]))
    before = gc.group_advantages(cube, "gdpo", convention=convention)
    after = gc.advantages(cube, "mo_grpo", convention=convention)
    missing = cube.isnan().all(-1)  # such a response takes no part
    # The same sums, in another order of memory.
    torch.testing.assert_close(after[~missing], before[~missing], rtol=1e-12, atol=1e-12, equal_nan=True)


@given(naive.batches())
def test_one_reward_leaves_nothing_to_differ_in(batch):
    rows, ids = f64(batch.rows)[:, :1], batch.ids
    grpo, gdpo = (gc.advantages(rows, method, groups=ids) for method in ("grpo", "gdpo"))
    for method in ("mo_grpo", "dvao"):
        close(gc.advantages(rows, method, groups=ids), grpo)
    for method in ("sa_mrpo", "gd2po"):
        close(gc.advantages(rows, method, groups=ids), gdpo)
    # ρ of a reward with itself is 1.
    close(gc.advantages(rows, "corr_grpo", groups=ids), gc.advantages(rows, "grpo_no_std", groups=ids))


@given(naive.batches(), st.sampled_from((0.01, 0.5, 3.0, 1000.0)))
def test_the_scale_of_a_reward_is_erased_where_each_is_normalised_alone(batch, scale):
    rows, options = f64(batch.rows), {"weights": batch.weights, "groups": batch.ids}
    scaled = rows.clone()
    scaled[:, 0] *= scale
    for method in DECOUPLED:
        close(gc.advantages(scaled, method, **options), gc.advantages(rows, method, **options), 1e-7)


@given(naive.batches(), st.sampled_from((0.01, 0.5, 3.0, 1000.0)))
def test_a_scale_of_all_rewards_is_erased_by_dvao_and_kept_by_corr_grpo(batch, scale):
    rows, options = f64(batch.rows), {"weights": batch.weights, "groups": batch.ids}
    close(gc.advantages(scale * rows, "dvao", **options), gc.advantages(rows, "dvao", **options), 1e-7)
    corr = scale * gc.advantages(rows, "corr_grpo", **options)
    close(gc.advantages(scale * rows, "corr_grpo", **options) / scale, corr / scale, 1e-6)


def test_the_scale_of_one_reward_matters_to_dvao_and_corr_grpo():
    rewards = f64([[1, 0], [0, 1], [0, 1], [1, 1], [0, 0]])
    for method in ("dvao", "corr_grpo"):
        assert gc.advantages(rewards, method)[0] < gc.advantages(rewards * f64([10, 1]), method)[0]


@METHODS
@given(batch=naive.batches())
def test_a_reward_and_its_weight_may_both_change_their_sign(method, batch):
    rows, weights = f64(batch.rows), f64(batch.weights or [1.0] * len(batch.rows[0]))
    mirrored = torch.ones_like(weights)
    mirrored[0] = -1
    a = gc.advantages(rows, method, weights=weights, groups=batch.ids)
    close(gc.advantages(rows * mirrored, method, weights=weights * mirrored, groups=batch.ids), a, 1e-6)


@given(naive.batches())
def test_without_its_own_parameter_it_is_gdpo(batch):
    rows, options = f64(batch.rows), {"weights": batch.weights, "groups": batch.ids}
    gdpo = gc.advantages(rows, "gdpo", **options)
    assert torch.equal(successors.sa_mrpo(rows, gamma=0, **options), gdpo)
    # It takes off a mean that is 0 but for round-off.
    close(successors.gd2po(rows, threshold=0, **options), gdpo, 1e-7)


@given(naive.batches())
def test_a_function_by_its_name_is_the_method_by_its_name(batch):
    rows, options = f64(batch.rows), {"weights": batch.weights, "groups": batch.ids}
    for method in ("sa_mrpo", "gd2po"):
        same = getattr(successors, method)(rows, **options)
        assert torch.equal(same, gc.advantages(rows, method, **options))


@given(naive.batches(missing=False), st.integers(0, 2**16))
def test_bounds_are_those_of_the_batch_for_marks_of_two_values(batch, seed):
    marks = torch.randint(0, 2, (len(batch.ids), 3), generator=torch.Generator().manual_seed(seed)).double()
    given = successors.sa_mrpo(marks, bounds=[[0, 1]] * 3, groups=batch.ids)
    close(given, gc.advantages(marks, "sa_mrpo", groups=batch.ids))


def test_wider_bounds_leave_more():
    # Means .5 of 0 … 1 and of 0 … 2: what is left is 1/2 and 3/4.
    rewards = f64([[1, 0], [0, 1], [1, 1], [0, 0]]) * 1.0
    want = gc.advantages(rewards, "gdpo", weights=[sqrt(0.5), sqrt(0.75)])
    close(successors.sa_mrpo(rewards, bounds=[[0, 1], [0, 2]]), want)


# --- zeros and ties, exact -------------------------------------------------------------------------------------------


@METHODS
@pytest.mark.parametrize("value", (0.0, 0.1, 1 / 3, -7.3e5))
def test_constants_give_exactly_zero(method, value):
    for weights in (None, [0.7, 1.3, -0.4]):
        assert zero(gc.advantages(f64([[[value] * 3] * 7] * 2), method, weights=weights))
    one_varies = f64([[value, 0.1, i % 2] for i in range(7)])
    assert bool((gc.advantages(one_varies, method) != 0).all())


@METHODS
def test_a_perfect_conflict_gives_exactly_zero(method):
    rewards = f64([[0.1, 0.9], [0.7, 0.3], [0.3, 0.7], [0.9, 0.1], [0.2, 0.8]])
    # Under SA-MRPO the reward with more left wins.
    assert zero(gc.advantages(rewards, method)) == (method != "sa_mrpo")


@pytest.mark.parametrize("method", ("mo_grpo", "gd2po", "corr_grpo"))
@pytest.mark.parametrize("scale", (3.0, 0.1, 1 / 3))
def test_so_does_one_of_other_scales_where_correlations_or_z_are_what_counts(method, scale):
    # 0.1 / 0.3 of itself has sums that differ; √Σρ is 0 all the same, and no number is right.
    conflict = [[v, 5 - scale * v] for v in (0.1, 0.7, 0.3, 0.9, 0.2)]
    assert zero(gc.advantages(f64(conflict), method))
    assert not zero(gc.advantages(f64(conflict), "grpo"))


def test_weights_of_zero_give_exactly_zero():
    for method in NAMES:
        assert zero(gc.advantages([[1, 0], [0, 3], [1, 1]], method, weights=[0, 0]))


@METHODS
@given(batch=naive.batches())
def test_equal_rewards_in_a_group_get_equal_advantages(method, batch):
    a = gc.advantages(f64(batch.rows), method, weights=batch.weights, groups=batch.ids).tolist()
    for group in naive.members(batch.ids).values():
        for i in group:
            for j in group:
                if naive.same_vector(batch.rows[i], batch.rows[j]):
                    assert a[i] == a[j]


@pytest.mark.parametrize("method", ("dvao", "corr_grpo"))
def test_it_ties_what_grpo_ties(method):
    groups = gc.enumerate_groups(4, 3)
    grpo, other = gc.collapse(groups, "grpo"), gc.collapse(groups, method)
    dead = gc.advantages(groups, method).abs().amax(1) == 0  # of CorrGRPO in a perfect conflict
    level = other.level.reshape(-1, 4)[~dead]
    assert torch.equal(level, grpo.level.reshape(-1, 4)[~dead])
    live = ~dead & (gc.advantages(groups, "grpo").abs().amax(1) > 0)
    assert bool(live.any())


@METHODS
def test_a_lone_rollout_and_a_lone_prompt(method):
    assert zero(gc.advantages([[[1, 0, 1]]], method))
    rewards = [[1, 0], [0, 1], [1, 1]]
    assert gc.advantages(rewards, method).shape == (3,)
    close(gc.advantages([rewards], method)[0], gc.advantages(rewards, method), 0)


# --- shapes, missing rewards, conventions ----------------------------------------------------------------------------


@METHODS
@given(batch=naive.batches(dense=True))
def test_groups_by_id_and_by_shape_agree(method, batch):
    cube = f64(batch.rows).reshape(len(set(batch.ids)), -1, len(batch.rows[0]))
    by_shape = gc.advantages(cube, method, weights=batch.weights).flatten()
    close(gc.advantages(f64(batch.rows), method, weights=batch.weights, groups=batch.ids), by_shape, 1e-7)


@METHODS
def test_a_batch_in_pieces_is_one_batch(method, monkeypatch):
    rewards = torch.randint(0, 2, (40, 6, 3), generator=torch.Generator().manual_seed(5)).double()
    rewards[:20, :, 0] = 1  # so that a piece alone would say that the reward is solved
    before = rewards.clone()
    whole = gc.advantages(rewards, method)
    monkeypatch.setattr(_groups, "_PIECE", 50)
    close(gc.advantages(rewards, method), whole, 1e-12)
    assert torch.equal(rewards, before)


@METHODS
def test_single_precision_comes_back_and_is_close(method):
    rewards = torch.randint(0, 3, (9, 5, 3), generator=torch.Generator().manual_seed(3)).float()
    a = gc.advantages(rewards, method)
    assert a.dtype == torch.float32
    close(a.double(), gc.advantages(rewards.double(), method), 1e-4)


@METHODS
def test_a_missing_reward_takes_no_part(method):
    # The third reward is there for nobody in the first group, the last response has none at all.
    rewards = f64([[[1, 0, nan], [0, 1, nan], [1, 1, nan], [0, 0, nan]], [[1, 1, 1], [0, 1, 0], [1, 0, 1], [nan] * 3]])
    a = gc.advantages(rewards, method)
    assert bool(a.isfinite().all()) and a[1, 3] == 0
    if method not in ("sa_mrpo", "gd2po"):  # these look at all of the batch
        close(a[0], gc.advantages(rewards[0, :, :2], method))
        close(a[1, :3], gc.advantages(rewards[1, :3], method))


def test_corr_grpo_takes_the_variance_of_what_is_there():
    rewards = f64([[1, 0], [0, nan], [1, 1], [0, 1], [1, 0]])
    s = f64([1, 0, 2, 1, 1])
    z = torch.stack([(c - c.nanmean()) / c[~c.isnan()].std() for c in rewards.T]).nansum(0)
    close(gc.advantages(rewards, "corr_grpo"), (s - s.mean()) / z.std())


@METHODS
@pytest.mark.parametrize("key", gc.CONVENTIONS)
def test_every_convention_has_it_or_says_why_not(method, key):
    convention = gc.CONVENTIONS[key]
    generator = torch.Generator().manual_seed(2)
    rewards = torch.randint(0, 2, (6, 5, 3), generator=generator).double()
    options = {"lengths": torch.randint(1, 9, (6, 5), generator=generator), "convention": convention}
    if method == "corr_grpo" and convention.leave_one_out:
        with pytest.raises(gc.InputError, match="convention: expected one with whole groups, for corr_grpo"):
            gc.advantages(rewards, method, **options)
        return
    a = gc.advantages(rewards, method, **options)
    assert bool(a.isfinite().all()) and not zero(a)
    rewards[0, 0, 0] = nan
    a = gc.advantages(rewards, method, **options)
    if convention.missing == "skipped":
        assert bool(a.isfinite().all())
    elif method in ("dvao", "corr_grpo", "mo_grpo"):
        assert bool(a[0].isnan().any()) and bool(a[1:].isfinite().all())
    else:  # the last step hands it on to the batch
        assert bool(a.isnan().all())


def test_dvao_leaves_one_out():
    rewards, w = f64([[1, 0], [0, 3], [1, 1], [0, 1], [1, 2]]), f64([2.0, 0.5])
    want = []
    for i in range(5):
        others = rewards[[j for j in range(5) if j != i]]
        want.append(((rewards[i] - others.mean(0)) @ w / (w @ others.std(0) + 1e-6)).item())
    close(gc.advantages(rewards, "dvao", weights=w, convention=gc.NEMO_RL_LOO), want)
    # Where the others agree in all, nothing is divided.
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


def test_a_last_step_over_tokens_needs_lengths():
    for method in ("sa_mrpo", "gd2po"):
        with pytest.raises(
            gc.InputError, match="lengths: expected tokens per response, by which verl weighs, got none"
        ):
            gc.advantages([[1, 0], [0, 1]], method, convention=gc.VERL)


def test_gd2po_over_tokens_has_mean_zero_and_unit_variance_over_the_kept_tokens():
    rewards = torch.randint(0, 2, (8, 6, 2), generator=torch.Generator().manual_seed(1)).double()
    lengths = torch.randint(1, 50, (8, 6), generator=torch.Generator().manual_seed(4)).double()
    a = gc.advantages(rewards, "gd2po", lengths=lengths, convention=gc.VERL)
    kept = gc.explain(rewards, "gd2po").advantages != 0
    assert 0 < int(kept.sum()) < 48 and zero(a[~kept])
    n = lengths[kept].sum()
    assert abs((a * lengths)[kept].sum() / n) < 1e-9
    close((a.square() * lengths)[kept].sum() / (n - 1), 1.0, 1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: successors.sa_mrpo([[1], [0]], gamma=-1), "gamma: expected a finite number that is not negative"),
        (lambda: successors.sa_mrpo([[1], [0]], gamma="1"), "gamma: expected a finite number"),
        (lambda: successors.sa_mrpo([[1], [0]], bounds=[0, 1]), r"bounds: expected shape \(1, 2\), got shape \(2,\)"),
        (lambda: successors.sa_mrpo([[1], [0]], bounds=[[1, 0]]), "bounds: expected a lowest below a highest"),
        (lambda: successors.sa_mrpo([[1], [0]], bounds=[[0, nan]]), "bounds: expected a lowest below a highest"),
        (lambda: successors.sa_mrpo([[2], [0]], bounds=[[0, 1]]), "bounds: expected .* with every reward between"),
        (lambda: successors.gd2po([[1], [0]], threshold=1.5), r"threshold: expected a number inside \[0, 1\], got 1.5"),
        (lambda: gc.advantages([[1], [0]], "ppo"), "method: expected one of grpo, grpo_no_std, gdpo, .*, got 'ppo'"),
        (lambda: gc.group_advantages([[[1], [0]]], "sa_mrpo"), "method: expected one that looks at nothing but"),
        (lambda: gc.count_rounded("dvao", 2, 2), "method: expected one of grpo, grpo_no_std, gdpo, got 'dvao'"),
        (lambda: gc.count_distinct("dvao", 2, 2), "method: expected one of grpo, grpo_no_std, gdpo, got 'dvao'"),
    ],
)
def test_bad_input_has_one_clear_line(call, message):
    with pytest.raises(gc.InputError, match=message):
        call()


def test_the_terminal_knows_the_three(capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["explain", "11", "10", "--method", "dvao"])
    assert stopped.value.code != 0
    assert "method: expected one of grpo, grpo_no_std, gdpo, got 'dvao'" in capsys.readouterr().err


# --- explain, collapse, train ----------------------------------------------------------------------------------------


@METHODS
@given(batch=naive.batches())
def test_explain_has_the_same_advantages_and_the_steps_to_them(method, batch):
    rows, options = f64(batch.rows), {"weights": batch.weights, "groups": batch.ids}
    e = gc.explain(rows, method, **options)
    assert torch.equal(e.advantages, gc.advantages(rows, method, **options))
    index = torch.tensor([e.group_ids.index(id) for id in batch.ids])
    if method in DECOUPLED:
        assert e.group_means.shape == (len(e.group_ids), rows.shape[1]) and e.z.shape == rows.shape
        close((e.weights * e.z).nansum(1), e.weighted_sums.nan_to_num(), 1e-7)
        assert (e.batch_std is None) == (method == "mo_grpo")
        return
    assert e.z is None and e.batch_mean is None
    centred = e.weighted_sums - e.group_means[index]
    live = e.advantages != 0
    close(e.advantages[live], (centred / e.group_stds[index])[live], 1e-6)


@METHODS
def test_collapse_and_the_shares_of_the_update_know_it(method):
    groups = torch.randint(0, 2, (30, 8, 3), generator=torch.Generator().manual_seed(8)).double()
    found = gc.collapse(groups, method)
    assert found.levels <= found.vectors and 0 <= found.tied_pairs <= 1
    assert sum(found.update_share) == pytest.approx(1, abs=1e-9)
    assert found.update_share == pytest.approx(gc.update_share(groups, method), abs=1e-12)


def test_the_share_of_a_solved_reward_is_smaller_under_sa_mrpo():
    groups = (torch.rand(200, 8, 2, generator=torch.Generator().manual_seed(9)) < f64([0.9, 0.3])).double()
    assert gc.update_share(groups, "sa_mrpo")[0] < gc.update_share(groups, "gdpo")[0] - 0.2


P0, SCALE = [0.3, 0.6], [1, 4]


@METHODS
@pytest.mark.parametrize("match_scale", (True, False), ids=("matched", "not matched"))
def test_it_trains_and_the_same_seed_gives_the_same_bits(method, match_scale):
    options = {"scale": SCALE, "epochs": 20, "seeds": 3, "match_scale": match_scale, "seed": 4}
    one, other = (gc.train(method, P0, **options).p for _ in range(2))
    assert one.shape == (3, 21, 2) and torch.equal(one, other)
    assert bool((one[:, -1] > one[:, 0]).all())


@METHODS
@pytest.mark.parametrize("match_scale", (True, False), ids=("matched", "not matched"))
def test_its_large_group_limit_is_where_large_groups_go(method, match_scale):
    options = {"scale": SCALE, "epochs": 6, "match_scale": match_scale}
    limit = gc.mean_field(method, P0, **options)
    drawn = gc.train(method, P0, rollouts=512, prompts=64, seeds=2, seed=1, **options).p.mean(0)
    close(drawn, limit, 0.01)


def test_matched_mo_grpo_is_gdpo():
    options = {"scale": SCALE, "epochs": 10, "seeds": 2}
    assert torch.equal(gc.train("mo_grpo", P0, **options).p, gc.train("gdpo", P0, **options).p)


@METHODS
def test_each_seed_is_a_batch_of_its_own(method):
    p = f64([0.9, 0.2, 0.5])[:, None, None, None]
    r = (torch.rand(3, 4, 8, 5, generator=torch.Generator().manual_seed(6)) < p).double()
    r[0, 0] = 1  # solved for one seed alone
    weights = torch.ones(3, 1, 1, 1, dtype=torch.float64)

    def computed(part, match_scale):
        return training.step_advantages(method, _groups.batch_of(part, weights), match_scale)

    for match_scale in (True, False):
        together = computed(r, match_scale)
        for seed in range(4):
            close(together[seed], computed(r[:, seed : seed + 1], match_scale)[0], 1e-9)
        if match_scale:
            close(together.square().sum((-2, -1)) / (8 * 5 - 1), [1.0] * 4)


@METHODS
def test_arms_and_noise_and_gates_work_too(method):
    table = [(1, 0), (0, 1), (0, 0)]
    assert gc.train_arms(method, [0.1, 0.85, 0.05], table, epochs=4, seeds=2).p.shape == (2, 5, 3)
    assert bool(gc.mean_field_arms(method, [0.1, 0.85, 0.05], table, epochs=4).isfinite().all())
    options = {"noise": [0, 0.3, 1], "gate": (1, 0), "epochs": 4}
    assert bool(gc.train(method, P0, seeds=2, **options).p.isfinite().all())
    assert bool(gc.mean_field(method, P0, **options).isfinite().all())


# --- the names -------------------------------------------------------------------------------------------------------


def test_successors_say_where_they_come_from():
    assert set(gc.SUCCESSORS) == set(NAMES)
    published = [s.published for s in gc.SUCCESSORS.values()]
    assert published == sorted(published)
    for method, s in gc.SUCCESSORS.items():
        assert s.published.replace("-", "")[2:] == s.paper[:4]
        assert s.paper in (getattr(successors, method, None) or getattr(successors, f"_{method}")).__doc__
        assert s.name and s.title and s.formula


def test_the_audit_and_the_three_methods_know_nothing_of_them():
    assert list(gc.METHODS) == ["grpo", "grpo_no_std", "gdpo"]
    recognised = ["grpo_batch_std", "reinforce_pp_baseline", "reinforce_pp", "mo_grpo"]  # in logs
    assert list(conventions.NAMES) == [*gc.METHODS, *recognised]
