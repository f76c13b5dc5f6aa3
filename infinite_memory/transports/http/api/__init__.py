"""The HTTP API: `/api/v1`, `/healthz`, `/metrics`, the OpenAPI document and its page. Imported only where `http.port` is set, and for
programs that use the Python SDK, which asks for the same routes over the daemon's socket (`socket_api`).

`auth` lets a token in and says what it may do, `visibility` what its bearer may see, `backend` runs commands of the contracts'
tables on no more than that, `routes` is the table of what stands at which address, and `app` serves it. No route checks, stores or
searches anything itself.
"""
