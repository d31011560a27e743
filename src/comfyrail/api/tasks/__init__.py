"""The task API [10.3]: jobs as tasks of a queue, for programs written for such an API."""
