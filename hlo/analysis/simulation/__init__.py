"""Runs of partitioned modules on machines that are not here.

In the order to read them:

  machine    how fast one device computes
  topology   links between devices, and how long messages at the same time take
  fabric     collectives on a topology: the fastest algorithm, and its time
  durations  instructions and orders of them, on a network without structure
  simulator  the schedule of a module, instruction by instruction, on all devices
"""
