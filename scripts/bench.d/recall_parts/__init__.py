"""Data that `scripts/bench recall` reads."""
