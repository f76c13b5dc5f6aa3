"""The Python SDK: a memory as a Python object. Standard library only, so that importing it costs a few milliseconds.

`memory` has what a program calls, `async_memory` the same for asyncio, `results` what comes back, `errors` what is raised. `transport`
brings a request to the daemon's socket or to a URL; `routes` names the requests, which are those of the HTTP API
(docs/http.md). Nothing is stored or searched here.
"""
