"""Memory goes to the next batch once its last user is gone, and never before."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from monolith.tensors.recycled_bytes import RecycledBytes

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


def test_floats_have_memory_of_their_own_while_any_view_of_them_lives():
    memory = RecycledBytes()
    first = memory.floats(SIZE).fill_(1.0)
    second = memory.floats(SIZE).fill_(2.0)
    view = first.view(-1, 10)[5:].transpose(0, 1)
    address = first.data_ptr()
    del first
    third = memory.floats(SIZE).fill_(3.0)
    assert (view == 1.0).all() and (second == 2.0).all()
    del view
    assert memory.floats(SIZE).data_ptr() == address != third.data_ptr()


@pytest.mark.parametrize("count", [8_192, 10_001, 200_000, 500_000])
def test_floats_begin_at_a_cache_line(count):
    memory = RecycledBytes()
    assert [memory.floats(count).data_ptr() % 64 for _ in range(5)] == [0] * 5


def test_what_a_backward_pass_needs_is_not_given_away():
    memory = RecycledBytes()
    weights = torch.ones(SIZE, requires_grad=True)
    loss = (weights * memory.floats(SIZE).fill_(2.0)).sum()
    memory.floats(SIZE).fill_(3.0)
    loss.backward()
    assert weights.grad is not None and (weights.grad == 2.0).all()


@pytest.mark.parametrize("count", [0, 1, 5])
def test_few_floats_are_a_tensor_of_that_many(count: int):
    assert RecycledBytes().floats(count).shape == (count,)


def test_threads_never_share_memory():
    memory = RecycledBytes()

    def own_values(number: int) -> bool:
        for _ in range(500):
            mine = memory.floats(SIZE).fill_(number)
            kept = mine[::7]
            del mine
            if not (kept == number).all():
                return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(own_values, range(4)))
