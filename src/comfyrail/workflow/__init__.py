"""Graphs as data: formats, graph model, parameters, node catalog. Pure: no input or output."""
