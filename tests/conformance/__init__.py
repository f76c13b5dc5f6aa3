"""The official conformance suite over our sessions; `tests/end_to_end/test_official_tools.py` runs it."""
