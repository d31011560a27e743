"""Which operation a request means, before the framework has looked for its route."""

from collections.abc import Iterable
from re import Pattern

from fastapi import APIRouter
from fastapi.routing import APIRoute

from comfyrail.api.operations import Operation, Operations


class RouteOperations:
    """Looks where the framework does, in the same order; of hot paths it knows those without
    parameters.
    """

    def __init__(self, routers: Iterable[APIRouter], operations: Operations) -> None:
        self._whole: dict[tuple[str, str], Operation] = {}
        self._patterns: dict[str, list[tuple[Pattern[str], Operation]]] = {}
        for (method, path), operation in operations.items():
            if "{" not in path:
                self._whole[method.upper(), path] = operation
        for route in (route for router in routers for route in router.routes):
            if isinstance(route, APIRoute) and "{" in route.path:
                for method in route.methods or ():
                    found = operations.get((method.lower(), route.path))
                    if found is not None:
                        group = self._patterns.setdefault(method, [])
                        group.append((route.path_regex, found))

    def find(self, method: str, path: str) -> Operation | None:
        """None for a path or a method that the API does not have."""
        found = self._whole.get((method, path))
        if found is not None:
            return found
        for pattern, operation in self._patterns.get(method, ()):
            if pattern.match(path):
                return operation
        return None
