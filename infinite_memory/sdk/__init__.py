"""The Python SDK: a memory as a Python object. Standard library only, so that importing it takes only a few milliseconds.

`memory` is the client, `async_memory` the client for asyncio, `results` has the return types and `errors` the exceptions. `requests`
validates arguments, and `transport` sends requests to the daemon's socket or to a URL; they are those of the HTTP API
(docs/http.md). Nothing is stored or searched here.
"""
