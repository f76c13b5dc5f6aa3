"""The daemon of a home and how clients connect to it. Clients import only what a client needs."""
