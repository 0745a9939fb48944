"""Structures on their way to a device."""

import pytest
import torch

from monolith.data import Batch
from monolith.data.prefetch import DeviceCopier, copied_ahead
from monolith.tensors import Ragged

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here: copies to one are not tested")


def structure():
    columns = {"x": torch.arange(3), "words": Ragged.from_bytes([b"a", b"", b"bc"])}
    return {"batch": Batch(columns=columns, first=4, last=7), "rest": [torch.ones(2), ("text", None, 1.5)]}


def test_every_tensor_of_a_structure_moves_and_nothing_else_changes():
    moved = DeviceCopier("meta").send(structure()).receive()
    columns = moved["batch"].columns
    assert columns["x"].device.type == columns["words"].values.device.type == "meta"
    assert columns["words"].row_splits.device.type == moved["rest"][0].device.type == "meta"
    assert (moved["batch"].first, moved["batch"].last) == (4, 7)
    assert moved["rest"][1] == ("text", None, 1.5)


def test_no_device_means_no_change():
    given = structure()
    assert DeviceCopier(None).send(given).receive() is given


@pytest.mark.parametrize("ahead", [0, 1, 3, 10])
def test_order_and_number_are_kept(ahead):
    taken = []

    def values():
        for number in range(5):
            taken.append(number)
            yield {"n": torch.tensor(number)}

    copies = copied_ahead(values(), "cpu", ahead=ahead)
    assert next(copies)["n"].item() == 0
    assert len(taken) == min(ahead + 1, 5)
    assert [copy["n"].item() for copy in copies] == [1, 2, 3, 4]


def test_ahead_must_not_be_negative():
    with pytest.raises(ValueError, match="ahead must not be negative"):
        next(copied_ahead([], "cpu", ahead=-1))


@needs_gpu
def test_a_structure_on_a_gpu():
    moved = DeviceCopier("cuda").send(structure()).receive()
    assert moved["batch"].columns["words"].values.is_cuda
    assert moved["batch"].columns["words"].to_bytes_list() == [b"a", b"", b"bc"]
    assert moved["batch"].columns["x"].tolist() == [0, 1, 2]


@needs_gpu
def test_many_large_copies_arrive_whole():
    """Memory that is given away too early, or read before the copy is there, shows as wrong sums."""
    values = ({"n": torch.full((1 << 20,), float(number))} for number in range(40))
    for number, value in enumerate(copied_ahead(values, "cuda", ahead=2)):
        busy = torch.randn(512, 512, device="cuda")
        for _ in range(5):
            busy = busy @ busy / 512
        total = value["n"].sum()
        del value
        assert total.item() == number * (1 << 20)
