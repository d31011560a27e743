"""Jobs, attempts, states, priority, events, faults: what they are and their rules. Pure."""
