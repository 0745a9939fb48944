"""The page /docs: the description of the server for people, without scripts and without anything from elsewhere."""

import json
from collections.abc import Mapping
from html import escape
from typing import Any

_STYLE = """
body { font: 16px/1.5 sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
code, pre { font-family: monospace; font-size: 0.9em; }
pre { background: #f4f4f4; padding: 0.7rem; overflow: auto; max-height: 24rem; }
details { border: 1px solid #ccc; border-radius: 4px; margin: 0.4rem 0; padding: 0.4rem 0.8rem; }
summary { cursor: pointer; }
td, th { text-align: left; padding: 0.1rem 1rem 0.1rem 0; vertical-align: top; }
.method { display: inline-block; width: 3.5rem; font-weight: bold; }
"""


def api_page(description: Mapping[str, Any], metadata: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page of an OpenAPI description, with the inputs and outputs of each model.

    >>> page = api_page({"info": {"title": "A & B"}, "paths": {"/v2": {"get": {"summary": "What it is."}}}}, {})
    >>> "<title>A &amp; B</title>" in page and "What it is." in page
    True
    """
    title = escape(description["info"]["title"])
    paths = description["paths"]
    operations = [_operation(path, method, one) for path in paths for method, one in paths[path].items()]
    has_tokens = bool(description.get("components", {}).get("securitySchemes"))
    token = "<p>All but health needs the header <code>Authorization: Bearer TOKEN</code>.</p>" if has_tokens else ""
    models = "".join(_model(name, one) for name, one in metadata.items())
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head>"
        f'<body><h1>{title}</h1><p>For programs: <a href="openapi.json">openapi.json</a></p>{token}'
        f"<h2>Models</h2>{models}<h2>Requests</h2>{''.join(operations)}</body></html>\n"
    )


def _model(name: str, metadata: Mapping[str, Any]) -> str:
    rows = "".join(
        f"<tr><td>{kind}</td><td><code>{escape(one['name'])}</code></td><td>{escape(one['datatype'])}</td>"
        f"<td>{escape(json.dumps(one['shape']))}</td></tr>"
        for kind, part in (("input", "inputs"), ("output", "outputs"))
        for one in metadata[part]
    )
    versions = ", ".join(escape(one) for one in metadata["versions"])
    return (
        f"<h3><code>{escape(name)}</code></h3><p>Versions in memory: {versions}. Records: "
        f"<code>{escape(metadata['records'])}</code>.</p>"
        f"<table><tr><th></th><th>name</th><th>datatype</th><th>shape</th></tr>{rows}</table>"
    )


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> str:
    schemas = {kind: one["schema"] for kind, one in operation.get("requestBody", {}).get("content", {}).items()}
    request = "".join(
        f"<p>Body, <code>{escape(kind)}</code>:</p><pre>{escape(json.dumps(schema, indent=1))}</pre>"
        for kind, schema in schemas.items()
    )
    answers = "".join(
        f"<tr><td>{escape(status)}</td><td>{escape(one['description'])}</td></tr>"
        for status, one in sorted(operation.get("responses", {}).items())
    )
    return (
        f'<details><summary><span class="method">{escape(method.upper())}</span> <code>{escape(path)}</code> '
        f"{escape(operation['summary'])}</summary>{request}<table>{answers}</table></details>"
    )
