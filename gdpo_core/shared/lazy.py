"""Names of a package that are imported when they are first used, so that what needs none of them waits for nothing."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from gdpo_core.shared.extras import needs


def names_on_demand(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a function that serves as the `__getattr__` of a package, for names that its modules define and for these
    modules.

    A name is imported when it is first asked for, and is an attribute of the package from then on. The function raises
    AttributeError for any other name, as Python does where there is no such function, and MissingExtra where the extra
    `audit` is not installed and the name needs it.

    package: the name of the package.
    modules: by the full name of each module, the names of attributes that it defines, with blanks between them.
    """
    defined_in = {name: module for module, names in modules.items() for name in names.split()}
    inside = {module.split(".")[1] for module in modules}

    def attribute(name: str) -> Any:
        if name not in defined_in and name not in inside:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with needs("audit", f"{package}.{name}"):
            if name in inside:
                return import_module(f"{package}.{name}")
            value = getattr(import_module(defined_in[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return attribute
