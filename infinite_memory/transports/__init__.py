"""How messages reach a contract. Nothing here knows whether its bytes come from a pipe, a socket or a test."""
