"""The text index: BM25 and phrases over passages of memories. Tantivy has its home here."""
