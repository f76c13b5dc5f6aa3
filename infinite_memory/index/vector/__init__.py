"""The vectors of the index: one table per space, searched exactly or by a coarse index. The only package that uses FAISS."""
