"""The tables of a plan."""

from dataclasses import replace

from monolith.embedding import MultiTable
from monolith.embedding.admission import (
    AdmissionFilter,
    FilterType,
    SlotOccurrenceThresholdConfig,
    create_hash_filter,
    create_probabilistic_filter,
)
from monolith.embedding.hash_shards import WHOLE, HashShard
from monolith.model.plan.lookup_plan import LookupPlan
from monolith.model.plan.planned_table import PlannedTable, hash64


def make_tables(
    plan: LookupPlan, *, serving: bool = False, shard: HashShard = WHOLE, initial_capacity: int = 0
) -> MultiTable:
    """Return the empty tables of a plan, with an admission filter where a table has a threshold.

    Serving tables take rows as they come: they have no filter, no optimizer state, and cannot be trained. With
    a `shard`, tables and filters are for ids of this shard only. `initial_capacity` makes room for rows; 0 does not.
    """
    tables = MultiTable(
        {
            name: replace(config, serving=serving, initial_capacity=initial_capacity or config.initial_capacity)
            for name, config in plan.tables().items()
        },
        shard=shard,
    )
    if not serving:
        for name, admission in make_filters(plan, shard).items():
            tables[name].admission = admission
            tables[name].native.set_filter(admission.native_filter, admission.native_thresholds)
    return tables


def make_filters(plan: LookupPlan, shard: HashShard = WHOLE) -> dict[str, AdmissionFilter]:
    """Return empty admission filters for the tables of a plan that have a threshold, by table."""
    # One filter per table: it counts raw ids, and user 5 is not movie 5.
    return {planned.name: _filter(planned, shard) for planned in plan.planned_tables if planned.occurrence_threshold}


def _filter(planned: PlannedTable, shard: HashShard) -> AdmissionFilter:
    thresholds = SlotOccurrenceThresholdConfig(default_occurrence_threshold=planned.occurrence_threshold)
    suffix, admission = f"_{planned.name}", planned.admission
    if admission.kind == FilterType.PROBABILISTIC_FILTER:
        # Shards draw apart: equal draws would let their ids in together.
        drawer = planned.name if shard == WHOLE else f"{planned.name} {shard[0]} of {shard[1]}"
        return create_probabilistic_filter(admission.equal_probability, thresholds, suffix, hash64(drawer))
    return create_hash_filter(planned.filter_capacity, admission.split_num, thresholds, suffix, shard)


def admission_filters(tables: MultiTable) -> dict[str, AdmissionFilter]:
    """Return the filters by table; tables without one are left out."""
    return {name: table.admission for name, table in tables.tables.items() if table.admission is not None}
