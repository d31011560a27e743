"""How one node is carried out: here, in threads or processes, or on other machines."""
