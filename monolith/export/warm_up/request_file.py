"""A file of requests, one per line: read from where the user has it, checked, and written into a version."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from monolith.errors import shown
from monolith.export.signature import NamedOutputs, Signature, chosen_signature
from monolith.export.warm_up.made_requests import WarmUpRequest

DEFAULT_WARM_UP_FILE = "./warmup_file"
"""Read if it is there; any other file must be."""

_MEMBERS = {"instances", "inputs", "signature_name"}


def read_requests(path: str | Path) -> list[WarmUpRequest] | None:
    """Return the requests of a file; None if it is the default one and not there.

    Raises:
        FileNotFoundError: another file is not there.
        ValueError: a line is no request; the message has its number.
    """
    if not Path(path).is_file():
        if str(path) == DEFAULT_WARM_UP_FILE:
            return None
        raise FileNotFoundError(f"warmup_file: there is no file {path}; write a request per line, or leave it out")
    requests = []
    for number, line in enumerate(Path(path).read_bytes().splitlines(), 1):
        if line.strip():
            requests.append(_request(f"warmup_file {path}, line {number}", line))
    return requests


def check_requests(
    requests: Iterable[WarmUpRequest], signature: Signature, signatures: Mapping[str, NamedOutputs]
) -> None:
    """Raise a ValueError if a request has another input or signature than the version: no server could answer it.

    Serialized records are refused too: one may hold an id that must be forgotten later, and nobody would find it there.
    """
    names = [spec.name for spec in signature.inputs]
    for number, request in enumerate(requests, 1):
        try:
            chosen_signature(signatures, request.get("signature_name"))
            for given in _names(request):
                if sorted(given) != sorted(names):
                    raise ValueError(
                        f"it has the inputs {shown(sorted(given))}, the model takes {', '.join(names)}; records cannot "
                        "stand for them"
                    )
        except ValueError as error:
            raise ValueError(f"request {number} for warm-up: {error}") from None


def requests_to_bytes(requests: Iterable[WarmUpRequest]) -> bytes:
    """Return the file of a version: a line of JSON per request."""
    return b"".join(json.dumps(request).encode() + b"\n" for request in requests)


def _request(place: str, line: bytes) -> WarmUpRequest:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{place} is no JSON: {error}") from None
    if not isinstance(found, dict) or found.keys() - _MEMBERS or ("instances" in found) == ("inputs" in found):
        raise ValueError(
            f"{place} must be an object with either instances or inputs, and perhaps signature_name, got {shown(found)}"
        )
    try:
        _names(found)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None
    return found


def _names(request: WarmUpRequest) -> list[list[str]]:
    """Return the names of the inputs: of each example, or once of the columns."""
    examples = request["instances"] if "instances" in request else [request["inputs"]]
    if not isinstance(examples, list) or not all(isinstance(one, dict) for one in examples):
        raise ValueError(f"examples must be objects of inputs, and columns one object, got {shown(examples)}")
    return [list(one) for one in examples]
