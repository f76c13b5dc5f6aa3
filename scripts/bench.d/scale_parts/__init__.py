"""Parts of the scale bench: texts, homes, measurements and the report."""
