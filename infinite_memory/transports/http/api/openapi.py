"""The parts of the OpenAPI document that are generated from the table of routes (parameters, bodies, replies), and the page that shows it.

The page is Swagger UI, vendored with the other assets of the page: no network, no inline script.
"""

from __future__ import annotations

from typing import Any

from infinite_memory.contracts.fields import Field, Json, object_schema
from infinite_memory.transports.http.api.routes import Route
from infinite_memory.transports.http.api.schemas import ERRORS, SCHEMAS

_STATIC = "/page/static"

PAGE = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>InfiniteMemory HTTP API</title>
<link rel="icon" href="{_STATIC}/icon.svg">
<link rel="stylesheet" href="{_STATIC}/vendor/swagger-ui.css">
<script src="{_STATIC}/vendor/swagger-ui-bundle.js" defer></script>
<script src="{_STATIC}/api.js" defer></script>
</head>
<body>
<div id="api">Loading</div>
<noscript>This page needs JavaScript; the document itself is at <a href="/openapi.json">openapi.json</a>.</noscript>
</body>
</html>
"""

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

TOKEN = "token"
_HEADERS: dict[int, Json] = {
    401: {"WWW-Authenticate": {"schema": {"type": "string"}, "description": "Always Bearer"}},
    429: {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds"}},
}


def operation(route: Route) -> Json:
    """Return the operation object of a route, without its name and replies."""
    document: Json = {"security": [{TOKEN: []}]}
    parameters = [_parameter(field, "path") for field in route.in_path] + [
        _parameter(field, "query") for field in route.query
    ]
    if parameters:
        document["parameters"] = parameters
    if route.body is not None:
        required = any(field.required for field in route.body)
        schema = {"schema": object_schema(route.body)}
        document["requestBody"] = {"required": required, "content": {"application/json": schema}}
    return document


def responses(successes: dict[int, str]) -> dict[int | str, dict[str, Any]]:
    """Return the responses of a route: the successful ones by their schemas' names, and every error."""
    documented: dict[int | str, dict[str, Any]] = {
        status: {"description": "Done", "content": _json(name)} for status, name in successes.items()
    }
    for status, about in ERRORS.items():
        if status not in documented:
            documented[status] = {"description": about, "content": _json("Error")}
            if status in _HEADERS:
                documented[status]["headers"] = _HEADERS[status]
    return documented


def completed(document: Json) -> Json:
    """Add the schemas that the replies name, and the security scheme."""
    parts = document.setdefault("components", {})
    parts["schemas"] = {**parts.get("schemas", {}), **SCHEMAS}
    parts["securitySchemes"] = {TOKEN: {"type": "http", "scheme": "bearer"}}
    return document


def _parameter(field: Field, location: str) -> Json:
    schema = field.schema() | ({} if field.default is None else {"default": field.described()["default"]})
    return {
        "name": field.name, "in": location, "required": location == "path" or field.required, "description": field.about,
        "schema": schema,
    }  # fmt: skip


def _json(name: str) -> Json:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}
