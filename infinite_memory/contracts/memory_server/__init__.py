"""The Memory Server contract: structured memories saved by content, searched by meaning, read under ``mem://`` addresses."""
