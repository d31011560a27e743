"""Whether a workflow can work, said with all its faults and how to mend them. Pure."""
