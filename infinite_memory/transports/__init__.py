"""How messages reach a contract. Nothing here depends on whether the bytes come from a pipe, a socket or a test."""
