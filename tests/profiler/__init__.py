"""Tests of `hlo/profiler`."""
