"""InfiniteMemory: a long-term memory for assistants that stays on the user's machine.

Public names are imported when first used (PEP 562), so that the thin client pays for nothing but the standard library.
"""

__version__ = "0.1.0"
