"""Tensors as they lie in memory, and packed bodies: what Triton's own client sends by default."""

import gzip
import json
import struct
import zlib

import numpy as np
import pytest

from monolith.serving.request_body import MAX_BODY_BYTES
from tests.export.movie import eager, request, trained
from tests.serving.requests import DATATYPES, INFER, PREDICT, binary_body, infer_body

PACK = {"gzip": gzip.compress, "deflate": zlib.compress}


def split_answer(answer):
    """The JSON of an answer, and the bytes after it."""
    size = int(answer.headers["Inference-Header-Content-Length"])
    return json.loads(answer.content[:size]), answer.content[size:]


def test_binary_tensors_in_json_out(client):
    columns = request(5)
    body, headers = binary_body(columns)
    answer = client.post(INFER, content=body, headers=headers)
    assert answer.status_code == 200, answer.text
    np.testing.assert_allclose(answer.json()["outputs"][0]["data"], eager(*trained(), columns), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "fields",
    [
        {"parameters": {"binary_data_output": True}},
        {"outputs": [{"name": "pred", "parameters": {"binary_data": True}}]},
        {"outputs": [{"name": "pred"}], "parameters": {"binary_data_output": True}},
    ],
)
def test_binary_tensors_out(client, fields):
    columns = request(5)
    for body, headers in (binary_body(columns, **fields), (json.dumps({**infer_body(columns), **fields}), {})):
        answer = client.post(INFER, content=body, headers=headers)
        assert answer.status_code == 200, answer.text
        assert answer.headers["Content-Type"] == "application/octet-stream"
        head, tail = split_answer(answer)
        assert head["outputs"] == [
            {"name": "pred", "datatype": "FP32", "shape": [5], "parameters": {"binary_data_size": 20}}
        ]
        np.testing.assert_allclose(np.frombuffer(tail, "<f4"), eager(*trained(), columns), rtol=0, atol=1e-6)


def test_json_out_on_request(client):
    fields = {
        "parameters": {"binary_data_output": True},
        "outputs": [{"name": "pred", "parameters": {"binary_data": False}}],
    }
    body, headers = binary_body(request(2), **fields)
    answer = client.post(INFER, content=body, headers=headers)
    assert "Inference-Header-Content-Length" not in answer.headers
    assert len(answer.json()["outputs"][0]["data"]) == 2


def test_binary_and_json_tensors_in_one_request(client):
    columns = request(3)
    body, _ = binary_body({"mov": columns["mov"]})
    inputs = infer_body({name: columns[name] for name in ("uid", "hour")})["inputs"]
    binary = {"name": "mov", "shape": [3], "datatype": "INT64", "parameters": {"binary_data_size": 24}}
    head = json.dumps({"inputs": [inputs[0], binary, inputs[1]]}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))}
    answer = client.post(INFER, content=head + columns["mov"].tobytes(), headers=headers)
    np.testing.assert_allclose(answer.json()["outputs"][0]["data"], eager(*trained(), columns), rtol=0, atol=1e-6)


def tensor(name="uid", shape=(2,), datatype=None, size=16, **fields):
    parameters = {"binary_data_size": size}
    return {
        "name": name,
        "shape": list(shape),
        "datatype": datatype or DATATYPES[name],
        "parameters": parameters,
        **fields,
    }


WRONG_TENSORS = [
    ([tensor(size=17)], bytes(16), "input 'uid': 17 bytes of binary data are announced, 16 follow"),
    ([tensor(size=2**62)], bytes(16), "bytes of binary data are announced, 16 follow"),
    ([tensor(size=-1)], bytes(16), "-1 bytes of binary data are announced"),
    ([tensor(size=9)], bytes(9), "9 bytes of binary data are no whole number of INT64 values"),
    ([tensor(size="16")], bytes(16), "binary_data_size must be a number of bytes"),
    ([tensor(size=16.0)], bytes(16), "expected an integer, got 16"),
    ([tensor(size=2**70)], bytes(16), "expected an integer"),
    ([tensor(shape=(3,))], bytes(16), "shape [3] does not fit 2 values of data"),
    ([tensor(data=[1, 2])], bytes(16), "input 'uid' has both data and binary data"),
    ([tensor(parameters=[])], bytes(16), "'parameters' must be an object, got a list of 0"),
    ([tensor("hour", size=8)], struct.pack("<ff", 1, float("nan")), "input 'hour': a value is NaN or infinite"),
    ([tensor("hour", size=8)], struct.pack("<ff", float("inf"), 1), "input 'hour': a value is NaN or infinite"),
    ([tensor(datatype="BOOL", size=2)], b"\x01\x02", "a BOOL is a byte 0 or 1, got 2"),
    ([tensor(datatype="BYTES")], bytes(16), "input 'uid' must be INT64, got BYTES; send numbers"),
    ([tensor(), tensor("mov"), tensor("hour", size=8)], bytes(41), "1 bytes follow the last binary tensor"),
]


@pytest.mark.parametrize(("inputs", "tail", "message"), WRONG_TENSORS, ids=[one[2] for one in WRONG_TENSORS])
def test_wrong_binary_tensors_are_a_400(client, inputs, tail, message):
    head = json.dumps({"inputs": inputs}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))}
    answer = client.post(INFER, content=head + tail, headers=headers)
    assert answer.status_code == 400, answer.text
    assert message in answer.json()["error"]


@pytest.mark.parametrize("length", ["", "-1", "1e2", "9" * 30, "\u0661", "100000"])
def test_a_wrong_length_of_the_json_is_a_400(client, length):
    headers = {"Inference-Header-Content-Length": length.encode()}
    answer = client.post(INFER, content=b"{}", headers=headers)
    assert answer.status_code == 400, answer.text
    assert "Inference-Header-Content-Length" in answer.text or "the whole body 2" in answer.text


def test_the_other_form_has_no_binary_tensors(client):
    answer = client.post(PREDICT, content=b"{}", headers={"Inference-Header-Content-Length": "2"})
    assert (answer.status_code, "binary tensors belong to" in answer.text) == (400, True)


@pytest.mark.parametrize("encoding", PACK)
@pytest.mark.parametrize("num_rows", [2, 3000])
def test_packed_requests_and_answers(client, encoding, num_rows):
    columns = request(num_rows)
    body, headers = binary_body(columns, parameters={"binary_data_output": True})
    headers |= {"Content-Encoding": encoding, "Accept-Encoding": encoding}
    answer = client.post(INFER, content=PACK[encoding](body), headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.headers.get("Content-Encoding") == (encoding if num_rows == 3000 else None)
    _, tail = split_answer(answer)  # of the unpacked answer
    np.testing.assert_allclose(np.frombuffer(tail, "<f4"), eager(*trained(), columns), rtol=0, atol=1e-6)


@pytest.mark.parametrize("accepted", ["identity", "gzip;q=0, br", "deflate ; q=0.000"])
def test_an_answer_is_not_packed_against_the_clients_wish(client, accepted):
    answer = client.post(INFER, json=infer_body(request(3000)), headers={"Accept-Encoding": accepted})
    assert answer.status_code == 200
    assert "Content-Encoding" not in answer.headers


WRONG_PACKING = [
    ("br", b"x", 415, "Content-Encoding must be gzip, deflate or identity"),
    ("gzip, gzip", b"x", 415, "Content-Encoding must be"),
    ("gzip", b"{}", 400, "the request is no gzip"),
    ("deflate", gzip.compress(b"{}"), 400, "the request is no deflate"),
    ("gzip", gzip.compress(b"{}" * 1000)[:-1], 400, "the request is no gzip: it ends too early"),
    ("gzip", gzip.compress(b"{}") + b"x", 400, "something follows its end"),
    ("gzip", gzip.compress(bytes(MAX_BODY_BYTES + 1)), 413, f"more than {MAX_BODY_BYTES} bytes"),
    ("deflate", zlib.compress(bytes(64 * MAX_BODY_BYTES)), 413, f"more than {MAX_BODY_BYTES} bytes"),
]


@pytest.mark.parametrize(("encoding", "content", "status", "message"), WRONG_PACKING, ids=range(len(WRONG_PACKING)))
def test_wrong_packing_and_bombs_are_refused(client, encoding, content, status, message):
    answer = client.post(INFER, content=content, headers={"Content-Encoding": encoding})
    assert answer.status_code == status, answer.text
    assert message in answer.json()["error"]
