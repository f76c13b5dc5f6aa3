"""Persistent storage of memories and the records attached to them, in MongoDB."""
