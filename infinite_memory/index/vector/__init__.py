"""The vectors of the index: one table for each space, searched exactly or by a coarse index. FAISS has its home here."""
