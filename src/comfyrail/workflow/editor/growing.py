"""Lists that grow whose items have widgets: texts or numbers, as many as the user wants."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from comfyrail.workflow.dynamic_inputs import MOST_ITEMS
from comfyrail.workflow.editor.widget_kinds import InputSpec, Widget

SECTIONS = ("required", "optional")


class Growing(NamedTuple):
    """A list that grows. `stems` are the names of its items without their number, each with what
    the item is; `names` are those of all items instead, where the type gives them.
    """

    name: str
    stems: Mapping[str, InputSpec]
    names: tuple[str, ...]
    least: int
    most: int

    @classmethod
    def read(cls, spec: InputSpec) -> "Growing | None":
        """None where no item has a widget, or where it makes no sense."""
        template = spec.options.get("template")
        if not isinstance(template, Mapping):
            return None
        items = list(_items(template.get("input")))
        if not any(item.has_widget for item in items):
            return None
        prefix = template.get("prefix")
        listed = template.get("names")
        names = tuple(listed) if isinstance(listed, list | tuple) else ()
        is_single = len(items) == 1
        return cls(
            spec.name,
            {str(prefix or "") if is_single else item.name: item for item in items},
            names if all(isinstance(each, str) for each in names) else (),
            _count(template.get("min"), 1),
            min(len(names) or _count(template.get("max"), 100), MOST_ITEMS),
        )

    def first_widgets(self) -> Iterator[Widget]:
        """Those of a new node: as many items as there must be, and one to be filled next."""
        for number in range(min(self.least + 1, self.most)):
            for stem, item in self.stems.items():
                name = self.names[number] if self.names else f"{stem}{number}"
                yield from self._widgets(name, item)

    def more_widgets(self, names: Iterable[str]) -> Iterator[Widget]:
        """Those of further items, out of the names of a node's inputs."""
        start = f"{self.name}."
        for name in names:
            item = self._item(name[len(start) :]) if name.startswith(start) else None
            if item is not None:
                yield from self._widgets(name[len(start) :], item)

    def _widgets(self, name: str, item: InputSpec) -> Iterator[Widget]:
        return item._replace(name=f"{self.name}.{name}").widgets()

    def _item(self, name: str) -> InputSpec | None:
        if self.names:
            return next(iter(self.stems.values())) if name in self.names else None
        number = name[len(name.rstrip("0123456789")) :]
        for stem, item in self.stems.items():
            counted = name.removeprefix(stem) if name.startswith(stem) else ""
            if counted and counted == number[-len(counted) :] and len(counted) < 10:
                is_written_so = counted == str(int(counted))
                return item if is_written_so and int(counted) < self.most else None
        return None


def _items(sections: object) -> Iterator[InputSpec]:
    for section in SECTIONS:
        inputs = sections.get(section) if isinstance(sections, Mapping) else None
        for name, spec in inputs.items() if isinstance(inputs, Mapping) else ():
            yield InputSpec.read(name, spec)


def _count(value: Any, otherwise: int) -> int:
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return min(value, MOST_ITEMS) if is_count else otherwise
