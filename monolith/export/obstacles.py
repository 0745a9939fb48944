"""What keeps a model from being exported, as far as its dry run shows; needs no package that only exports need."""

import torch

from monolith.data import Schema
from monolith.model import DryRun, Mode, MonolithModel
from monolith.model.batch_columns import not_served
from monolith.model.dry_run import NUM_FAKE_EVENTS
from monolith.model.spec import predictions

_TOO_SHORT = (torch.float16, torch.bfloat16)


def export_obstacles(model: MonolithModel, tried: DryRun, schema: Schema) -> list[str]:
    """Return why an export would fail, each with a way out; an empty list does not promise that it works.

    What only tracing shows, such as an operation that ONNX does not have, is not found here. A model that cannot run in
    mode PREDICT has its own warning.
    """
    found = [] if Mode.PREDICT not in tried.specs else _of_predictions(tried, schema)
    short = [name for name, value in model.state_dict().items() if value.dtype in _TOO_SHORT]
    if short:
        found.append(f"weight {short[0]!r} is half precision, and exports hold float32: convert it with .float()")
    return found


def _of_predictions(tried: DryRun, schema: Schema) -> list[str]:
    types = schema.types
    lists = [name for name in tried.columns_read[Mode.PREDICT] if name in types and types[name].is_ragged]
    found = [not_served(lists)] if lists else []
    for name, value in predictions(tried.specs[Mode.PREDICT]).items():
        if value.dim() == 0 or len(value) != NUM_FAKE_EVENTS:
            found.append(
                f"output {name!r} has the shape {list(value.shape)} for {NUM_FAKE_EVENTS} events; a prediction has one "
                "row per event, the batch first"
            )
    return found
