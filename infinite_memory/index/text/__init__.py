"""The text index: BM25 and phrases over passages of memories. The only package that uses tantivy."""
