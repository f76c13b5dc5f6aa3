"""The page: what a person sees of the memory in a browser, at `/` of the HTTP port. Imported once somebody asks for it.

It is a front end like any other and decides nothing: every view asks the native contract's commands through `queries`, on no more of
the engine than the token of the login sees. Server-rendered templates (Jinja2, escaping everything) with htmx, vendored in `static/vendor`;
nothing comes from another host, and no script stands in a page.

`sessions` knows who is logged in, `app` lets requests in, `routing` is the table that the modules below `views` enter their pages into.
"""
