"""What happens to a memory as a whole: backup, restore, export, import, tidying, and the jobs that do it by themselves."""
