"""Where the package lies on disk: `find_main` and `get_libops_path` of the original `monolith.path_utils`."""

import os

# In this order. The last one is where the package folder itself lies; the others contain it.
_MARKERS = ("/__main__/", "/site-packages/", "/monolith/")


def find_main() -> str:
    """Return the folder that holds the `monolith` package: a checkout, `site-packages`, or Bazel's `__main__`."""
    return base_directory_of(os.path.abspath(__file__))


def get_libops_path(lib_name: str) -> str:
    """Return the full path of a file named relative to the folder that holds `monolith`.

    >>> os.path.isfile(get_libops_path("monolith/__init__.py"))
    True
    """
    return os.path.join(find_main(), lib_name)


def base_directory_of(path: str) -> str:
    """Return the folder above the `monolith` package that contains the file at `path`.

    The last occurrence of a marker counts: a checkout may itself lie in a folder called monolith.

    Raises:
        ValueError: if no such folder is found.
    """
    path = path.replace(os.sep, "/")
    for marker in _MARKERS:
        before, found, _ = path.rpartition(marker)
        if not found:
            continue
        directory = before if marker == "/monolith/" else os.path.join(before, marker.strip("/"))
        if os.path.isdir(os.path.join(directory, "monolith")):
            return directory
        break
    raise ValueError(f"no folder that holds the monolith package above {path}; looked for {', '.join(_MARKERS)}")
