"""From a module, or its text, to a program: the pipeline, its cache, and what it binds."""
