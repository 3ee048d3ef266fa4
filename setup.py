"""What pyproject.toml cannot say: a wheel holds the library alone, a checkout that is installed serves the page."""

import sys
from pathlib import Path

from setuptools import find_packages, setup

# The page runs from a checkout, which is installed as editable. marimo's server finds the entry points, whoever starts
# it; without the page beside them they would stop every marimo of that environment.
of_a_checkout = "editable_wheel" in sys.argv

setup(
    packages=find_packages(include=["gdpo_core*", "views*", "serving*"] if of_a_checkout else ["gdpo_core*"]),
    py_modules=["marimo_private"] if of_a_checkout else [],
    entry_points={
        "console_scripts": ["gdpo = gdpo_core.cli:main"],
        **(
            {
                "marimo.server.asgi.middleware": ["compress = serving:COMPRESS"],
                "marimo.server.asgi.lifespan": ["warm = serving:warm"],
            }
            if of_a_checkout
            else {}
        ),
    },
    # Without the settings of the Space, which stand before it.
    long_description=Path("README.md").read_text(encoding="utf-8").split("---\n", 2)[2],
    long_description_content_type="text/markdown",
)
