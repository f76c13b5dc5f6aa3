"""Backups: one moment of everything in one file, encrypted where asked, and how it is restored."""
