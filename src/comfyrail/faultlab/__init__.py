"""The fault harness: real servers and workers from outside, real faults, and what is left after."""
