"""Data movement: each output element is one input element or a fill value."""
