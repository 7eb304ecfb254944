"""HLO text while it is written: diagnostics, definitions, completion, formatting."""
