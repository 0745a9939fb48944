"""Triton's model repository extension: what clients ask about versions, and which one they want to answer."""

from monolith.errors import shown
from monolith.serving.forms.inference_protocol import parameter
from monolith.serving.forms.json_values import read_object


def read_index_request(body: bytes) -> bool:
    """Return whether only versions that answer are asked for; a ValueError says what is wrong.

    >>> read_index_request(b'{"ready": true}'), read_index_request(b"")
    (True, False)
    """
    ready = read_object(body).member("ready") if body.strip() else None
    if ready is None:
        return False
    if ready.kind != "bool":
        raise ValueError(f"'ready' must be true or false, got {ready.shown()}")
    return ready.is_true


def read_load_request(body: bytes) -> int | None:
    """Return the version to pin, or None for the newest; a ValueError says what is wrong.

    >>> read_load_request(b'{"parameters": {"version": "3"}}'), read_load_request(b"{}")
    (3, None)
    """
    request = read_object(body) if body.strip() else None
    version = None if request is None else parameter(request, "version")
    if request is None or version is None:
        parameters = None if request is None else request.member("parameters")
        if parameters is not None and len(parameters):
            raise ValueError(f"loading takes the parameter 'version' alone, got {shown(parameters.names(1)[0])}")
        return None
    if version.kind == "text":
        text = version.text()
        # No more digits than a version can have.
        if text.isascii() and text.isdecimal() and len(text) <= 18:
            return int(text)
    elif version.kind == "number" and (number := version.integer()) >= 0:
        return number
    raise ValueError(f"'version' must be the number of a version, got {version.shown()}")
