"""Read-only facts about modules: what a computation does, costs, lives."""
