"""Dynamic dimensions: reading, setting, reshaping."""
