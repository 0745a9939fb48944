"""Writes three versions; run with `file_log.c` preloaded, its file operations are written down.

`marks/export-<version>` appears when a version is written.
"""

import sys
from pathlib import Path

from tests.export.movie import export

NUM_VERSIONS = 3


def main(root: Path) -> None:
    (root / "marks").mkdir()
    for version in range(1, NUM_VERSIONS + 1):
        export(root / "work" / "versions", version, seed=version)
        (root / "marks" / f"export-{version}").mkdir()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
