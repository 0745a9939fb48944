"""Memory goes to the next batch once its last user is gone, and never before."""

import torch

from monolith.data.files.recycled_bytes import RecycledBytes

SIZE = 100_000


def test_memory_in_use_is_left_alone_and_unused_memory_comes_again():
    memory = RecycledBytes()
    first = memory.take(SIZE)
    address = first.ctypes.data
    tensor = torch.from_numpy(first[:50])
    del first
    second = memory.take(SIZE)
    view = tensor[3:]
    del tensor
    third = memory.take(SIZE)
    assert len({address, second.ctypes.data, third.ctypes.data}) == 3
    del view
    assert memory.take(SIZE).ctypes.data == address


def test_much_larger_memory_is_not_spent_on_little():
    memory = RecycledBytes()
    address = memory.take(100 * SIZE).ctypes.data
    assert memory.take(SIZE).ctypes.data != address
    assert len(memory.take(SIZE)) <= 4 * SIZE
