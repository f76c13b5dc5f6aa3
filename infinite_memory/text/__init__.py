"""Text analysis: tokens, stems, stop words, passages, spelling and BM25 ranking."""
