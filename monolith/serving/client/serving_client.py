"""ServingClient: asks a prediction server, whatever happens to its connections meanwhile."""

import json
import os
import ssl
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from numpy.typing import NDArray

from monolith.closing import Closing
from monolith.serving.client.answer_error import AnswerError
from monolith.serving.client.http_connections import HttpAnswer, HttpConnections, LostConnectionError
from monolith.serving.client.tensors import InferRequest, outputs_of, request_of_columns, request_of_records

_JSON_BYTES = "Inference-Header-Content-Length"
_FIRST_PAUSE_SECONDS = 0.05
_MAX_PAUSE_SECONDS = 1.0


class ServingClient(Closing):
    """Predictions of one model of a server. Any number of threads may ask at a time.

    Predicting changes nothing, so a lost connection and a server that is too busy (503) are tried again, within the
    time limit of the call. All other errors are raised at once.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        version: int | None = None,
        timeout_seconds: float = 5.0,
        num_retries: int = 3,
        token: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        ca_file: str | os.PathLike[str] | None = None,
        cert_file: str | os.PathLike[str] | None = None,
        key_file: str | os.PathLike[str] | None = None,
    ) -> None:
        """Prepare; the first call connects.

        Args:
            url: Where the server is: "http://127.0.0.1:8500".
            model: Name of the model.
            version: Ask this version; by default the one that answers.
            timeout_seconds: For a whole call, with all that is tried again.
            num_retries: How often a call is tried again.
            token: What a server with tokens asks for.
            token_file: File whose first line is the token; read again when the server refuses it.
            ca_file: Authority of the server's certificate (PEM); by default those that this system trusts.
            cert_file: Certificate of this client (PEM), for servers that ask for one.
            key_file: Its private key (PEM).
        """
        if not timeout_seconds > 0 or num_retries < 0:
            raise ValueError(
                f"timeout_seconds must be positive, and num_retries 0 or more, got {timeout_seconds} and {num_retries}"
            )
        if token is not None and token_file is not None:
            raise ValueError("give a token or a token_file, not both")
        if (cert_file is None) != (key_file is None):
            raise ValueError("a client's certificate needs both cert_file and key_file")
        self._connections = HttpConnections(url, _tls(ca_file, cert_file, key_file))
        self._path = f"/v2/models/{quote(model, safe='')}" + ("" if version is None else f"/versions/{version}")
        self._timeout_seconds = timeout_seconds
        self._num_retries = num_retries
        self._token_file = None if token_file is None else Path(token_file)
        self._token = token if self._token_file is None else _read_token(self._token_file)
        self._inputs: dict[str, str] | None = None

    def predict(self, columns: Mapping[str, Any], signature: str | None = None) -> dict[str, NDArray[Any]]:
        """Return the outputs by name, one row per example.

        Args:
            columns: Arrays, tensors or lists by input. One of a single row counts for all examples: send the user once
                and many candidates. Lists of ids per example are a `Ragged`, or lists of lists.
            signature: Return the outputs of this signature alone; `metadata` lists them.

        Raises:
            ValueError: a column is unknown, missing or of another type.
            AnswerError: the server refuses the request, or failed; `status` says which.
            ConnectionError: the server cannot be reached.
            TimeoutError: it did not answer in time.
        """
        deadline = time.monotonic() + self._timeout_seconds
        return self._infer(request_of_columns(self._input_types(deadline), columns, signature), deadline)

    def predict_records(self, records: Sequence[bytes], signature: str | None = None) -> dict[str, NDArray[Any]]:
        """Return the outputs by name for serialized records, in the format that the model was trained on.

        `signature` selects outputs as in `predict`. Raises what `predict` raises.
        """
        return self._infer(request_of_records(records, signature), time.monotonic() + self._timeout_seconds)

    def metadata(self) -> dict[str, Any]:
        """Return what the server says of the model: versions, inputs, outputs, format of records."""
        return self._metadata(time.monotonic() + self._timeout_seconds)

    def is_ready(self) -> bool:
        """Whether the model answers now; False too if there is no server."""
        deadline = time.monotonic() + self._timeout_seconds
        try:
            return self._connections.call("GET", f"{self._path}/ready", b"", self._headers(), deadline).status == 200
        except OSError:
            return False

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        self._connections.close()

    def _infer(self, request: InferRequest, deadline: float) -> dict[str, NDArray[Any]]:
        headers = {"Content-Type": "application/octet-stream", _JSON_BYTES: str(request.json_bytes)}
        answer = self._ask("POST", f"{self._path}/infer", request.content, headers, deadline)
        json_bytes = answer.headers.get(_JSON_BYTES.lower())
        return outputs_of(answer.content, None if json_bytes is None else int(json_bytes))

    def _input_types(self, deadline: float) -> dict[str, str]:
        if self._inputs is None:
            inputs = self._metadata(deadline)["inputs"]
            self._inputs = {tensor["name"]: tensor["datatype"] for tensor in inputs}
        return self._inputs

    def _metadata(self, deadline: float) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._ask("GET", self._path, b"", {}, deadline).content)
        return found

    def _ask(self, method: str, path: str, body: bytes, headers: Mapping[str, str], deadline: float) -> HttpAnswer:
        """Return a good answer, tried again where that is safe and may help."""
        pause, num_left, may_read_token = _FIRST_PAUSE_SECONDS, self._num_retries, True
        while True:
            failure: Exception
            try:
                answer = self._connections.call(method, path, body, {**headers, **self._headers()}, deadline)
            except LostConnectionError as error:
                failure, is_passing = error, True
            else:
                if answer.status == 200:
                    return answer
                if answer.status == 401 and may_read_token and self._takes_new_token():
                    may_read_token = False
                    continue
                failure, is_passing = AnswerError(answer.status, _message(answer)), answer.status == 503
            if not is_passing or num_left == 0 or time.monotonic() + pause >= deadline:
                # Another version may answer by now, with other inputs.
                self._inputs = None
                raise failure
            num_left -= 1
            time.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE_SECONDS)

    def _headers(self) -> dict[str, str]:
        return {} if self._token is None else {"Authorization": f"Bearer {self._token}"}

    def _takes_new_token(self) -> bool:
        """Read the token again; return whether it has changed."""
        before = self._token
        if self._token_file is not None:
            self._token = _read_token(self._token_file)
        return self._token != before


def _read_token(path: Path) -> str:
    lines = (line.strip() for line in path.read_text().splitlines())
    found = next((line for line in lines if line and not line.startswith("#")), None)
    if found is None:
        raise ValueError(f"{path} holds no token; its first line must be one")
    return found


def _tls(
    ca_file: str | os.PathLike[str] | None,
    cert_file: str | os.PathLike[str] | None,
    key_file: str | os.PathLike[str] | None,
) -> ssl.SSLContext | None:
    if ca_file is None and cert_file is None:
        return None
    context = ssl.create_default_context(cafile=ca_file)
    if cert_file is not None:
        context.load_cert_chain(cert_file, key_file)
    return context


def _message(answer: HttpAnswer) -> str:
    try:
        return str(json.loads(answer.content)["error"])
    except (ValueError, KeyError, TypeError):
        return answer.content[:200].decode("utf-8", "replace")
