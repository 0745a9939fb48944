"""MultiHead: clicks and conversions predicted together, by experts that both share."""

from typing import Any

import torch
from torch import Tensor, nn

from monolith.data import Batch, Pipeline, Source
from monolith.model.layers import MMoE
from monolith.model.modes import Mode
from monolith.model.spec import EstimatorSpec
from monolith.model.zoo.click_model import CATEGORIES, NUM_DENSE, ClickModel, tower

LABELS = {"click": "label", "convert": "convert"}
"""Column of the label of each head."""

NUM_EXPERTS, EXPERT_WIDTH = 4, 32


class MultiHead(ClickModel):
    """A net per head over a mixture of experts, of which each head has its own (Ma et al., 2018).

    Reads `C1` to `C26`, `dense`, `label` for the head "click" and `convert`. Without a `source` clicks are made up, and
    about a third of them convert; see `with_conversions`.
    """

    def __init__(self, params: Any = None) -> None:
        """Make the experts, their gates and a net per head."""
        super().__init__(params)
        width = len(CATEGORIES) * self.dim + NUM_DENSE
        self.experts = MMoE(len(LABELS), [*self.settings.hidden, EXPERT_WIDTH], num_experts=NUM_EXPERTS)
        self.experts(torch.zeros(2, width))  # weights get their shape from it, and Adagrad's state needs one
        self.nets = nn.ModuleDict({head: tower(EXPERT_WIDTH, [16, 1]) for head in LABELS})
        self.make_optimizer()

    def input_fn(self, mode: Mode) -> Source:
        """Return the source among the parameters, or made-up clicks and conversions."""
        source = super().input_fn(mode)
        return source if self.settings.source is not None else with_conversions(Pipeline(source))

    def model_fn(self, features: dict[str, Any], mode: Mode) -> EstimatorSpec:
        """Return the chance of a click and of a conversion, and the summed log loss of both."""
        rows = self.lookup_embedding_slice(CATEGORIES, "vec", self.dim, out_type="concat")
        mixed = self.experts(torch.cat([rows, features["dense"]], dim=1))
        logits = {head: self.nets[head](part.relu()).squeeze(1) for head, part in zip(LABELS, mixed, strict=True)}
        pred = {head: logit.sigmoid() for head, logit in logits.items()}
        if mode == Mode.PREDICT:
            return EstimatorSpec(label=None, pred=pred)
        label = {head: features[column] for head, column in LABELS.items()}
        losses = [
            nn.functional.binary_cross_entropy_with_logits(logits[head], label[head], reduction="sum")
            for head in LABELS
        ]
        return EstimatorSpec(label=label, pred=pred, loss=torch.stack(losses).sum(), optimizer=self.optimizer)


def with_conversions(clicks: Pipeline) -> Pipeline:
    """Return clicks with a second label, `convert`: those of which the first number is above 1, about a third."""

    def convert(batch: Batch) -> Batch:
        label, dense = batch.columns["label"], batch.columns["dense"]
        assert isinstance(label, Tensor)
        assert isinstance(dense, Tensor)
        return batch.with_columns({**batch.columns, "convert": label * (dense[:, 0] > 1)})

    return clicks.map(convert, clicks.schema.with_columns(convert="float32"))
