"""Exports and imports: what people take out of a memory, and what they bring from elsewhere."""
