"""Search and timeline inside an assistant: a host page in a real browser shows the app as SEP-1865 says, over a real daemon."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import FrameLocator, Page, expect

from infinite_memory.contracts.mcp import APP_EXTENSION, APP_TYPE
from infinite_memory.contracts.native.resources import APP_TOOLS, APP_URI
from tests.browser import PATIENCE_MS, launched
from tests.processes import LONG, Client, Installation, need_parts

Json = dict[str, Any]

HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script> the harbour ferry"
POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'none'; frame-src 'none'; object-src 'none'; base-uri 'self'"
)
HOST = """<!DOCTYPE html><title>Host</title>
<iframe id="sandbox" sandbox="allow-scripts allow-same-origin" width="600" height="700"></iframe>
<script>
const frame = document.getElementById("sandbox"), port = location.port;
const post = (message) => frame.contentWindow.postMessage({ jsonrpc: "2.0", ...message }, "*");
window.seen = [];
window.start = (html, call, toolInfo) => {
  frame.src = `http://localhost:${port}/sandbox.html`;
  window.addEventListener("message", async ({ data, source }) => {
    if (source !== frame.contentWindow) return;
    window.seen.push(data.method);
    if (data.method === "ui/notifications/sandbox-proxy-ready")
      post({ method: "ui/notifications/sandbox-resource-ready", params: { html } });
    const variables = { "--color-background-primary": "rgb(1, 2, 3)" };
    if (data.method === "ui/initialize") post({ id: data.id, result: {
      protocolVersion: "2026-01-26", hostInfo: { name: "test", version: "1" }, hostCapabilities: { serverTools: {} },
      hostContext: { theme: "dark", styles: { variables }, toolInfo } } });
    if (data.method === "ui/notifications/initialized") {
      const reply = await window.relay("tools/call", call);
      post({ method: "ui/notifications/tool-input", params: { arguments: call.arguments } });
      post({ method: "ui/notifications/tool-result", params: reply.result });
    }
    if (data.method === "tools/call") post({ ...(await window.relay("tools/call", data.params)), id: data.id });
  });
};
</script>"""
SANDBOX = f"""<!DOCTYPE html><title>Sandbox</title><script>
let inner = null;
window.addEventListener("message", ({{ data, source }}) => {{
  if (data.method === "ui/notifications/sandbox-resource-ready") {{
    inner = document.createElement("iframe");
    inner.id = "view";
    inner.sandbox = "allow-scripts";
    inner.width = 580; inner.height = 680;
    const policy = `<meta http-equiv="Content-Security-Policy" content="{POLICY}">`;
    inner.srcdoc = data.params.html.replace("<head>", () => "<head>" + policy);
    document.body.append(inner);
  }} else if (source === window.parent) inner.contentWindow.postMessage(data, "*");
  else if (inner && source === inner.contentWindow) window.parent.postMessage(data, "*");
}});
window.addEventListener("DOMContentLoaded", () =>
  window.parent.postMessage({{ jsonrpc: "2.0", method: "ui/notifications/sandbox-proxy-ready", params: {{}} }}, "*"));
</script>"""


class _Files(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Write nothing."""


def begin(installation: Installation, capabilities: Json) -> tuple[Client, Json]:
    """Open an MCP client with *capabilities*; returns it and the reply to its handshake."""
    client = installation.serve()
    about = {"name": "test", "version": "1"}
    reply = client.rpc(0, "initialize", protocolVersion="2025-11-25", capabilities=capabilities, clientInfo=about)
    client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    return client, reply["result"]


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    need_parts()
    with Installation(tmp_path_factory.mktemp("app") / "home", is_stopped=LONG) as made:
        memory = made.serve()
        for text, at in (("The violin teacher is called Ada Quill", "2025-03-14"), (HOSTILE, "2025-06-02")):
            reply = memory.ask("store_memory", content=text, metadata={"timestamp": f"{at}T10:00:00Z"})
            assert reply["status"] == "OK", reply
        yield made


@pytest.fixture(scope="module")
def shown(installation: Installation) -> Client:
    """A client that shows apps."""
    return begin(installation, {"extensions": {APP_EXTENSION: {"mimeTypes": [APP_TYPE]}}})[0]


@pytest.fixture
def call() -> Json:
    """The call whose result is shown."""
    return {"name": "retrieve_memory", "arguments": {"query": "violin teacher"}}


@pytest.fixture
def host(tmp_path: Path, shown: Client, call: Json) -> Iterator[Page]:
    """A host page that shows the app for *call*."""
    (tmp_path / "host.html").write_text(HOST)
    (tmp_path / "sandbox.html").write_text(SANDBOX)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Files, directory=str(tmp_path)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    numbers = itertools.count(100)
    try:
        with launched() as browser:
            page = browser.new_page()
            page.set_default_timeout(PATIENCE_MS)
            page.expose_function("relay", lambda method, params: shown.rpc(next(numbers), method, **params))
            page.goto(f"http://127.0.0.1:{server.server_port}/host.html")
            [content] = shown.rpc(next(numbers), "resources/read", uri=APP_URI)["result"]["contents"]
            told = {"tool": {"name": call["name"], "inputSchema": {"type": "object"}}}
            page.evaluate("(given) => window.start(...given)", [content["text"], call, told])
            yield page
    finally:
        server.shutdown()
        server.server_close()


def get_view(page: Page) -> FrameLocator:
    return page.frame_locator("#sandbox").frame_locator("#view")


def test_only_who_announces_the_extension_is_told_of_the_app(installation: Installation, shown: Client) -> None:
    plain, greeting = begin(installation, {})
    assert "extensions" not in greeting["capabilities"]
    without = plain.rpc(1, "tools/list")["result"]["tools"]
    told = shown.rpc(1, "tools/list")["result"]["tools"]
    assert not any("_meta" in tool for tool in without)
    apps = {tool["name"]: tool.pop("_meta") for tool in told if "_meta" in tool}
    assert apps == {name: {"ui": {"resourceUri": APP_URI}} for name in APP_TOOLS}
    assert json.dumps(told) == json.dumps(without)
    for other in ({"extensions": {APP_EXTENSION: {"mimeTypes": ["text/plain"]}}}, {"extensions": []}):
        assert begin(installation, other)[0].rpc(1, "tools/list")["result"]["tools"] == without


def test_the_app_is_one_document_that_asks_for_nothing_from_elsewhere(shown: Client) -> None:
    [content] = shown.rpc(2, "resources/read", uri=APP_URI)["result"]["contents"]
    assert content["mimeType"] == APP_TYPE
    assert content["_meta"]["ui"]["csp"] == {"connectDomains": [], "resourceDomains": []}
    assert not [mark for mark in ("http://", "https://", "innerHTML", "eval(", "src=") if mark in content["text"]]


def test_the_result_of_the_tool_is_shown_in_the_colours_of_the_host(host: Page) -> None:
    view = get_view(host)
    expect(view.get_by_text("The violin teacher is called Ada Quill")).to_be_visible()
    expect(view.get_by_role("searchbox")).to_have_value("violin teacher")
    expect(view.locator("body")).to_have_css("background-color", "rgb(1, 2, 3)")
    host.wait_for_function("window.seen.includes('ui/notifications/size-changed')")


def test_a_search_goes_through_the_host_and_hostile_texts_are_text(host: Page) -> None:
    dialogs: list[str] = []
    host.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    view = get_view(host)
    view.get_by_text("Ada Quill").wait_for()
    view.get_by_role("searchbox").fill("harbour ferry")
    view.get_by_role("searchbox").press("Enter")
    first = view.get_by_role("list", name="Memories").get_by_role("button").first
    expect(first).to_have_text(HOSTILE)
    first.click()
    expect(first).to_have_text(HOSTILE)
    assert view.locator("#results img, #results script").count() == 0
    assert dialogs == []


def test_the_timeline_opens_and_a_month_shows_its_memories(host: Page) -> None:
    view = get_view(host)
    view.get_by_text("Ada Quill").wait_for()
    view.get_by_role("button", name="Timeline").click()
    expect(view.get_by_role("button", name="March")).to_have_text("March1")
    expect(view.get_by_role("button", name="April")).to_have_text("April0")
    view.get_by_role("button", name="June").click()
    expect(view.get_by_role("list", name="Memories").get_by_role("button")).to_have_text([HOSTILE])


def test_the_year_before_is_not_asked_for_until_there_is_a_year(host: Page) -> None:
    view = get_view(host)
    view.get_by_text("Ada Quill").wait_for()
    host.evaluate(
        """() => { const relay = window.relay, gate = new Promise((open) => { window.open_gate = open; });
          window.relay = async (...given) => { await gate; return relay(...given); }; }"""
    )
    view.get_by_role("button", name="Timeline").click()
    view.get_by_role("button", name="The year before").click()
    view.get_by_role("button", name="The year after").click()
    host.evaluate("window.open_gate()")
    expect(view.get_by_role("button", name="March")).to_have_text("March1")
    expect(view.locator("#year")).to_have_text("2025")
    view.get_by_role("button", name="The year before").click()
    expect(view.locator("#year")).to_have_text("2024")


@pytest.mark.parametrize("call", [{"name": "recall_memory_by_time", "arguments": {"time_query": "2025", "limit": 1}}])
def test_more_goes_on_from_the_result_of_the_tool(host: Page) -> None:
    view = get_view(host)
    texts = view.get_by_role("list", name="Memories").get_by_role("button")
    expect(texts).to_have_count(1)
    more = view.get_by_role("button", name="More")
    result = host.evaluate(
        "async () => (await window.relay('tools/call', "
        "{ name: 'recall_memory_by_time', arguments: { time_query: '2025' } })).result"
    )
    expect(more).to_be_visible()
    host.evaluate("(params) => post({ method: 'ui/notifications/tool-result', params })", result)
    expect(texts).to_have_count(2)
    expect(more).to_be_hidden()


@pytest.mark.parametrize("call", [{"name": "recall_memory_by_time", "arguments": {"time_query": "2025", "limit": 1}}])
def test_more_appends_the_next_page_of_the_tools_result(host: Page) -> None:
    view = get_view(host)
    view.get_by_role("button", name="More").click()
    texts = view.get_by_role("list", name="Memories").get_by_role("button")
    expect(texts).to_have_count(2)
    expect(texts.filter(has_text="Ada Quill")).to_have_count(1)
    expect(view.get_by_role("button", name="More")).to_be_hidden()
