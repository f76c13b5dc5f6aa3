"""What is kept for good: memories and what belongs to them, in MongoDB."""
