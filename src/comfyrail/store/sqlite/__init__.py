"""The store on SQLite: write-ahead log, synchronous FULL, one writer thread, readers apart."""
