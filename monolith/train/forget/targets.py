"""Which ids of which table a user means."""

from collections.abc import Sequence
from pathlib import Path

from monolith.checkpoint.forget.finding import Targets
from monolith.checkpoint.forget.model_dir import saved_states
from monolith.checkpoint.format.manifest import has_rows, read_manifest
from monolith.errors import CorruptFileError
from monolith.features.fid import as_signed, make_fid_v2
from monolith.features.string_hash import hash_bytes
from monolith.model import LookupPlan


def make_targets(
    model_dir: Path, name: str, ids: Sequence[int], texts: Sequence[str] = (), slot: int | None = None
) -> Targets:
    """Return the ids to forget by table; `name` is that of a table or of a feature.

    With a `slot`, the numbers are those of a feature inside it: the ids are the fids. Texts are hashed, as columns of
    type "hash" are.

    Raises:
        ValueError: There are no ids, no such table, or a number is no 64-bit integer.
    """
    found = {hash_bytes(text.encode()) for text in texts}
    for id_ in ids:
        if not -(1 << 63) <= id_ < 1 << 63:
            raise ValueError(f"an id is a 64-bit integer, got {id_}")
        found.add(id_ if slot is None else int(as_signed(make_fid_v2(slot, id_))))
    if not found:
        raise ValueError("say which ids are to be forgotten: --id, --text, --ids or --texts")
    return dict.fromkeys(_tables_of(model_dir, name), frozenset(found))


def _tables_of(model_dir: Path, name: str) -> list[str]:
    """Return the tables that a name stands for, in any snapshot: a feature may have had another table before."""
    tables, known = set(), set()
    for plan in _saved_plans(model_dir):
        of_features = {feature.name: feature.table for feature in plan.features}
        here = {table.name for table in plan.planned_tables}
        known |= here | set(of_features)
        tables |= {name} & here or {of_features[name]} & here if name in of_features or name in here else set()
    if not known:  # there are only exports, or nothing at all
        return [name]
    if not tables:
        raise ValueError(f"{model_dir} has no table or feature {name!r}; it has {', '.join(sorted(known))}")
    return sorted(tables)


def _saved_plans(model_dir: Path) -> list[LookupPlan]:
    plans: dict[str, LookupPlan] = {}
    for path in saved_states(model_dir):
        try:
            manifest = read_manifest(path)
        except (OSError, CorruptFileError):
            continue
        if has_rows(manifest) and manifest.plan not in plans:
            plans[manifest.plan] = LookupPlan.from_json(manifest.plan)
    return list(plans.values())
