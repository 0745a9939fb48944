"""Requests byte by byte: what no client library would send, and what only a bad one would."""

import gzip
import json
import random
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from monolith.serving.request_body import MAX_BODY_BYTES
from tests.export.movie import request
from tests.hostile.damage import damaged
from tests.serving.requests import INFER, PREDICT, binary_body, changed, infer_body
from tests.serving.test_hostile_requests import LARGE, LARGE_PREDICT

ANY = frozenset(range(100, 500)) | {503}
"""What may be answered to damage: it may have missed what matters."""

REFUSED = frozenset(range(400, 500)) | {503}


@dataclass(frozen=True)
class RawRequest:
    """Bytes to send to an HTTP server, and which answers are right."""

    part: str
    data: bytes
    allowed: frozenset[int] = ANY
    is_whole: bool = True
    """Whether an answer must come."""


def raw_request(dice: random.Random) -> RawRequest:
    """Return a request of one of the ways."""
    way = dice.choices(list(_WAYS), [weight for _, weight in _WAYS.values()])[0]
    return _WAYS[way][0](dice)


def post(path: str, body: bytes, headers: dict[str, str] | None = None) -> bytes:
    """Return a well-formed request."""
    fields = {"Host": "x", "Content-Length": str(len(body)), "Connection": "close", **(headers or {})}
    head = f"POST {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields.items()) + "\r\n"
    return head.encode("latin-1") + body


def _gzip(content: bytes) -> bytes:
    """Return it compressed, without the time: the same seed makes the same bytes."""
    return gzip.compress(content, mtime=0)


def good_request(dice: random.Random) -> bytes:
    """Return a request that must be answered with predictions."""
    columns = request(dice.randrange(1, 5), dice.getrandbits(16))
    body, headers = json.dumps(infer_body(columns)).encode(), {}
    if dice.random() < 0.3:
        body, headers = binary_body(columns)
    if dice.random() < 0.3:
        body, headers = _gzip(body), {**headers, "Content-Encoding": "gzip"}
    return post(INFER, body, headers)


def _damaged(dice: random.Random) -> RawRequest:
    way, data = damaged(good_request(dice), dice)
    return RawRequest(f"damaged, {way}", data, is_whole=False)


def _damaged_body(dice: random.Random) -> RawRequest:
    """Damage what follows the headers, and let the length be right."""
    head, _, body = good_request(dice).partition(b"\r\n\r\n")
    way, body = damaged(body, dice)
    fields = [line for line in head.split(b"\r\n")[1:] if not line.startswith(b"Content-Length")]
    start = f"POST {dice.choice([INFER, PREDICT])} HTTP/1.1\r\nContent-Length: {len(body)}\r\n".encode()
    return RawRequest(f"damaged body, {way}", start + b"\r\n".join(fields) + b"\r\n\r\n" + body)


def _line(dice: random.Random) -> RawRequest:
    line = dice.choice(_LINES)
    if dice.random() < 0.2:
        line = dice.randbytes(dice.randrange(1, 400))
    return RawRequest("request line", line + b"\r\nHost: x\r\nConnection: close\r\n\r\n", is_whole=False)


def _headers(dice: random.Random) -> RawRequest:
    body = json.dumps(infer_body(request(1))).encode()
    fields = b"\r\n".join(dice.choice(_HEADERS) for _ in range(dice.randrange(1, 4)))
    data = f"POST {INFER} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n".encode() + fields + b"\r\n\r\n" + body
    return RawRequest("headers", data, is_whole=False)


def _chunks(dice: random.Random) -> RawRequest:
    head = f"POST {dice.choice([INFER, PREDICT])} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    chunks = b"".join(dice.choice(_CHUNKS) for _ in range(dice.randrange(1, 5)))
    return RawRequest("chunks", head + chunks + dice.choice([b"", b"0\r\n\r\n"]), is_whole=False)


def _texts(dice: random.Random) -> RawRequest:
    """Send what is no JSON, or JSON that is no request."""
    data = post(dice.choice([INFER, PREDICT]), dice.choice(_texts_of_json()))
    return RawRequest("no request in JSON", data, REFUSED)


def _wrong_tensor(dice: random.Random) -> RawRequest:
    name, change = dice.choice(["uid", "mov", "hour"]), dice.choice(_WRONG_TENSORS)
    body = json.dumps(changed(name, **change)).encode()
    is_float = name == "hour" and change == {"data": [2**64, 1]}
    return RawRequest("wrong tensor", post(INFER, body), ANY if is_float else REFUSED)


def _wrong_example(dice: random.Random) -> RawRequest:
    example = {"uid": 1, "mov": 2, "hour": 0.5}
    name, value = dice.choice(sorted(example)), dice.choice(_WRONG_VALUES)
    form = {"instances": [{**example, name: value}]}
    if dice.random() < 0.5:
        form = {"inputs": {key: [one] for key, one in form["instances"][0].items()}}
    is_float = name == "hour" and type(value) is int
    return RawRequest("wrong example", post(PREDICT, json.dumps(form).encode()), ANY if is_float else REFUSED)


def _binary(dice: random.Random) -> RawRequest:
    """Let the lengths of binary tensors be wrong."""
    columns = request(2)
    body, headers = binary_body(columns)
    match dice.randrange(4):
        case 0:
            wrong = dice.choice(["0", "-1", "1", "x", "", "1e3", str(len(body) + 1), "9" * 18, "9" * 5000, "\xb2"])
            headers = {"Inference-Header-Content-Length": wrong}
        case 1:
            body = body[:-1] if dice.random() < 0.5 else body + dice.randbytes(dice.randrange(1, 99))
        case 2:
            head_bytes = int(headers["Inference-Header-Content-Length"])
            head = json.loads(body[:head_bytes])
            wrong_size = dice.choice([-1, 0, 15, 17, 2**31, 2**63, 2**64, 1.5, "16", True, None, [16], 10**400])
            head["inputs"][dice.randrange(3)]["parameters"]["binary_data_size"] = wrong_size
            text = json.dumps(head).encode()
            body, headers = text + body[head_bytes:], {"Inference-Header-Content-Length": str(len(text))}
        case _:
            columns["hour"][dice.randrange(2)] = dice.choice([float("nan"), float("inf"), float("-inf")])
            body, headers = binary_body(columns)
    return RawRequest("binary tensors", post(INFER, body, headers), REFUSED)


def _packed(dice: random.Random) -> RawRequest:
    body, encoding = dice.choice(_packed_bodies())
    return RawRequest("packed", post(dice.choice([INFER, PREDICT]), body, {"Content-Encoding": encoding}), REFUSED)


def _large(dice: random.Random) -> RawRequest:
    path, bodies = dice.choice([(INFER, LARGE), (PREDICT, LARGE_PREDICT)])
    return RawRequest("as large as can be", post(path, bodies[dice.choice(sorted(bodies))]))


def _too_large(dice: random.Random) -> RawRequest:
    body = b" " * (MAX_BODY_BYTES + dice.choice([1, 2, 1000, MAX_BODY_BYTES, 3 * MAX_BODY_BYTES + 1]))
    return RawRequest("too large", post(dice.choice([INFER, PREDICT]), body), frozenset({413, 503}), is_whole=False)


def _several(dice: random.Random) -> RawRequest:
    """Send several at a time, of which some are damaged."""
    parts = [damaged(good_request(dice), dice)[1] if dice.random() < 0.5 else good_request(dice) for _ in range(3)]
    return RawRequest("several at a time", b"".join(parts).replace(b"Connection: close\r\n", b""), is_whole=False)


_LINES = [
    b"", b" ", b"GET", b"GET /", b"GET / HTTP/9.9", b"GET / HTTP/0.9", b"GET / HTTX/1.1", b"GET  /  HTTP/1.1",
    b"G\x00T / HTTP/1.1", b"GET /\x00 HTTP/1.1", b"get /v2 http/1.1", b"PRI * HTTP/2.0", b"\x16\x03\x01\x02\x00\x01",
    b"GET http://elsewhere/v2 HTTP/1.1", b"GET * HTTP/1.1", b"OPTIONS * HTTP/1.1", b"CONNECT x:1 HTTP/1.1",
    b"TRACE /v2 HTTP/1.1", b"DELETE /v2/models/movie HTTP/1.1", b"PUT /metrics HTTP/1.1", b"HEAD /v2 HTTP/1.1",
    b"GET /%00%ff%fe HTTP/1.1", b"GET /%ED%A0%80 HTTP/1.1", b"GET /%zz HTTP/1.1", b"GET /v2/models/%ff HTTP/1.1",
    b"GET /v2?" + b"a" * 9000 + b" HTTP/1.1", b"GET /" + b"a" * 60_000 + b" HTTP/1.1", b"A" * 70_000 + b" / HTTP/1.1",
    b"GET /v2/models/movie/versions/" + b"9" * 5000 + b" HTTP/1.1", "GET /\u00e9 HTTP/1.1".encode(),
    b"POST /v2 HTTP/1.1",
    b"GET /v2/health/live HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: x",
    b"GET //v2//health//live HTTP/1.1", b"GET /v2/models/movie:predict HTTP/1.1", b"POST /openapi.json HTTP/1.1",
]  # fmt: skip

_HEADERS = [
    b"Content-Length: 5", b"Content-Length: -1", b"Content-Length: x", b"Content-Length: " + b"9" * 400,
    b"Content-Length: 1e3", b"Content-Length: +5", b"Content-Length: 5, 6", b"Content-Length: 0x10",
    b"Content-Length: \xb2",
    b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip", b"Transfer-Encoding: chunked, chunked",
    b"Transfer-Encoding : chunked", b"Transfer-Encoding:\x0bchunked", b"no colon", b": empty", b"X: a\r\n folded",
    b"X\x00Y: z", b"X: \x00", b"X: \xff\xfe", b"X: " + b"a" * 70_000, b"\r\n".join(b"X-%d: y" % n for n in range(2000)),
    b"Host: y", b"Host: \xff", b"Expect: 100-continue", b"Expect: nothing", b"Upgrade: h2c", b"Connection: upgrade",
    b"Content-Encoding: gzip, gzip", b"Content-Encoding: \xff", b"Content-Type: \xff",
    b"Content-Type: application/json; charset=utf-16",
    b"Accept-Encoding: gzip;q=x", b"Accept-Encoding: " + b"," * 5000, b"Inference-Header-Content-Length: 7",
    b"Inference-Header-Content-Length: \xc2\xb2", b"Range: bytes=0-" + b"9" * 99, b"Cookie: " + b"a=b;" * 9000,
]  # fmt: skip

_CHUNKS = [
    b"5\r\nhello\r\n", b"-5\r\nhello\r\n", b"FFFFFFFFFFFFFFFF\r\n", b"ffffffffffffffffffffffff\r\nx\r\n", b"x\r\n",
    b"5\r\nhel",
    b"5hello", b"0\r\n", b"0\r\nX: y\r\n\r\n", b"5;" + b"e" * 9000 + b"\r\nhello\r\n", b"5\nhello\n", b"\r\n",
    b"2\r\n{}\r\n",
    b"0x5\r\nhello\r\n", b" 5\r\nhello\r\n", b"5\r\nhelloworld\r\n", b"0\r\n\r\nGET /v2 HTTP/1.1\r\n\r\n", b"\x00" * 99,
]  # fmt: skip

_WRONG_VALUES = [
    None, "", "1", "\ud800", [], [[]], {}, {"b64": "AA=="}, [1, 2], True, 1e400, float("nan"), float("-inf"), 10**30,
    -(2**63) - 1, 2**64, [[[[[1]]]]], "NaN", 10**400,
]  # fmt: skip

_WRONG_TENSORS = [
    {"shape": [3]}, {"shape": [-2]}, {"shape": [2, 1, 1]}, {"shape": [2**63]}, {"shape": [2**32, 2**32]},
    {"shape": "2"},
    {"shape": [2.5]}, {"shape": [True, True]}, {"shape": None}, {"shape": []}, {"shape": [None]}, {"shape": [1] * 999},
    {"datatype": "BYTES"}, {"datatype": "FP64"}, {"datatype": 7}, {"datatype": None}, {"datatype": "\ud800"},
    {"datatype": []},
    {"name": "none"}, {"name": 7}, {"name": None}, {"name": ""}, {"name": "\ud800"}, {"name": {}}, {"data": None},
    {"data": []}, {"data": {}}, {"data": "12"}, {"data": [1]}, {"data": [[1], [2, 3]]}, {"data": [None, None]},
    {"data": [float("nan"), 1]}, {"data": [float("inf"), 1]}, {"data": [1e400, 1]}, {"data": ["1", "2"]},
    {"data": [10**400, 1]},
    {"data": [2**64, 1]}, {"parameters": 7}, {"parameters": {"binary_data_size": 16}}, {"parameters": []},
]  # fmt: skip


@cache
def _texts_of_json() -> list[bytes]:
    tensor = '{"inputs":[{"name":"uid","datatype":"INT64","shape":[1],"data":%s}]}'
    return [
        b"", b" ", b"\0", b"null", b"true", b"7", b'"x"', b"[]", b"{}", b"{", b"[1,]", b"{'a':1}", b"\xff\xfe", b"NaN",
        b"\xef\xbb\xbf{}", '{"inputs":[]}'.encode("utf-16"), '{"inputs":[]}'.encode("utf-32"), rb'{"\ud800":1}',
        rb'{"inputs":[{"name":"\udfff"}]}', b'{"\xed\xa0\x80":1}', b'{"inputs":null}', b'{"inputs":{"uid":NaN}}',
        b'{"instances":null}', b'{"instances":[[]]}', b'{"instances":[null]}', b'{"instances":[{}],"inputs":{}}',
        b'{"instances":7,"signature_name":7}', b'{"inputs":[],"inputs":[]}', b'{"inputs":[],"outputs":7}',
        b'{"inputs":[],"id":{}}', b'{"inputs":[null]}', b'{"inputs":[[[]]]}', b'{"inputs":[],"parameters":[]}',
        b"[" * 100_000, b'{"a":' * 100_000, b"[" * 1000 + b"]" * 1000, b'{"inputs":' + b"[" * 500 + b"]" * 500 + b"}",
        (tensor % ("[" * 900 + "]" * 900)).encode(), (tensor % "[1e999]").encode(), (tensor % "[-0.0]").encode(),
        (tensor % f"[{'9' * 5000}]").encode(), (tensor % f"[0.{'9' * 50_000}]").encode(), (tensor % "[1").encode(),
        b'{"inputs":"' + b"x" * 100_000 + b'"}', b'{"' + b"x" * 100_000 + b'":1}', b'"' + b"\\u0000" * 10_000 + b'"',
    ]  # fmt: skip


@cache
def _packed_bodies() -> list[tuple[bytes, str]]:
    good = json.dumps(infer_body(request(1))).encode()
    bomb = _gzip(bytes(32 << 20))
    return [
        (bomb, "gzip"), (_gzip(bomb), "gzip"), (zlib.compress(bytes(32 << 20)), "deflate"), (good, "gzip"),
        (good, "deflate"), (_gzip(good)[:-3], "gzip"), (_gzip(good) + b"x", "gzip"), (b"", "gzip"),
        (_gzip(good) * 2, "gzip"), (_gzip(good), "deflate"), (_gzip(b""), "gzip"), (good, "br"),
        (good, "zstd"), (good, "gzip, identity"), (good, "x" * 9999), (_gzip(b" " * (MAX_BODY_BYTES + 1)),
        "gzip"),
        (_gzip(_gzip(good)), "gzip"), (b"\x1f\x8b\x08\x04" + b"\xff" * 99, "gzip"),
    ]  # fmt: skip


_WAYS: dict[str, tuple[Callable[[random.Random], RawRequest], float]] = {
    "damaged": (_damaged, 3), "damaged body": (_damaged_body, 5), "line": (_line, 2), "headers": (_headers, 2),
    "chunks": (_chunks, 2), "texts": (_texts, 5), "tensor": (_wrong_tensor, 6), "example": (_wrong_example, 6),
    "binary": (_binary, 5), "packed": (_packed, 2), "large": (_large, 0.3), "too large": (_too_large, 0.3),
    "several": (_several, 1),
}  # fmt: skip
