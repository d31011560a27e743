"""Nodes on other machines: tasks carry keys, values travel through the shared cache levels."""
