"""The page that shows the OpenAPI document: one file, no network, no script of anybody else's."""

from __future__ import annotations

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>InfiniteMemory HTTP API</title>
<style>
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
details { border: 1px solid #8885; border-radius: 6px; margin: .5rem 0; padding: .4rem .8rem; }
summary { cursor: pointer; }
summary b { display: inline-block; min-width: 4.5rem; }
code, pre { font: 13px/1.4 ui-monospace, monospace; }
pre { overflow: auto; background: #8881; padding: .6rem; border-radius: 6px; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; vertical-align: top; padding: .2rem .6rem .2rem 0; border-bottom: 1px solid #8883; }
input, textarea { width: 100%; box-sizing: border-box; font: 13px ui-monospace, monospace; }
</style>
</head>
<body>
<h1>InfiniteMemory HTTP API</h1>
<p>From <a href="openapi.json">openapi.json</a>. To try a route, give a token; it stays in this page.</p>
<p><input id="token" type="password" autocomplete="off" placeholder="Bearer token"></p>
<main id="routes">Loading…</main>
<script>
"use strict";
const make = (tag, text, ...inner) => {
  const one = document.createElement(tag);
  if (text) one.textContent = text;
  one.append(...inner);
  return one;
};
const kind = (schema) => [].concat(schema.enum ? schema.enum.join(" | ") : schema.type || "any").join(" or ");
const rows = (fields) => {
  const table = make("table", "", make("tr", "", make("th", "field"), make("th", "type"), make("th", "")));
  for (const [name, place, schema, about, required] of fields)
    table.append(make("tr", "", make("td", "", make("code", name + (required ? " *" : "")), " " + place),
      make("td", kind(schema)), make("td", about || "")));
  return table;
};
const attempt = (method, path, hasBody) => {
  const address = make("input"), body = make("textarea"), button = make("button", "Send"), shown = make("pre");
  address.value = path;
  body.value = "{}";
  button.onclick = async () => {
    const headers = { Authorization: "Bearer " + document.getElementById("token").value };
    if (hasBody) headers["Content-Type"] = "application/json";
    const reply = await fetch(address.value, { method, headers, body: hasBody ? body.value : undefined });
    const text = await reply.text();
    try { shown.textContent = reply.status + "\\n" + JSON.stringify(JSON.parse(text), null, 2); }
    catch { shown.textContent = reply.status + "\\n" + text; }
  };
  return hasBody ? [address, body, button, shown] : [address, button, shown];
};
fetch("openapi.json").then((reply) => reply.json()).then((document_) => {
  const routes = document.getElementById("routes");
  routes.textContent = "";
  for (const [path, methods] of Object.entries(document_.paths))
    for (const [method, one] of Object.entries(methods)) {
      const shown = make("details", "", make("summary", "", make("b", method.toUpperCase()), make("code", path),
        " " + (one.summary || "")), make("p", one.description || ""));
      const fields = (one.parameters || []).map((p) => [p.name, p.in, p.schema, p.description, p.required]);
      const body = one.requestBody && one.requestBody.content["application/json"].schema;
      for (const [name, schema] of Object.entries((body && body.properties) || {}))
        fields.push([name, "", schema, schema.description, (body.required || []).includes(name)]);
      if (fields.length) shown.append(rows(fields));
      const replies = Object.entries(one.responses).map(([status, reply]) => status + ": " + reply.description);
      shown.append(make("pre", replies.join("\\n")), ...attempt(method.toUpperCase(), path, Boolean(body)));
      routes.append(shown);
    }
});
</script>
</body>
</html>
"""

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}
