"""Read-only analyses of modules: effects, cost, liveness."""
