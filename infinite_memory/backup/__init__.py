"""Backups: a consistent snapshot of all data in one file, optionally encrypted, and its restore."""
