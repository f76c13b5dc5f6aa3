"""The page that shows the OpenAPI document: Swagger UI, vendored with the page's other parts. No network, no script in the page."""

from __future__ import annotations

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
