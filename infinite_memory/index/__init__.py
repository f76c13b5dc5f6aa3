"""Indexes derived from the store: vectors, texts and the columns that filters read; rebuilt when lost."""
