"""The MongoDB implementation of the store; the only package that imports the drivers."""
