"""Messages as bytes: what goes in comes out, and what is no frame is refused."""

import struct

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from monolith._core import native
from monolith.errors import CorruptFrameError
from monolith.wire import FrameLimits, Message
from monolith.wire.frame import HEADER_BYTES, decode_frame, decode_header, encode_frame
from monolith.wire.message import Kind

DTYPES = ["int32", "int64", "uint8", "uint32", "uint64", "float32", "float16", "bool"]


def frame_bytes(message: Message, **options) -> bytes:
    return b"".join(encode_frame(message, **options))


def decode(data: bytes, limits: FrameLimits | None = None) -> Message:
    header = decode_header(data[:HEADER_BYTES], limits or FrameLimits())
    return decode_frame(header, np.frombuffer(data, np.uint8)[HEADER_BYTES:])


def with_header_fields(data: bytes, *, at: int, fmt: str, value: int) -> bytes:
    """Change a field of the header and make its checksum right again."""
    header = bytearray(data[: HEADER_BYTES - 4])
    struct.pack_into(fmt, header, at, value)
    return bytes(header) + struct.pack("<I", native.crc32c(bytes(header))) + data[HEADER_BYTES:]


def test_the_first_bytes_are_those_of_the_specification():
    # Written down by hand from docs/formats.md, "Wire frames".
    message = Message(type=3, generation=5, epoch=6, sequence=7, plan_hash=8, arrays={"x": np.array([258], np.int32)})
    data = frame_bytes(message, kind=Kind.REPLY, request_id=4, deadline_ms=9)
    index = b"{}" + bytes([1, 1, 1, 0]) + (1).to_bytes(8, "little") + b"x"
    header = b"MNLWIRE\n" + struct.pack("<4H", 2, 2, 3, 1) + struct.pack("<5Q", 4, 5, 6, 7, 8)
    header += struct.pack("<4I", 9, 2, 1, len(index) - 2) + struct.pack("<Q", 128 + 4)
    header += struct.pack("<I", native.crc32c(index))
    expected = header + struct.pack("<I", native.crc32c(header)) + index
    assert data == expected.ljust(128, b"\0") + b"\x02\x01\x00\x00"


@given(
    arrays=st.dictionaries(
        st.text(max_size=8),
        st.sampled_from(DTYPES).flatmap(lambda dtype: npst.arrays(dtype, npst.array_shapes(min_dims=0, min_side=0))),
        max_size=5,
    ),
    numbers=st.tuples(*[st.integers(0, 2**64 - 1)] * 4),
    type_=st.integers(0, 65535),
)
def test_a_message_comes_out_as_it_went_in(arrays, numbers, type_):
    generation, epoch, sequence, plan_hash = numbers
    sent = Message(
        type=type_, generation=generation, epoch=epoch, sequence=sequence, plan_hash=plan_hash,
        meta={"names": list(arrays)}, arrays=arrays,
    )  # fmt: skip
    got = decode(frame_bytes(sent))
    assert (got.type, got.generation, got.epoch, got.sequence, got.plan_hash, got.meta) == (
        type_, *numbers, {"names": list(arrays)}
    )  # fmt: skip
    assert list(got.arrays) == list(arrays)
    for name, array in arrays.items():
        assert got.arrays[name].dtype == array.dtype and got.arrays[name].shape == array.shape
        assert got.arrays[name].tobytes() == array.tobytes()


def test_arrays_are_sent_and_received_without_a_copy():
    array = np.arange(1000, dtype=np.float32)
    parts = encode_frame(Message(type=1, arrays={"rows": array}))
    assert any(np.shares_memory(np.frombuffer(part, np.uint8), array) for part in parts)
    buffer = np.frombuffer(b"".join(parts), np.uint8)
    header = decode_header(buffer[:HEADER_BYTES].tobytes())
    assert np.shares_memory(decode_frame(header, buffer[HEADER_BYTES:]).arrays["rows"], buffer)


def test_strided_and_big_endian_arrays_arrive_right():
    strided = np.arange(12, dtype=np.int64).reshape(3, 4)[:, ::2]
    big_endian = np.array([1, 2], dtype=">i4")
    got = decode(frame_bytes(Message(type=1, arrays={"a": strided, "b": big_endian}))).arrays
    np.testing.assert_array_equal(got["a"], strided)
    np.testing.assert_array_equal(got["b"], [1, 2])


@pytest.mark.parametrize("dtype", ["float64", "complex64", "object", "datetime64[s]", "S3"])
def test_other_element_types_cannot_be_sent(dtype):
    with pytest.raises(TypeError, match="'x'.*cannot be sent; convert it to one of int32"):
        encode_frame(Message(type=1, arrays={"x": np.zeros(1, dtype)}))


@given(st.binary(min_size=HEADER_BYTES, max_size=300))
def test_random_bytes_are_no_frame(data):
    with pytest.raises(CorruptFrameError):
        decode(data)


SAMPLE = frame_bytes(Message(type=1, meta={"a": 1}, arrays={"ids": np.arange(3), "rows": np.zeros((3, 2), np.float32)}))


@given(at=st.integers(0, 190), bit=st.integers(0, 7))
def test_a_flipped_bit_before_the_arrays_is_noticed_or_changes_padding_only(at, bit):
    data = bytearray(SAMPLE)
    data[at] ^= 1 << bit
    try:
        got = decode(bytes(data))
    except CorruptFrameError:
        return
    assert at >= HEADER_BYTES + 7 + (4 + 8 + 3) + (4 + 16 + 4), "a damaged header or index was taken"
    assert got.meta == {"a": 1}


@given(st.integers(0, len(SAMPLE) - 1))
def test_a_truncated_frame_is_refused(length):
    with pytest.raises(CorruptFrameError):
        decode(SAMPLE[:length])


@given(st.data())
def test_lying_headers_with_a_right_checksum_are_refused(data):
    # Offsets of the lengths: meta bytes, number of arrays, description bytes (u32), total bytes (u64).
    at, fmt, bits = data.draw(st.sampled_from([(60, "<I", 32), (64, "<I", 32), (68, "<I", 32), (72, "<Q", 64)]))
    (right,) = struct.unpack_from(fmt, SAMPLE, at)
    value = data.draw(st.integers(0, 2**bits - 1).filter(lambda value: value != right))
    with pytest.raises(CorruptFrameError):
        decode(with_header_fields(SAMPLE, at=at, fmt=fmt, value=value))


DESCRIPTIONS = st.lists(
    st.tuples(
        st.integers(0, 9),
        st.lists(st.sampled_from([0, 0, 1, 2, 2**40, 2**64 - 1]), max_size=9),
        st.binary(max_size=3) | st.sampled_from([b"x", b"x"]),
        st.integers(-1, 1) | st.just(0),
    ),
    max_size=3,
)


def index_of(descriptions) -> bytes:
    """Descriptions of arrays, some of which say one byte more or less of their name than there is."""
    return b"{}" + b"".join(
        bytes([number, len(shape)]) + struct.pack(f"<H{len(shape)}Q", max(0, len(name) + lie), *shape) + name
        for number, shape, name, lie in descriptions
    )


@example([], 0, b"x", 0)
@example([(3, [0], b"x", 0)], 0, b"", 0)
@given(DESCRIPTIONS, st.integers(-1, 1), st.binary(max_size=3), st.sampled_from([0, 0, 1, 100]))
def test_an_index_with_right_checksums_is_read_as_exactly_what_it_says_or_refused(descriptions, more, noise, rest):
    index, num_arrays = index_of(descriptions) + noise, max(0, len(descriptions) + more)
    header = b"MNLWIRE\n" + struct.pack("<4H5Q", 2, 2, 1, 0, 1, 0, 0, 0, 0)
    header += struct.pack("<4IQI", 0, 2, num_arrays, len(index) - 2, HEADER_BYTES + len(index) + rest,
                          native.crc32c(index))  # fmt: skip
    data = header + struct.pack("<I", native.crc32c(header)) + index + bytes(rest)
    try:
        got = decode(data)
    except CorruptFrameError:
        return
    # Whatever was read, its own bytes are those that came: nothing was passed over, nothing was made up.
    assert frame_bytes(got, request_id=1) == data
    assert {name: array.dtype for name, array in got.arrays.items()} == {
        name.decode(): np.dtype(DTYPES[number - 1]) for number, _, name, _ in descriptions
    }


@pytest.mark.parametrize("shape", [(0, 2**63, 2**63), (2**40, 2**40), (2**64 - 1,), (0, 2**64 - 1)])
def test_impossible_shapes_are_refused(shape):
    index = b"{}" + bytes([6, len(shape), 1, 0]) + struct.pack(f"<{len(shape)}Q", *shape) + b"x"
    header = b"MNLWIRE\n" + struct.pack("<4H5Q", 2, 2, 1, 0, 1, 0, 0, 0, 0)
    header += struct.pack("<4IQI", 0, 2, 1, len(index) - 2, HEADER_BYTES + len(index), native.crc32c(index))
    with pytest.raises(CorruptFrameError, match="'x'"):
        decode(header + struct.pack("<I", native.crc32c(header)) + index)


def index_bytes(data: bytes) -> int:
    header = decode_header(data[:HEADER_BYTES])
    return header.meta_bytes + header.description_bytes


@pytest.mark.parametrize(
    ("limit", "exact"), [("max_frame_bytes", len(SAMPLE)), ("max_index_bytes", index_bytes(SAMPLE)), ("max_arrays", 2)]
)
def test_a_frame_at_the_limit_is_read_and_one_beyond_is_refused_by_its_header_alone(limit, exact):
    assert decode(SAMPLE, FrameLimits(**{limit: exact})).meta == {"a": 1}
    with pytest.raises(CorruptFrameError, match="beyond the limit"):
        decode_header(SAMPLE[:HEADER_BYTES], FrameLimits(**{limit: exact - 1}))


def test_another_version_is_refused_by_name():
    newer = with_header_fields(with_header_fields(SAMPLE, at=8, fmt="<H", value=3), at=10, fmt="<H", value=4)
    with pytest.raises(CorruptFrameError, match="versions 3 to 4, this one 2"):
        decode(newer)
    assert decode(with_header_fields(SAMPLE, at=10, fmt="<H", value=3)).meta == {"a": 1}, "2 to 3 includes 2"


@pytest.mark.parametrize("meta", [b"[1]", b"{", b'"x"', b"[" * 100_000])
def test_meta_data_that_is_no_json_object_is_refused(meta):
    header = b"MNLWIRE\n" + struct.pack("<4H5Q", 2, 2, 1, 0, 1, 0, 0, 0, 0)
    header += struct.pack("<4IQI", 0, len(meta), 0, 0, HEADER_BYTES + len(meta), native.crc32c(meta))
    with pytest.raises(CorruptFrameError, match="meta data"):
        decode(header + struct.pack("<I", native.crc32c(header)) + meta)
