"""The HTML report in Chromium, opened as a file without a network: every figure that it computes is that of
`report.what_if`.
"""

import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

import gdpo_audit as ga
from gdpo_audit.report import answers_data, document
from gdpo_audit.report.pages import sliders
from gdpo_audit.trials.what_if import FIGURES
from gdpo_core.frameworks import ALL_CONVENTIONS
from gdpo_core.shared.words import percent, signed

SAMPLES = Path(__file__).parent.parent / "data" / "samples"
METHODS = ("grpo", "grpo_no_std", "gdpo")
NASTY = "</script>\u2028<b onclick='1'>&quot;"


def made(groups=24, names=("correct", "style", "short"), seed=5):
    """Return a log with all that conventions treat differently: missing rewards, groups of one, lengths and
    round-off.
    """
    draw, rows = random.Random(seed), []
    for g in range(groups):
        for _ in range(draw.choice((1, 4, 4, 5))):
            values = draw.randint(0, 1), draw.choice((0, 0.1, 0.3)), draw.choice((0.5, draw.random()))
            missing = draw.random() < 0.5 and g % 2
            given = [None if missing and draw.random() < 0.4 else value for value in values]
            row = {"step": g // 6, "group": g, "length": draw.randint(1, 90)}
            rows.append(row | dict(zip(names, given, strict=True)))
    return ga.read_run(rows, group="group", rewards=list(names))


@pytest.fixture
def opened(browser, tmp_path):
    """Yield a function that opens a report as a file without a network. At the end, nothing but the file may have been
    asked for, and no script may have failed.
    """
    context, asked, wrong = browser.new_context(offline=True), [], []

    def open_report(report, hash="", **options):
        path = tmp_path / "audit.html"
        path.write_text(document(report), encoding="utf-8")
        page = context.new_page()
        page.set_viewport_size({"width": 1440, "height": 900} | options)
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(f"{path.as_uri()}{hash}")
        return page

    yield open_report
    context.close()
    assert not wrong and {url.split(":")[0] for url in asked} <= {"file"}


def check(page, report, settings):
    """Assert that the page computes the same figures of these settings as the core. settings: pairs of a method and
    weights.
    """
    asked = [{"method": method, "weights": weights} for method, weights in settings]
    found = page.evaluate("asked => asked.map(setting => gdpoReport.compute(setting))", asked)
    for (method, weights), here in zip(settings, found, strict=True):
        core = report.what_if(method, dict(zip(report.answers["names"], weights, strict=True))).after
        assert here["update_share"] == pytest.approx(core["update_share"], abs=1e-9)
        for figure in ("push", "punished"):
            assert here[figure] == pytest.approx(core[figure], abs=1e-9), (method, weights, figure)
        counts = {x: core[x] for x in FIGURES}
        assert {x: here[x] for x in FIGURES} == pytest.approx(counts, abs=1e-12), (method, weights)


def drawn(count, rewards, seed=1):
    draw = random.Random(seed)
    return [
        (draw.choice(METHODS), [draw.choice((0.25, 1, draw.uniform(-1, 3))) for _ in range(rewards)])
        for _ in range(count)
    ]


def test_weights_are_taken_by_any_name_and_in_order(opened):
    names = ("length", "constructor", "1")
    report = ga.audit(made(names=names))
    page, given = opened(report), [0.5, 2.0, 0.25]
    check(page, report, [("gdpo", given), ("grpo", given)])
    asked = f"gdpoReport.compute({{method: 'gdpo', weights: {dict(zip(names, given, strict=True))}}})"
    assert page.evaluate(f"({asked}).update_share") == pytest.approx(
        report.what_if("gdpo", given).after["update_share"]
    )


@pytest.mark.parametrize("sample", ["pays_5_grpo", "pays_5_gdpo", "published_answers.zip", "trl_gdpo", "ms_swift"])
def test_any_setting_has_the_figures_of_the_core(opened, sample):
    run = ga.read_run(SAMPLES / sample)
    report = ga.audit(run, primary=run.rewards[0])
    page, own = opened(report), report.answers["weights"]
    check(page, report, [*((method, own) for method in METHODS), *drawn(6, len(own))])


def test_every_convention_is_computed_as_the_core_does(opened):
    report = ga.audit(made(), primary="correct")
    for key, convention in ALL_CONVENTIONS.items():
        of = replace(report, _facts=replace(report._facts, basis=replace(report._facts.basis, convention=key)))
        if convention.leave_one_out:
            assert "which only --what-if computes" in of.answers
        else:
            check(opened(of), of, [*((method, [1.0, 1.0, 1.0]) for method in METHODS), *drawn(4, 3)])


def test_a_slider_moves_the_shares_the_lines_and_the_link_which_restores_them(opened):
    run = ga.read_run(SAMPLES / "pays_5_grpo")
    report = ga.audit(run, primary="correctness")
    page = opened(report)
    share = page.locator("[data-reward='1']")
    push, before = page.locator("[data-of='push'][data-k='1']"), share.inner_text()
    assert push.inner_text() == signed(report.push["grpo"]["style"])
    page.get_by_label("method").select_option("GDPO")
    slider = page.get_by_label("weight of style")
    slider.press("ArrowRight")
    assert share.inner_text() != before and float(slider.input_value()) > 1
    slider.evaluate("slider => { slider.value = 0.2; slider.dispatchEvent(new Event('input', { bubbles: true })) }")
    said, lines = share.inner_text(), page.locator(".asks pre").inner_text()
    after = report.what_if("gdpo", {"style": 0.2}).after
    assert push.inner_text() == signed(after["push"]["style"])
    punished = page.locator("[data-of='punished'][data-k='1']").inner_text()
    assert punished.replace("\u00a0", " ") == percent(after["punished"]["style"], 1).replace("\u00a0", " ")
    assert lines == report.what_if("gdpo", {"style": 0.2}).fix
    assert page.url.endswith("#w=1,0.2,1&m=gdpo")
    again = opened(report, "#w=1,0.2,1&m=gdpo", width=390)
    assert again.locator("[data-reward='1']").inner_text() == said
    assert again.get_by_label("method").input_value() == "gdpo"
    assert again.evaluate("document.documentElement.scrollWidth") <= 390
    # A weight in the address may lie beyond the ends of its slider. If every weight is 0, there is nothing to learn and
    # no line.
    far = opened(report, "#w=1,99,0&m=gdpo")
    assert far.get_by_label("weight of style").input_value() == "99" and "99.0" in far.locator(".asks pre").inner_text()
    zero = opened(report, "#w=0,0,0&m=grpo")
    assert "nothing is learnt" in zero.locator(".asks [role=status]").inner_text()
    assert not zero.locator(".asks pre").is_visible() and zero.locator("[data-reward='1']").inner_text() == "–"
    assert zero.locator("[data-figure='inversions']").inner_text() == "–"
    for broken in ("#w=1,two,1", "#w=1,,1", "#w=1,2", "#w=1,Infinity,1&m=constructor"):
        page = opened(report, broken)
        assert "were ignored: expected 3 numbers" in page.locator(".asks [role=status]").inner_text()
        assert page.locator("[data-reward='1']").inner_text() == before


def test_the_sliders_reach_a_fifth_beyond_each_weight_that_the_report_names():
    report = ga.audit(ga.read_run(SAMPLES / "published_answers.zip"), primary="correctness")
    (inverted,) = (x for x in report.findings if x.id == "priority-inversion")
    said = re.search(r"above ([\d.]+) under GRPO and ([\d.]+) under GDPO", inverted.message)
    low, high = sliders.slider_ends(report, report.answers["weights"])
    assert low == 0 and high >= 1.2 * max(map(float, said.groups())) > 2
    assert f'max="{high}"' in sliders.answers(report)


def test_a_name_of_a_log_stays_text_in_the_data_too(opened):
    names = (NASTY, "__proto__", "\\u003c/script>")
    report = ga.audit(made(names=names), primary=NASTY)
    page = opened(report)
    assert page.locator("input").first.get_attribute("aria-label").startswith("weight of </script>")
    assert page.evaluate("Object.keys(gdpoReport.compute({}).update_share)") == list(names)
    assert page.locator("script").count() == 1 and page.locator("[onclick]").count() == 0


def test_a_log_that_does_not_fit_is_a_sample_that_says_how_far_off_it_is(opened, monkeypatch):
    monkeypatch.setattr(answers_data, "_ROOM", 1_500)
    report = ga.audit(made(groups=240), primary="correct")
    data = report.answers
    page = opened(report)
    assert 0 < data["groups"] < data["of"] == 240
    whole, here = (of for of in (report.methods, page.evaluate("gdpoReport.compute({ method: 'gdpo' })")))
    assert abs(whole["gdpo"]["tied_pairs"] - here["tied_pairs"]) <= data["off"] + 1e-12 and data["off"] > 0
    assert f"a sample, {data['groups']} groups of 240" in page.locator(".asks").inner_text()
    monkeypatch.setattr(answers_data, "_ROOM", 10)
    for run, says in ((made(), "too large for a file"), (ga.read_run(SAMPLES / "verl_v1"), "cannot tell")):
        assert says in opened(ga.audit(run)).locator(".asks").inner_text()
