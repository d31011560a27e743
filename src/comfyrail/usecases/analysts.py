"""The analyst for the fleet as it is now."""

from collections.abc import Callable, Mapping

from comfyrail.planning.analyst import Analyst
from comfyrail.workflow.catalog import NodeCatalog


class CurrentAnalyst:
    """Gives the same analyst, with all that it remembers, until node types or models change."""

    def __init__(
        self,
        catalog: Callable[[], NodeCatalog],
        model_sizes: Callable[[], Mapping[str, int]],
    ) -> None:
        self._catalog = catalog
        self._model_sizes = model_sizes
        self._analyst: Analyst | None = None

    def get(self) -> Analyst:
        catalog, sizes = self._catalog(), self._model_sizes()
        if self._analyst is None or not self._analyst.is_for(catalog, sizes):
            self._analyst = Analyst(catalog, sizes)
        return self._analyst
