"""The entry function: kernel plans, buffers, commands, and their emission."""
