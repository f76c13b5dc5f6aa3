"""The table of routes and the OpenAPI document made from it."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from infinite_memory.contracts.agentmem.table import TABLE as AGENTMEM
from infinite_memory.contracts.native.table import TABLE as NATIVE
from infinite_memory.errors import ForbiddenError, InvalidRequestError
from infinite_memory.transports.http.api.app import OPEN, make_api
from infinite_memory.transports.http.api.dispatch import check_may, known_fields
from infinite_memory.transports.http.api.openapi import completed, operation, responses
from infinite_memory.transports.http.api.routes import ROUTES, Audience, Route, methods_at
from infinite_memory.transports.http.api.schemas import ERRORS, SCHEMAS
from infinite_memory.transports.http.api.tokens import TokenPermissions


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """The whole OpenAPI document."""
    api = make_api(cast("Any", None), cast("Any", None))
    return completed(api.openapi())


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_every_reply_of_a_route_has_a_schema(route: Route) -> None:
    assert set(route.gives.values()) <= SCHEMAS.keys()
    assert set(responses(route.gives)) == set(ERRORS) | set(route.gives)


def test_every_schema_that_is_named_is_there(document: dict[str, Any]) -> None:
    named = {one.split('"')[0] for one in json.dumps(document).split('"#/components/schemas/')[1:]}
    assert named <= document["components"]["schemas"].keys()


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_every_field_of_a_route_stands_in_the_document(document: dict[str, Any], route: Route) -> None:
    shown = document["paths"][route.path][route.method.lower()]
    parameters = {(one["name"], one["in"]) for one in shown.get("parameters", [])}
    assert parameters == {(one.name, "path") for one in route.in_path} | {(one.name, "query") for one in route.query}
    if route.body is not None:
        schema = shown["requestBody"]["content"]["application/json"]["schema"]
        assert set(schema["properties"]) == {one.name for one in route.body}
    assert operation(route)["security"]


def test_a_default_that_depends_on_the_search_is_told_in_words(document: dict[str, Any]) -> None:
    body = document["paths"]["/api/v1/search"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    limit = body["properties"]["limit"]
    assert "default" not in limit
    tables: dict[str, Any] = {
        "retrieve_memory": NATIVE,
        "recall_memory_by_time": NATIVE,
        "agentmem_search_memories": AGENTMEM,
    }
    for name, table in tables.items():
        [field] = [one for one in table.find(name).fields if one.name in ("limit", "top_k")]
        assert str(field.default) in limit["description"].replace(";", ",").replace(",", " ").split()


def test_what_needs_no_token_never_answers_that_one_lacks(document: dict[str, Any]) -> None:
    assert "401" not in document["paths"]["/healthz"]["get"]["responses"]
    assert {"401", "408"} <= document["paths"]["/metrics"]["get"]["responses"].keys()


def test_no_route_of_the_table_is_open(document: dict[str, Any]) -> None:
    assert not OPEN & {route.path for route in ROUTES}
    assert {path for path, methods in document["paths"].items() if "security" not in methods["get" if "get" in methods else
            "post"]} == {"/healthz"}  # fmt: skip


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_a_route_that_may_change_something_is_marked(route: Route) -> None:
    reads = route.method == "GET" or route.name in ("search", "system_prompt")
    assert route.writes is not reads


@pytest.mark.parametrize(
    ("grant", "may"),
    [
        (TokenPermissions("x"), set(Audience)),
        (TokenPermissions("x", users=("a",)), {Audience.ANY, Audience.USERS}),
        (TokenPermissions("x", scope_ids=()), {Audience.ANY}),
    ],
)  # fmt: skip
def test_bound_tokens_come_to_what_is_narrowed_for_them(grant: TokenPermissions, may: set[Audience]) -> None:
    for route in ROUTES:
        if route.audience in may:
            check_may(grant, route)
        else:
            with pytest.raises(ForbiddenError):
                check_may(grant, route)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_a_field_that_is_not_the_routes_is_refused_where_something_is_forgotten_or_replaced_and_else_warned_of(
    route: Route,
) -> None:
    if route.method in ("DELETE", "PATCH"):
        with pytest.raises(InvalidRequestError, match="is not known here") as refused:
            known_fields(route, {"tga": "x"})
        assert refused.value.field == "tga"
    else:
        fields, warnings = known_fields(route, {"tga": "x"} | {field.name: None for field in route.fields})
        assert set(fields) == {field.name for field in route.fields}
        assert len(warnings) == 1
        assert warnings[0].startswith("tga is not known and was ignored")


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_a_user_is_never_left_out_of_what_is_asked(route: Route) -> None:
    if any(field.name == "user_id" for field in route.fields):
        assert known_fields(route, {"user_id": "ada"}) == ({"user_id": "ada"}, [])
    else:
        with pytest.raises(InvalidRequestError):
            known_fields(route, {"user_id": "ada"})


def test_an_address_tells_all_of_its_methods() -> None:
    assert methods_at("/api/v1/memories") == {"GET", "POST", "DELETE"}
    assert methods_at("/api/v1/memories/abc") == {"GET", "PATCH", "DELETE"}
    assert methods_at("/api/v1/nothing") == set()
