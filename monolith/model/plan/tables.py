"""The tables of a plan."""

from dataclasses import replace

from monolith.embedding import MultiTable, Table
from monolith.embedding.admission import Filter, SlotOccurrenceThresholdConfig, create_hash_filter
from monolith.model.plan.lookup_plan import LookupPlan


def make_tables(plan: LookupPlan, *, serving: bool = False) -> MultiTable:
    """Return the empty tables of a plan, with an admission filter where a table has a threshold.

    Serving tables take rows as they come: they have no filter, no optimizer state, and cannot be trained.
    """
    tables = MultiTable({name: replace(config, serving=serving) for name, config in plan.tables().items()})
    if not serving:
        for planned in plan.planned_tables:
            if planned.occurrence_threshold:
                _set_filter(tables[planned.name], planned.occurrence_threshold, planned.filter_capacity)
    return tables


def admission_filters(tables: MultiTable) -> dict[str, Filter]:
    """Return the filters by table; tables without one are left out."""
    return {name: table.admission for name, table in tables.tables.items() if table.admission is not None}


def _set_filter(table: Table, threshold: int, capacity: int) -> None:
    # One filter per table: it counts raw ids, and user 5 is not movie 5.
    thresholds = SlotOccurrenceThresholdConfig(default_occurrence_threshold=threshold)
    table.admission = create_hash_filter(capacity, thresholds=thresholds, name_suffix=f"_{table.config.name}")
    table.native.set_filter(table.admission.native_filter, table.admission.native_thresholds)
