"""DeviceState: dense weights on a device; rows and columns of a batch travel there, gradients of rows come back."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from monolith.data import Batch, Column, Source
from monolith.model import MonolithModel, Pulled
from monolith.model.plan.slices import PulledKey
from monolith.tensors import Ragged
from monolith.train.state import StateConfig, TrainState


@dataclass(frozen=True, slots=True)
class Device:
    """Where the dense part computes."""

    place: torch.device
    finish_step: Callable[[], None] = lambda: None
    """Called after every step; a device that collects operations carries them out here."""


class DeviceState(TrainState):
    """A state of one process whose dense weights and their optimizer are on a device."""

    def __init__(
        self, model: MonolithModel, source: Source, config: StateConfig | None = None, *, device: Device
    ) -> None:
        """Make the plan and the tables in memory, then move the weights."""
        super().__init__(model, source, config)
        self._device = device
        move(model, device.place)

    def columns_of(self, batch: Batch) -> Mapping[str, Column]:
        """Return the columns of a batch, on the device."""
        return {name: _moved(column, self._device.place) for name, column in batch.columns.items()}

    def pull(self, batch: Batch) -> Pulled:
        """Return copies of a batch's rows on the device, which collect gradients there."""
        pulled = super().pull(batch)
        copies = {
            key: rows.detach().to(self._device.place, copy=True).requires_grad_() for key, rows in pulled.slices.items()
        }
        gradients = pulled.row_gradients
        assert gradients is not None

        def row_gradients() -> Tensor:
            _bring_back(copies, pulled.slices)
            return gradients()

        return Pulled(copies, pulled.batch_plan, row_gradients)

    def step_dense(self, batch: Batch) -> None:
        """Step the dense weights on the device."""
        super().step_dense(batch)
        self._device.finish_step()


def move(model: nn.Module, place: torch.device) -> None:
    """Move the weights of a model; they stay the same objects, so its optimizer still has them."""
    with _same_parameters():
        model.to(place)


@contextmanager
def _same_parameters() -> Iterator[None]:
    before = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        yield
    finally:
        torch.__future__.set_swap_module_params_on_conversion(before)


def _moved(column: Column, place: torch.device) -> Column:
    if isinstance(column, Ragged):
        return Ragged.unchecked(column.values.to(place), column.row_splits.to(place))
    return column.to(place)


def _bring_back(copies: Mapping[PulledKey, Tensor], slices: Mapping[PulledKey, Tensor]) -> None:
    """Copy the gradients of the device to the slices that a push reads."""
    for key, copy in copies.items():
        rows = slices[key]
        if copy.grad is None or rows.grad is None:
            rows.grad = None if copy.grad is None else copy.grad.to(rows.device)
        else:
            rows.grad.copy_(copy.grad)
