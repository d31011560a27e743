"""The memory that the values of running executions take: counted, limited, moved to disk [12.5]."""
