"""The page: the memory in a browser, at `/` of the HTTP port. Imported on first use.

It is a front end like any other and has no logic of its own: every view runs the native contract's commands through `queries`, with
the visibility of the login's token. Server-rendered templates (Jinja2, escaping everything) with htmx, vendored in `static/vendor`;
nothing is loaded from another host, and there is no inline script.

`sessions` knows who is logged in, `app` handles requests, `routing` is the table in which the modules below `views` register their pages.
"""
