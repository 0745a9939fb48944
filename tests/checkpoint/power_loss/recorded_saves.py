"""A run that saves in every way there is; run with `file_log.c` preloaded, its file operations are written down.

Prints, for every step that was saved, a digest of the state. `marks/<step>` appears when a save has returned.
"""

import json
import sys
from pathlib import Path

from monolith.checkpoint import ModelDirOwner, claim_generation, clean_leftovers
from monolith.checkpoint.keep.retention import Retention, retire_snapshots
from tests.checkpoint.small_state import State
from tests.e2e.saving_job import digest

SERIES = "snapshot delta delta snapshot again delta delta snapshot snapshot delta again"
"""`again` writes a snapshot where the last save was a snapshot of the same step or its deltas."""


def main(root: Path) -> None:
    model_dir, marks = root / "work" / "model", root / "marks"
    marks.mkdir()
    digests: dict[int, str] = {}
    with ModelDirOwner(model_dir):
        clean_leftovers(model_dir)
        generation = claim_generation(model_dir, 0)
        state = State()
        trackers = state.track()
        links: list[Path] = []
        for number, kind in enumerate(SERIES.split()):
            if kind != "again":
                state.train(2)
            frozen = state.freeze(trackers=trackers, generation=generation)
            if kind == "delta":
                links.append(frozen.write_delta(links[-1]))
            else:
                links = [frozen.write_snapshot(model_dir, num_shards=2, in_parallel=False)]
            digests[state.step] = digest(state)
            (marks / f"{number}-{state.step}").mkdir()
            retire_snapshots(model_dir, Retention(max_to_keep=2))
    print(json.dumps(digests))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
