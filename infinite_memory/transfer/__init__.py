"""Exports and imports of memories, in the formats of this project and of other programs."""
