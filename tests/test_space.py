"""The Space: the settings at the head of the README, which the Hub checks, and the container that they speak of."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent
COLOURS = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}
SETTINGS = {  # those in use, of what huggingface.co/docs/hub/spaces-config-reference documents, and what each must be
    "title": str,
    "emoji": str,
    "colorFrom": COLOURS,
    "colorTo": COLOURS,
    "sdk": {"docker"},
    "app_port": int,
    "header": {"mini", "default"},
    "short_description": str,
    "tags": list,
    "thumbnail": str,
    "pinned": bool,
    "license": str,
    "arxiv": {2601.05242},  # not in that list: it names the paper, which the Hub finds by the link in the text
}
LONGEST = 60  # characters of short_description; the Hub refuses a push with more


def settings() -> dict:
    """The block between the first two lines of ---, with which the file must begin."""
    before, block, _ = (ROOT / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    assert before == ""
    return yaml.safe_load(block)


def test_the_hub_knows_every_setting_and_takes_its_value():
    found = settings()
    assert {"title", "sdk", "app_port", "license", "short_description"} <= set(found) <= set(SETTINGS)
    for name, value in found.items():
        wanted = SETTINGS[name]
        assert value in wanted if isinstance(wanted, set) else type(value) is wanted, name
    assert len(found["short_description"]) <= LONGEST
    assert re.fullmatch(r"\W+", found["emoji"]) and "MIT" in (ROOT / "LICENSE").read_text(encoding="utf-8")[:10]


def test_the_container_answers_on_the_port_of_the_settings_as_the_user_that_spaces_give_it():
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    port = str(settings()["app_port"])
    (exposed,) = re.findall(r"^EXPOSE (\d+)$", dockerfile, re.M)
    (asked,) = re.findall(r"HTTPConnection\('127.0.0.1', (\d+),", dockerfile)
    (served,) = re.findall(r'^CMD .*"--host", "0\.0\.0\.0", "--port", "(\d+)"\]$', dockerfile, re.M)
    assert exposed == asked == served == port
    # The last USER counts, and its number is what Spaces run everything as.
    assert re.findall(r"^USER (\S+)$", dockerfile, re.M)[-1] == "1000"
