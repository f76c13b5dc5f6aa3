"""What runs by itself: the schedule, the runner, and the tidying of memories."""
