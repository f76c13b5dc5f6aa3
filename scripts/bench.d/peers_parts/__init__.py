"""Parts of the peers bench: the peer's environment and its memories, windows of either, and the report."""
