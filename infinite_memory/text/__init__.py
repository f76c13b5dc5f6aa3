"""Text analysis: words, stems, stop words, passages, spelling, and ranking by words."""
