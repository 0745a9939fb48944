"""Writes three versions, two of them with their rows in two parts, with `file_log.c` preloaded.

So its file operations are written down. `marks/export-<version>` appears when a version is written.
"""

import sys
from pathlib import Path

from tests.export.movie import export

NUM_VERSIONS = 3


def main(root: Path) -> None:
    (root / "marks").mkdir()
    for version in range(1, NUM_VERSIONS + 1):
        if version % 2:
            export(root / "work" / "distributed", version, seed=version, num_shards=2)
        else:
            export(root / "work" / "versions", version, seed=version)
        (root / "marks" / f"export-{version}").mkdir()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
