"""The HTTP API: `/api/v1`, `/healthz`, `/metrics`, the OpenAPI document and its page. Imported only if `http.port` is set, and for
programs that use the Python SDK, which requests the same routes over the daemon's socket (`socket_api`).

`auth` authenticates a token and returns its permissions, `visibility` says what its bearer may see, `backend` runs commands of the
contracts' tables within that visibility, `routes` is the table of routes, and `app` serves it. No route validates, stores or
searches anything itself.
"""
