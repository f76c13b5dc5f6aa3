"""The Memory Server contract: structured memories stored by content, searched by meaning, read under ``mem://`` URIs."""
