"""Facts that a release states in several places agree, such as version, holder, paper, Pythons and targets; and its
workflow has few rights.
"""

import email
import re
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from scripts import make_space, make_wheel

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
    for job in ("linux", "macos", "wheel"):
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
        # Who publishes may prove to PyPI which workflow it is, and nothing else.
        more = {name: job["permissions"] for name, job in workflow["jobs"].items() if "permissions" in job}
        assert more in ({}, {"publish": {"contents": "read", "id-token": "write"}})
        for job in workflow["jobs"].values():
            assert job["timeout-minutes"] <= 45
        steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
        checkouts = [step for step in steps if step.get("uses", "").startswith("actions/checkout@")]
        assert checkouts and all(step["with"]["persist-credentials"] is False for step in checkouts)
        # A script never contains what somebody else may write, such as a branch's name or a title.
        assert not [step["run"] for step in steps if "${{" in step.get("run", "")]


def test_the_space_and_the_wheel_follow_a_tag_alone_after_all_else():
    for name, more in (("space", ""), ("publish", " && vars.PYPI == 'true'")):
        job = WORKFLOW["jobs"][name]
        assert job["if"] == f"startsWith(github.ref, 'refs/tags/v'){more}" and job["environment"]
        assert {*job["needs"], "check", "space", "publish"} == {*WORKFLOW["jobs"]}
    # The wheel is tried before it is published, and goes there without a secret.
    runs = [step["run"] for step in WORKFLOW["jobs"]["publish"]["steps"] if "run" in step]
    assert runs[0].startswith("make wheel ") and "check_wheel.py dist/*.whl" in MAKEFILE
    assert runs[-1].endswith("publish --trusted-publishing always dist/*")
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


# --- what an index gets ----------------------------------------------------------------------------------------------

ADDRESS = "https://host/owner/name"


def test_the_readme_of_an_index_leads_back_to_the_repository_at_the_tag():
    readme = (ROOT / "README.md").read_text("utf-8")
    text = make_wheel.described(readme, ADDRESS, "v1")
    assert text.startswith("# ") and "short_description" not in text and "<!--" not in text
    links = re.compile(r"(?:\]\(|srcset=\"|src=\")([^)\"]+)")
    before, after = links.findall(readme), [link for link in links.findall(text) if "molab" not in link]
    assert all("://" in link or link.startswith("#") for link in after) and len(before) == len(after) > 10
    for link, whole in zip(before, after, strict=True):
        kind = "raw" if link.endswith(".png") else "blob"
        assert whole == (link if "://" in link else f"{ADDRESS}/{kind}/v1/{link}")
    # What is no path stays, as do other addresses.
    text = "[a](#b) [c](mailto:d) [e](https://f/g.png) [h](i/j.md#k)"
    assert make_wheel.described(text, ADDRESS, "v1") == text.replace("i/j.md", f"{ADDRESS}/blob/v1/i/j.md")


@pytest.mark.slow
def test_a_wheel_for_an_index_names_the_project_its_addresses_and_its_types(tmp_path):
    archive, wheel = sorted(make_wheel.build(ADDRESS, tmp_path), key=lambda path: path.suffix)
    assert (archive.suffix, wheel.suffix) == (".gz", ".whl")
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        metadata = email.message_from_bytes(file.read(next(name for name in names if name.endswith("/METADATA"))))
    urls = dict(line.split(", ") for line in metadata.get_all("Project-URL"))
    assert metadata["Name"] == PROJECT["name"] and urls["Source"] == ADDRESS and urls["Issues"] == f"{ADDRESS}/issues"
    assert {"Homepage", "Documentation", "Changelog", "Paper"} <= set(urls)
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload().startswith("# Reward Policy Intuition\n")
    assert {"gdpo_core/py.typed", "gdpo_audit/py.typed", "gdpo_core/frameworks.toml"} <= set(names)
    assert not [name for name in names if name.startswith(("tests/", "views/", "app.py"))]
    with tarfile.open(archive) as file:
        assert not [name for name in file.getnames() if "/tests/" in name]


def test_the_static_space_says_what_it_is_and_its_pages_lead_to_each_other():
    _, block, text = make_space.FRONT_MATTER.split("---\n", 2)
    settings = yaml.safe_load(block)
    assert settings["sdk"] == "static" and len(settings["short_description"]) <= 60
    assert all(f"`{name}`" in text for name in make_space.PAGES)
    for name, title in make_space.PAGES.items():
        page = make_space.linked("<html><body><main></main></body></html>", name, "owner/name")
        assert {*re.findall('href="([^"]+)"', page)} == {
            *({*make_space.PAGES} - {name}),
            "https://huggingface.co/spaces/owner/name",
        }
        assert f"<b>{title}</b>" in page and page.index("</nav>") < page.index("<main>")
    assert "huggingface" not in make_space.linked("<body>", "index.html", "")


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
