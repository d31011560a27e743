"""The library of workflows: a folder a workflow, every version kept."""
