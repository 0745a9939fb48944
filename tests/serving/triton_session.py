"""A session of Triton's own client, in a process of its own: ``python -m tests.serving.triton_session HOST:PORT``.

Reads the columns of a request as JSON from the standard input; writes what every way to ask for them gave.
"""

import itertools
import json
import sys
from importlib import import_module

import numpy as np

DATATYPES = {"uid": "INT64", "mov": "INT64", "hour": "FP32"}


def main(address: str) -> None:
    triton = import_module("tritonclient.http")
    columns = {
        name: np.array(values, np.float32 if DATATYPES[name] == "FP32" else np.int64)
        for name, values in json.load(sys.stdin).items()
    }
    with triton.InferenceServerClient(address) as client:
        found = {
            "live": client.is_server_live(),
            "ready": client.is_server_ready() and client.is_model_ready("movie"),
            "extensions": client.get_server_metadata()["extensions"],
            "inputs": client.get_model_metadata("movie")["inputs"],
            "default": predictions(triton, client, columns, {}, None, {}),
            "answers": [
                predictions(
                    triton,
                    client,
                    columns,
                    {"binary_data": in_binary},
                    out_binary,
                    {"request_compression_algorithm": packed, "response_compression_algorithm": unpacked},
                )
                for in_binary, out_binary, packed, unpacked in itertools.product(
                    (True, False), (True, False, None), (None, "gzip", "deflate"), (None, "gzip", "deflate")
                )
            ],
            "error": error_of(triton, client),
        }
    print(json.dumps(found))


def predictions(triton, client, columns, how, out_binary, options):
    inputs = []
    for name, values in columns.items():
        tensor = triton.InferInput(name, list(values.shape), DATATYPES[name])
        tensor.set_data_from_numpy(values, **how)
        inputs.append(tensor)
    outputs = None if out_binary is None else [triton.InferRequestedOutput("pred", binary_data=out_binary)]
    result = client.infer("movie", inputs, model_version="3", outputs=outputs, request_id="7", **options)
    assert result.get_response()["id"] == "7"
    return result.as_numpy("pred").tolist()


def error_of(triton, client):
    tensor = triton.InferInput("nobody", [1], "INT64")
    tensor.set_data_from_numpy(np.zeros(1, np.int64))
    try:
        client.infer("movie", [tensor])
    except triton.InferenceServerException as error:
        return str(error)
    return None


if __name__ == "__main__":
    main(sys.argv[1])
