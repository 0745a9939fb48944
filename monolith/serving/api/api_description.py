"""Requests and answers of each endpoint in ``/openapi.json``; FastAPI adds the paths."""

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from monolith.data.parse.record_columns import FORMATS
from monolith.export.serving_model import ServingModel
from monolith.export.signature import TensorSpec
from monolith.serving.access.bearer import OPEN_PATHS
from monolith.serving.forms.record_values import RECORDS, has_records_input
from monolith.serving.models.models import Models

Json = dict[str, Any]

_TEXT: Json = {"type": "string"}
_BASE64: Json = {"type": "string", "format": "byte"}
_BINARY: Json = {"type": "string", "format": "binary"}
_ELEMENTS: dict[str, Json] = {
    "INT64": {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1},
    "INT32": {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1},
    "FP32": {"type": "number", "minimum": -3.4028234663852886e38, "maximum": 3.4028234663852886e38},
    "FP64": {"type": "number"},
    "BOOL": {"type": "boolean"},
    "BYTES": _TEXT,
}
_ERRORS = {
    401: "The request has no token that this server takes.",
    400: "The request is wrong, as the message says.",
    403: "Clients may not do this here.",
    404: "There is no such model or version.",
    409: "The version is damaged.",
    413: "The request is too large.",
    415: "The request is compressed in another way than gzip or deflate.",
    422: "The model predicted NaN or infinity.",
    500: "The server failed.",
    503: "There are too many requests at a time.",
}


_OF_PREDICTIONS = (400, 404, 413, 415, 422, 500, 503)
_OF_CONTROL = (400, 403, 404, 409, 413, 500, 503)


def keep_current(app: FastAPI, models: Models, *, needs_token: bool = False) -> None:
    """Let ``/openapi.json`` describe the versions that answer when it is asked for."""

    def openapi() -> Json:
        described = operations(models)
        for route in app.routes:
            if isinstance(route, APIRoute) and route.include_in_schema:
                method = min(route.methods or ())  # each route has one
                route.openapi_extra = described[method, route.path]["openapi_extra"]
        found = get_openapi(title=app.title, version=app.version, routes=app.routes)
        return _with_tokens(found) if needs_token else found

    app.openapi = openapi  # type: ignore[method-assign]


def _with_tokens(description: Json) -> Json:
    """Return a description that says which endpoints need a token."""
    schemes = description.setdefault("components", {}).setdefault("securitySchemes", {})
    schemes["token"] = {"type": "http", "scheme": "bearer"}
    refusal = _content(_ERRORS[401], "application/json", _object(error=_TEXT))
    for path, methods in description["paths"].items():
        for operation in methods.values() if path not in OPEN_PATHS else ():
            operation["security"] = [{"token": []}]
            operation["responses"]["401"] = refusal
    return description


def operations(models: Models) -> dict[tuple[str, str], Json]:
    """Return, by method and path, what FastAPI's `add_api_route` takes to describe an endpoint of these models."""
    found = {
        ("GET", "/v2/health/live"): _get("Whether the server lives.", _object(live={"const": True})),
        ("GET", "/v2/health/ready"): _ready("Whether it answers predictions.", _object(ready={"type": "boolean"})),
        ("GET", "/v2"): _get("Name, version and extensions of the server.", _server()),
        ("GET", "/metrics"): _operation("Figures for Prometheus.", {200: _content("Figures.", "text/plain", _TEXT)}),
        **_repository(models),
    }
    metadata = _metadata()
    status = _object(model_version_status=_list(_object(version=_TEXT, state=_TEXT, status={"type": "object"})))
    current = [model.current for model in models if model.is_loaded]
    versions = sorted({str(one.version) for model in models for one in model.held})
    for version in ("", "/versions/{version}"):
        place = [_name_parameter(models)]
        place += [_path_parameter("version", versions)] if version else []
        here: dict[tuple[str, str], Json] = {
            ("GET", f"/v2/models/{{name}}{version}/ready"): _ready(
                "Whether the model answers.", _object(name=_TEXT, ready={"type": "boolean"}), 404
            ),
            ("GET", f"/v2/models/{{name}}{version}"): _get("Inputs and outputs of the model.", metadata, 404),
            ("GET", f"/v1/models/{{name}}{version}/metadata"): _get("Signatures of the model.", _signatures(), 404),
            ("GET", f"/v1/models/{{name}}{version}"): _get("State of the model, as TensorFlow Serving.", status, 404),
            ("POST", f"/v2/models/{{name}}{version}/infer"): _infer(current),
            ("POST", f"/v1/models/{{name}}{version}:predict"): _predict(current),
        }
        found |= {key: _with_parameters(operation, place) for key, operation in here.items()}
    for (method, path), operation in found.items():
        operation["operation_id"] = f"{method} {path}"
    return found


def _metadata() -> Json:
    tensors = {"inputs": _list(_spec()), "outputs": _list(_spec())}
    signature = _object(["head_name", "head_type"], outputs=_list(_TEXT), head_name=_TEXT, head_type=_TEXT)
    return _object(
        name=_TEXT,
        versions=_list(_TEXT),
        platform=_TEXT,
        **tensors,
        signatures={"type": "object", "additionalProperties": signature},
        records={"enum": list(FORMATS)},
    )


def _signatures() -> Json:
    named = _object(name=_TEXT, signature_name=_TEXT, version=_TEXT)
    return _object(model_spec=named, metadata=_object(signature_def={"type": "object"}))


def _repository(models: Models) -> dict[tuple[str, str], Json]:
    version = _object(name=_TEXT, version=_TEXT, state={"enum": ["READY", "UNAVAILABLE"]}, reason=_TEXT)
    index = _get("All versions of all models.", _list(version), 400, 413, 500, 503)
    number = {"anyOf": [{"type": "string", "pattern": "^[0-9]{1,18}$"}, {"type": "integer", "minimum": 0}]}
    load = _get(
        "Let a version answer, or the newest.",
        _object(name=_TEXT, version=_TEXT, state={"const": "READY"}),
        *_OF_CONTROL,
    )
    unload = _get("Let a model answer no more.", _object(name=_TEXT, state={"const": "UNAVAILABLE"}), *_OF_CONTROL)
    wanted = {"type": "object", "properties": {"version": number}, "additionalProperties": False}
    for operation, request in (
        (index, {"type": "object", "properties": {"ready": {"type": "boolean"}}}),
        (load, {"type": "object", "properties": {"parameters": wanted}}),
        (unload, {"type": "object"}),
    ):
        operation["openapi_extra"] = {"requestBody": {"content": {"application/json": {"schema": request}}}}
    place = [_name_parameter(models)]
    return {
        ("POST", "/v2/repository/index"): index,
        ("POST", "/v2/repository/models/{name}/load"): _with_parameters(load, place),
        ("POST", "/v2/repository/models/{name}/unload"): _with_parameters(unload, place),
    }


def _with_parameters(operation: Json, place: Sequence[Json]) -> Json:
    extra = operation["openapi_extra"]
    return {**operation, "openapi_extra": {**extra, "parameters": [*place, *extra.get("parameters", [])]}}


def _any_of(schemas: Sequence[Json]) -> Json:
    """Return a schema of requests to several models, each of which has its own."""
    return schemas[0] if len(schemas) == 1 else {"anyOf": list(schemas)} if schemas else {"type": "object"}


def _infer(models: Sequence[ServingModel]) -> Json:
    answered = _object(
        ["data", "parameters"],
        **{"name": _TEXT, "datatype": _TEXT, "shape": _list({"type": "integer"})},
        data={"type": "array"},
        parameters={"type": "object"},
    )
    answer = _object(["id"], id=_TEXT, model_name=_TEXT, model_version=_TEXT, outputs=_list(answered))
    described = _content("Predictions.", "application/json", answer)
    described["content"]["application/octet-stream"] = {"schema": _BINARY}
    operation = _operation("Predictions, Open Inference Protocol.", {200: described}, *_OF_PREDICTIONS)
    request = _any_of([_infer_request(model) for model in models])
    body = {"application/json": {"schema": request}, "application/octet-stream": {"schema": _BINARY}}
    length = {
        "name": "Inference-Header-Content-Length",
        "in": "header",
        "description": "Bytes of the body that are JSON; binary tensors follow them.",
        "schema": {"type": "integer", "minimum": 0},
    }
    operation["openapi_extra"] = {"requestBody": {"required": True, "content": body}, "parameters": [length]}
    return operation


def _infer_request(model: ServingModel) -> Json:
    tensor = {
        "oneOf": [
            _open_object(
                ["parameters"],
                name={"const": spec.name},
                datatype={"const": spec.datatype},
                shape=_list({"type": "integer", "minimum": 0}),
                data=_data(spec),
                parameters={"type": "object"},
            )
            for spec in model.signature.request_tensors
        ]
    }
    output = _open_object(
        ["parameters"], name={"enum": [spec.name for spec in model.signature.outputs]}, parameters={"type": "object"}
    )
    columns = {**_list(tensor), "minItems": len(model.signature.request_tensors)}
    records = {**_list(_records_tensor()), "minItems": 1, "maxItems": 1}
    return _open_object(
        ["id", "outputs", "parameters"],
        id=_TEXT,
        inputs={"anyOf": [columns, records]} if has_records_input(model) else columns,
        outputs=_list(output),
        parameters={"type": "object", "properties": {"signature": {"enum": list(model.signatures)}}},
    )


def _records_tensor() -> Json:
    return _open_object(
        ["parameters"],
        name={"const": RECORDS},
        datatype={"const": "BYTES"},
        shape=_list({"type": "integer", "minimum": 0}),
        data=_list(_BASE64),
        parameters={"type": "object"},
    )


def _predict(models: Sequence[ServingModel]) -> Json:
    answer = {"oneOf": [_object(predictions={"type": "array"}), _object(outputs={})]}
    described = {200: _content("Predictions.", "application/json", answer)}
    operation = _operation("Predictions, TensorFlow Serving's form.", described, *_OF_PREDICTIONS)
    content = {"application/json": {"schema": _any_of([_predict_request(model) for model in models])}}
    operation["openapi_extra"] = {"requestBody": {"required": True, "content": content}}
    return operation


def _predict_request(model: ServingModel) -> Json:
    example = _object(**{spec.name: _value(spec, spec.shape[1:]) for spec in model.signature.inputs})
    signature = {"signature_name": {"enum": list(model.signatures)}}
    columns = _object(**{spec.name: _data(spec) for spec in model.signature.inputs})
    requests = [
        _open_object(["signature_name"], instances=_list(example), **signature),
        _open_object(["signature_name"], inputs=columns, **signature),
    ]
    if has_records_input(model):
        record = _object(b64=_BASE64)
        requests += [
            _open_object(["signature_name"], instances={**_list(record), "minItems": 1}, **signature),
            _open_object(["signature_name"], inputs=_object(**{RECORDS: _list(record)}), **signature),
        ]
    return {"oneOf": requests}


def _value(spec: TensorSpec, shape: tuple[int, ...]) -> Json:
    """Return the schema of one value of a tensor, nested as its shape says."""
    if not shape:
        element = _ELEMENTS[spec.datatype]
        return element if spec.missing is None else {"anyOf": [element, {"type": "null"}]}
    sizes = {} if shape[0] < 0 else {"minItems": shape[0], "maxItems": shape[0]}
    return {**_list(_value(spec, shape[1:])), **sizes}


def _data(spec: TensorSpec) -> Json:
    return _value(spec, spec.shape)


def _spec() -> Json:
    return _object(name=_TEXT, datatype={"enum": list(_ELEMENTS)}, shape=_list({"type": "integer"}))


def _server() -> Json:
    return _object(name={"const": "monolith"}, version=_TEXT, extensions=_list(_TEXT))


def _get(summary: str, schema: Json, *errors: int) -> Json:
    return _operation(summary, {200: _content(summary, "application/json", schema)}, *errors)


def _ready(summary: str, schema: Json, *errors: int) -> Json:
    """Return an operation whose answer has another status when the server is about to stop."""
    operation = _get(summary, schema, *errors)
    operation["responses"][503] = _content("Not ready: the server is about to stop.", "application/json", schema)
    return operation


def _operation(summary: str, responses: dict[int, Json], *errors: int) -> Json:
    failures = {status: _content(_ERRORS[status], "application/json", _object(error=_TEXT)) for status in errors}
    return {"summary": summary, "responses": {**responses, **failures}, "openapi_extra": {}}


def _content(description: str, media_type: str, schema: Json) -> Json:
    return {"description": description, "content": {media_type: {"schema": schema}}}


def _name_parameter(models: Models) -> Json:
    return _path_parameter("name", [model.name for model in models])


def _path_parameter(name: str, values: Sequence[str]) -> Json:
    schema = {"type": "string", "enum": list(values)} if values else _TEXT
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _object(optional: Sequence[str] = (), /, **members: Json) -> Json:
    """Return the schema of an object with exactly these members, all required but for some."""
    required = [name for name in members if name not in optional]
    return {"type": "object", "properties": members, "required": required, "additionalProperties": False}


def _open_object(optional: Sequence[str] = (), /, **members: Json) -> Json:
    """Return the schema of an object in a request: members of other names are ignored."""
    return {**_object(optional, **members), "additionalProperties": True}


def _list(items: Json) -> Json:
    return {"type": "array", "items": items}
