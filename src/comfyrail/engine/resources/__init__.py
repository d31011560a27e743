"""What nodes need of the machine, and a pool that hands it out [12.4]."""
