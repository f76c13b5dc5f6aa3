"""Hooks of assistants: what is said in a session is stored, and what is known is recalled, with no model in the path."""
