"""What a workflow will need, before it runs. Pure."""
