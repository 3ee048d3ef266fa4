"""Use it without a browser: lines that follow the Lab, answers that follow the rewards, claims that are computed."""

import ast
import contextlib
import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from helpers import text_of

import gdpo_core as gc
from gdpo_core import bfcl, config_lines
from gdpo_core.bfcl import REWARDS
from gdpo_core.successors import SUCCESSORS
from views import claims, should, use
from views.lab import Lab
from views.link import Session
from views.run import SAMPLES, Reading, audited, read
from views.state import methods

ROOT = Path(__file__).parent.parent


@pytest.fixture
def session():
    found = Session()
    Lab(bfcl.load_tasks(ROOT / "data" / "tasks"), found)
    return found


def set_lab(session, **changes):
    session.lab._state = replace(session.lab.state, **changes)


def chosen(framework="trl", gate="none", source="lab"):
    return {"framework": framework, "gate": gate, "source": source}


def effects(session, **options):
    """The effect of each answer, by its title."""
    html = should.should(chosen(**options), session).text
    return dict(re.findall(r"<b>([\w -]+)</b> <span class=\"effect\">.*?</svg>([\w ]+)</span>", html))


# --- the lines -------------------------------------------------------------------------------------------------------


def test_every_framework_can_be_chosen(session):
    options = use.choices(session).elements["framework"].options
    assert set(options.values()) == set(use.FRAMEWORKS)


@pytest.mark.parametrize("framework", use.FRAMEWORKS)
def test_the_lines_follow_the_labs_pays_weights_and_gate(session, framework):
    set_lab(session, weights=(2.0, 1.0, 0.5), pays=(1.0, 1.0, 10.0))
    text = text_of(use.configuration(chosen(framework, "conciseness"), session).text)
    assert "correctness 0 or 1, style 0 or 1, conciseness 0 or 10" in text
    assert "conciseness counts only where correctness reaches 1" in text
    switch = config_lines.switch_to_gdpo(framework, REWARDS, (2.0, 1.0, 0.5), 12)
    assert all(line in text for line in map(text_of, switch.splitlines()) if not line.startswith("# axolotl"))
    assert "What a pass pays drops out under GDPO" in text
    set_lab(session, weights=(1.0, 1.0, 1.0), pays=(1.0, 1.0, 1.0))
    text = text_of(use.configuration(chosen(framework), session).text)
    assert "counts only where" not in text and "drops out" not in text


def test_the_gate_is_measured_on_the_labs_answers(session):
    text = text_of(use.configuration(chosen(gate="all"), session).text)
    assert re.search(r"wrong answer stands above a right one from \S+\s% to 0\s%", text)


def test_what_eps_does_to_a_small_difference_is_computed(session):
    # By hand: three at 0 and one at d have mean d/4 and std d/2, so z = 1.5 d / (d + 2 eps).
    for key, told in {"trl": 0.5, "verl": 1.5 / 1.02, "ms_swift": 1.5}.items():
        text = " ".join(use.differs(use.FRAMEWORKS[key], "none", use.Lab.now(session)))
        assert f"becomes {told:.2f}" in text


def test_grpo_with_the_weights_that_are_offered_has_gdpos_order(session):
    [_, lines] = use._instead(use.FRAMEWORKS["ms_swift"], use.Lab.now(session))
    weights = [float(w) for w in re.search(r"--reward_weights ([\d. ]+)", lines)[1].split()]
    rewards = session.lab.state.rewards
    assert order(gc.grpo(rewards, weights=weights)) == order(gc.gdpo(rewards))


def order(a):
    values = [round(x, 3) for x in a.tolist()]
    return [sorted(set(values)).index(x) for x in values]


def test_a_successor_in_the_lab_is_said_to_be_in_no_trainer(session):
    set_lab(session, method="dvao")
    assert f"No trainer here has {methods()['dvao']}" in text_of(use.configuration(chosen(), session).text)


@pytest.mark.parametrize("framework", use.FRAMEWORKS)
@pytest.mark.parametrize("gate", use.gates())
def test_the_program_prints_what_the_page_says(session, framework, gate):
    set_lab(session, weights=(3.0, 1.0, 0.5), pays=(1.0, 3.0, 10.0))
    page = text_of(use.configuration(chosen(framework, gate), session).text)
    program = session.programs["use"]()
    assert program.count("\n") <= 15
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(program, {})
    name, advantages, off = printed.getvalue().splitlines()
    convention = gc.CONVENTIONS[use.FRAMEWORKS[framework].convention]
    lab = use.Lab.now(session)
    assert name.startswith(convention.name)
    assert advantages == str([round(a, 4) for a in lab.explained(convention, gate).advantages.tolist()])
    if convention != gc.PAPER:
        assert f"by at most {off.removeprefix('off the paper by ')}" in page


def test_a_link_brings_the_choices_and_notes_what_is_none(session):
    linked = Session.of({"use-framework": "verl", "use-gate": "style", "use-source": "moon"})
    element = use.choices(linked)
    assert element.value == {"framework": "verl", "gate": "style", "source": "lab"}
    assert len(linked.notes) == 1 and "use-source" in linked.notes[0]
    assert "use-framework=verl" in linked.query("use") and "use-source" not in linked.query("use")


# --- should I? -------------------------------------------------------------------------------------------------------


def test_the_labs_default_changes_ties_alone(session):
    found = effects(session)
    assert len(found) == 5
    assert {title for title, effect in found.items() if effect != "changes nothing"} == {"Ties"}


def test_unequal_pay_is_where_it_helps_and_weights_that_undo_it_where_it_hurts(session):
    set_lab(session, pays=(1.0, 1.0, 10.0))
    assert effects(session)["Unequal scales"] == "helps"
    set_lab(session, pays=(1.0, 1.0, 10.0), weights=(1.0, 1.0, 0.1))
    assert effects(session)["Unequal scales"] == "hurts"
    assert effects(session, gate="conciseness")["Unequal scales"] == "hurts"


def test_conflict_and_constants_are_seen(session):
    marks = tuple((i % 2, 1 - i % 2, 1) for i in range(12))
    set_lab(session, marks=marks)
    found = effects(session)
    assert found["Conflict"] == "hurts"
    html = text_of(should.should(chosen(), session).text)
    assert "correctness and style pull against each other (−1.00)" in html
    assert "No group teaches anything" in html  # under GDPO the two cancel


def test_noise_that_is_nearly_constant_is_seen():
    rows = "".join(f"{g},{(g + i) % 2},{5 + 1e-4 * ((i * 7 + g) % 5)}\n" for g in range(40) for i in range(8))
    run = gc.read_run({"a.csv": f"group,right,noise\n{rows}".encode()}, rewards=["right", "noise"], group="group")
    [noise] = [a for a in should.answers(gc.audit(run)) if a.title == "Nearly constant noise"]
    assert noise.effect == "hurts" and noise.scenario == "noise"


def test_when_nothing_can_be_learnt_nothing_is_said_to_help(session):
    for marks in (((1, 1, 1),) * 12, ((0, 0, 0),) * 12):
        set_lab(session, marks=marks)
        assert set(effects(session).values()) == {"changes nothing"}
    set_lab(session, weights=(0.0, 0.0, 0.0))
    assert set(effects(session).values()) == {"changes nothing"}


def test_the_audited_run_is_judged_when_there_is_one(session):
    assert "No run is audited yet" in should.should(chosen(source="run"), session).text
    for sample in SAMPLES:
        log = read(sample, (), Reading())
        session.audited = audited(log, log.primary, "").report
        text = text_of(should.should(chosen(source="run"), session).text)
        assert ("It cannot be told" in text) == (len(log.run.rewards) == 1)
    text = text_of(_of_sample(session, SAMPLES[0]))
    assert re.search(r"style takes 79\s% of the update under GRPO and 40\s% under GDPO", text)


def _of_sample(session, sample):
    log = read(sample, (), Reading())
    session.audited = audited(log, log.primary, "").report
    return should.should(chosen(source="run"), session).text


def test_every_link_leads_to_a_chapter_and_a_scenario_that_exist(session):
    html = should.should(chosen(), session).text + claims.more(session).text + _of_sample(session, SAMPLES[0])
    links = re.findall(r'<a class="onward"[^>]*href="\?at=(\w+)(?:&amp;train-scenario=(\w+))?"', html)
    assert len(links) > 10
    assert all(chapter in ("lab", "train", "evidence", "run") for chapter, _ in links)
    assert {scenario for _, scenario in links if scenario} <= set(should.titles())
    wanted = {"scales", "equal", "undone", "difficulty", "live", "conflict", "gated", "noise", "demo"}
    assert wanted <= set(should.titles())
    assert 'href="#' not in html


# --- claims, successors ----------------------------------------------------------------------------------------------


def test_the_first_claim_is_computed_as_the_rule_says(session):
    text = text_of(claims.checked())
    assert "it ties them where two and two pass, and splits them where three and two do" in text
    assert re.search(r"weights 2, 1, 1 give 67\s%, not 50\s%", text)
    counts = [gc.count_distinct(m, 4, 6) for m in ("grpo", "grpo_no_std", "gdpo")]
    assert all(f"{n}" in text for n in counts)


def test_every_successor_is_cited_with_its_formula(session):
    html = claims.after(use.Lab.now(session))
    for s in SUCCESSORS.values():
        assert f"https://arxiv.org/abs/{s.paper}" in html and s.name in html
    assert "of 6" in html


def test_no_cell_of_the_chapter_depends_on_another_chapter():
    tree = ast.parse((ROOT / "app.py").read_text(encoding="utf-8"))
    cells = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("use_")]
    assert 4 <= len(cells) <= 7
    names = {argument.arg for cell in cells for argument in cell.args.args}
    assert all(name in ("session", "edit", "use", "should", "claims") or name.startswith("use_") for name in names)
