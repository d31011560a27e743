"""The run API [10.4]: a workflow on one worker, its files from and to folders of the server."""
