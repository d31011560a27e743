"""The kinds of faults: one class each."""
