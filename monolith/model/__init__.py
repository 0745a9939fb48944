"""Rows to predictions: the model a user writes, its lookup plan, and one pull and push per batch."""

from monolith.model.base import MonolithModel
from monolith.model.dense import dense, run_dense
from monolith.model.dry_run import DryRun, dry_run, make_plan
from monolith.model.fused_lookup import FusedLookup
from monolith.model.lookup import Lookup, Pulled
from monolith.model.modes import EVAL, PREDICT, TRAIN, Mode
from monolith.model.plan.feature_column import FeatureColumn
from monolith.model.plan.lookup_plan import LookupPlan, plan_differences
from monolith.model.plan.planned_table import PlannedFeature, PlannedSlice, PlannedTable
from monolith.model.plan.tables import admission_filters, make_filters, make_tables
from monolith.model.serving_inputs import ServingInputReceiver
from monolith.model.spec import EstimatorSpec

__all__ = [
    "EVAL",
    "PREDICT",
    "TRAIN",
    "DryRun",
    "EstimatorSpec",
    "FeatureColumn",
    "FusedLookup",
    "Lookup",
    "LookupPlan",
    "Mode",
    "MonolithModel",
    "PlannedFeature",
    "PlannedSlice",
    "PlannedTable",
    "Pulled",
    "ServingInputReceiver",
    "admission_filters",
    "dense",
    "dry_run",
    "make_plan",
    "make_filters",
    "make_tables",
    "plan_differences",
    "run_dense",
]
