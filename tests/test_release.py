"""Facts that a release states in several places agree, such as version, holder, paper, Pythons and targets; and its
workflow has few rights.
"""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
CHANGELOG = (ROOT / "CHANGELOG.md").read_text("utf-8")
WORKFLOWS = [path.read_text("utf-8") for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))]
WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text("utf-8"))
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
HEADING = re.compile(r"^## \[(.+?)\](?: - (.+))?$", re.MULTILINE)
NOT_YET = "not released yet"


def test_the_version_is_the_same_everywhere():
    versions = [(version, day) for version, day in HEADING.findall(CHANGELOG) if version != "Unreleased"]
    assert versions[0][0] == PROJECT["version"] == CITATION["version"]
    day = versions[0][1]
    assert day == NOT_YET or re.fullmatch(r"\d{4}-\d{2}-\d{2}", day)
    assert str(CITATION.get("date-released", NOT_YET)) == day


def test_the_citation_names_who_the_licence_and_the_project_name():
    assert CITATION["cff-version"] == "1.2.0" and CITATION["message"] and CITATION["type"] == "software"
    (holder,) = re.findall(r"Copyright \(c\) \d+ (.+)", (ROOT / "LICENSE").read_text("utf-8"))
    assert CITATION["authors"] == PROJECT["authors"] == [{"name": holder}]
    assert CITATION["license"] == PROJECT["license"]
    assert CITATION["abstract"] == PROJECT["description"] and CITATION["keywords"] == PROJECT["keywords"]
    (paper,) = CITATION["references"]
    assert paper["url"] == PROJECT["urls"]["Paper"]
    dockerfile = (ROOT / "Dockerfile").read_text("utf-8")
    labels = {"title": CITATION["title"], "licenses": PROJECT["license"], "description": PROJECT["description"]}
    assert all(f'org.opencontainers.image.{label}="{value}"' in dockerfile for label, value in labels.items())
    assert paper["doi"] == f"10.48550/arXiv.{paper['url'].rpartition('/')[2]}"


def test_the_pythons_that_are_named_are_those_that_are_tried():
    classified = [c.rpartition(" ")[2] for c in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", c)]
    for job in ("linux", "macos"):
        assert WORKFLOW["jobs"][job]["strategy"]["matrix"]["python"] == classified
    assert PROJECT["requires-python"] == f">={classified[0]}"
    systems = {c for c in PROJECT["classifiers"] if c.startswith("Operating System")}
    # They are those of the two jobs above.
    assert systems == {"Operating System :: POSIX :: Linux", "Operating System :: MacOS"}


def test_an_action_is_pinned_to_a_commit_and_says_which_version_that_is():
    used = re.findall(r"uses: (.+)", "\n".join(WORKFLOWS))
    assert used and all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one) for one in used)
    assert len(set(used)) == len({one.partition("@")[0] for one in used})


def test_a_job_may_read_alone_ends_in_time_and_leaves_no_token_behind():
    for text in WORKFLOWS:
        workflow = yaml.safe_load(text)
        assert workflow["permissions"] == {"contents": "read"}
        assert "pull_request_target" not in text
        for job in workflow["jobs"].values():
            assert job["timeout-minutes"] <= 45 and "permissions" not in job
        steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
        checkouts = [step for step in steps if step.get("uses", "").startswith("actions/checkout@")]
        assert checkouts and all(step["with"]["persist-credentials"] is False for step in checkouts)
        # A script never contains what somebody else may write, such as a branch's name or a title.
        assert not [step["run"] for step in steps if "${{" in step.get("run", "")]


def test_the_space_is_pushed_by_a_tag_alone_after_all_else():
    job = WORKFLOW["jobs"]["space"]
    assert job["if"] == "startsWith(github.ref, 'refs/tags/v')"
    assert {*job["needs"], "check", "space"} == {*WORKFLOW["jobs"]}
    with_secret = [name for name, one in WORKFLOW["jobs"].items() if "secrets." in str(one)]
    assert with_secret == ["space"]


@pytest.mark.parametrize(
    "name",
    ["docs/releasing.md", "CONTRIBUTING.md", "README.md", *(f".github/workflows/{n}.yml" for n in ("test", "nightly"))],
)
def test_what_is_to_be_made_can_be_made(name):
    targets = set(re.findall(r"^([a-z][\w-]*):", MAKEFILE, re.MULTILINE))
    text = (ROOT / name).read_text("utf-8")
    named = re.findall(r"(?:^|[`(] ?|run: |&& |CHROMIUM=\S+ )make ([a-z][\w-]*)", text, re.MULTILINE)
    if name.endswith(".yml"):
        jobs = yaml.safe_load(text)["jobs"].values()
        of_jobs = [job["strategy"]["matrix"].get("target", []) for job in jobs if "strategy" in job]
        named += [target.split()[0] for targets_of in of_jobs for target in targets_of]
    assert named and set(named) <= targets


def test_the_container_answers_on_the_port_of_the_spaces_settings_as_the_user_that_spaces_give_it():
    before, block, _ = (ROOT / "README.md").read_text("utf-8").split("---\n", 2)
    settings = yaml.safe_load(block)
    assert before == "" and len(settings["short_description"]) <= 60  # The Hub refuses a push of a longer description.
    dockerfile = (ROOT / "Dockerfile").read_text("utf-8")
    ports = r"^EXPOSE (\d+)$", r"HTTPConnection\('127.0.0.1', (\d+),", r'"--host", "0\.0\.0\.0", "--port", "(\d+)"\]$'
    assert [re.findall(port, dockerfile, re.MULTILINE) for port in ports] == [[str(settings["app_port"])]] * 3
    # The last USER counts, and its number is the one under which Spaces run everything.
    assert re.findall(r"^USER (\S+)$", dockerfile, re.MULTILINE)[-1] == "1000"


# --- the bounds of the library's dependencies ------------------------------------------------------------------------

EXTRAS = PROJECT["optional-dependencies"]
WANTED = {Requirement(line).name: Requirement(line) for line in [*PROJECT["dependencies"], *EXTRAS["audit"]]}


def test_what_is_tested_fits_the_bounds_and_is_what_the_library_lies_beside():
    lines = (ROOT / "constraints.txt").read_text("utf-8").lower().splitlines()
    pinned = [Requirement(line) for line in lines if "==" in line and not line.startswith("#")]
    newest = {"python_version": "3.12"}  # `make resolves` and the nightly `make parity` use this version.
    tested = {r.name: str(r.specifier)[2:] for r in pinned if not r.marker or r.marker.evaluate(newest)}
    listed = [Requirement(line) for lines in EXTRAS.values() for line in lines]
    extras = [requirement for requirement in listed if requirement.name != PROJECT["name"]]
    assert all(wanted.specifier.contains(tested[wanted.name]) for wanted in [*WANTED.values(), *extras])
    trainers = re.search(r"^TRAINERS = (.+)$", MAKEFILE, re.MULTILINE)[1]
    for name, version in re.findall(r"([\w-]+)(?:\[\w+\])?==(\S+)", trainers):
        assert tested[name.replace("-", "_")] == version
    # No requirement has a bound from above. `make fresh` says which version is too new, and not pip. The libraries of
    # frames have a bound from below, too.
    assert all(spec.operator == ">=" for wanted in WANTED.values() for spec in wanted.specifier)
    assert all(f"'{one}'" in MAKEFILE for one in EXTRAS["dev"] if one.startswith(("pandas", "pyarrow")))
