"""Derived data: what filtering, listing and searching need of every memory, rebuilt from the store when lost."""
