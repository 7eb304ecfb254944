"""Communication between devices: what collectives send, by which algorithms, and how long it takes.

In the order to read them:

  transfers   what one collective instruction moves, between which devices
  algorithms  the ways of doing it: rounds in which each device sends to another
  costs       bytes and seconds of a module's collectives on a network without structure
"""
