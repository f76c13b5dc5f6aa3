"""The official conformance suite over our sessions; `scripts/conformance` runs it."""
