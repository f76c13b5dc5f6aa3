"""Scheduled jobs: the schedule, the runner, and the consolidation of memories."""
