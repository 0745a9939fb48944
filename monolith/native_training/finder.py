"""One import finder for every module path of the original system.

It stands last on `sys.meta_path`, so Python asks it only about modules that nobody else has, and it answers only for
the paths in `homes.py` that have no file. A module made here holds nothing at first: each name is fetched from its home
when it is used, so importing such a path loads neither torch nor an optional dependency.
"""

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from monolith.native_training.absent import RETIRED
from monolith.native_training.homes import EVERYTHING, HOMES


class OriginalPathFinder(MetaPathFinder, Loader):
    """Finds and makes the modules of the original system.

    >>> OriginalPathFinder().find_spec("monolith.native_training.runtime.ops").submodule_search_locations
    []
    >>> OriginalPathFinder().find_spec("monolith.no_such_module") is None
    True
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of an original path, or None for any other name."""
        is_package = any(module.startswith(f"{fullname}.") for module in HOMES)
        if fullname in HOMES or (is_package and fullname.startswith("monolith.native_training.")):
            return ModuleSpec(fullname, self, origin="monolith.native_training.homes", is_package=is_package)
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its lazy names; load its home at once if it stands for the whole of it."""
        path = module.__name__
        names = HOMES.get(path, {})
        offered = {name for name in names if name != EVERYTHING and not reason_of_absence(f"{path}:{name}")}
        if EVERYTHING in names:
            home = fetch(names[EVERYTHING])
            public = {name: value for name, value in vars(home).items() if not name.startswith("_")}
            vars(module).update(public)
            offered |= public.keys()
        listed = sorted(offered)
        vars(module).update(
            __doc__=f"The original path {path}; its names live in {', '.join(homes_of(path)) or 'no other module'}.",
            __all__=listed,
            __getattr__=names_from_table(path),
            __dir__=lambda: listed,
        )


def names_from_table(path: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of an original path: it fetches a name of the table from its home at first use.

    A file at an original path that has only some of its names takes the others this way:
    `__getattr__ = names_from_table(__name__)`.
    """
    names = HOMES.get(path, {})

    def lazy(name: str) -> Any:
        reason = reason_of_absence(f"{path}:{name}")
        if reason:
            raise ImportError(reason, name=path)
        if name not in names:
            raise AttributeError(f"module {path!r} has no attribute {name!r}")
        value = fetch(names[name])
        setattr(sys.modules[path], name, value)
        return value

    return lazy


def fetch(home: str) -> object:
    """Return the object, or the module, that "package.module:attribute" names.

    >>> fetch("math:floor")(2.5)
    2
    """
    module, _, attribute = home.partition(":")
    found = import_module(module)
    return getattr(found, attribute) if hasattr(found, attribute) else import_module(f"{module}.{attribute}")


def homes_of(path: str) -> list[str]:
    """Return the modules in which the names of an original path live now.

    >>> homes_of("monolith.path_utils")
    ['monolith.native_training.base_directory']
    """
    return sorted({home.partition(":")[0] for home in HOMES.get(path, {}).values()})


def reason_of_absence(name: str) -> str | None:
    """Return the sentence that says why "original.module:name" cannot be imported; None if nothing is known of it.

    >>> reason_of_absence("monolith.path_utils:find_main") is None
    True
    """
    if name in RETIRED:
        return f"{name.replace(':', '.')} is retired: {RETIRED[name]}"
    return None


def register() -> None:
    """Put the finder on `sys.meta_path`, once however often this is called."""
    if not any(isinstance(finder, OriginalPathFinder) for finder in sys.meta_path):
        sys.meta_path.append(OriginalPathFinder())
