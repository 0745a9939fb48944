"""Losses of ranking models, under the names of the original."""

from monolith.model.losses.batch_softmax import batch_softmax_loss
from monolith.model.losses.inbatch_auc import inbatch_auc_loss
from monolith.model.losses.predictions import get_sigmoid_loss_and_pred, get_softmax_loss_and_pred

__all__ = ["batch_softmax_loss", "get_sigmoid_loss_and_pred", "get_softmax_loss_and_pred", "inbatch_auc_loss"]
