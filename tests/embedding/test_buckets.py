"""Which bucket an id belongs to: files that exist, and processes that share a model, go by it."""

import pytest

from monolith._core import native
from tests.embedding.written_hash import hash_of

FIGURES = {0: 0, 1: 236, 2: 511, -1: 880, 185: 963, -(1 << 63): 993, (1 << 63) - 1: 850, (3 << 48) | 5: 530}


@pytest.mark.parametrize(("one", "bucket"), FIGURES.items())
def test_buckets_stay_what_they_were(one, bucket):
    # Another figure means that no table file of before can be read.
    assert native.bucket_of_id(one) == bucket


def test_buckets_are_those_of_the_written_format():
    ids = [sign * (number * 0x9E3779B97F4A7C15 % (1 << 63)) for number in range(500) for sign in (1, -1)]
    assert [native.bucket_of_id(one) for one in ids] == [hash_of(one) >> 54 for one in ids]
