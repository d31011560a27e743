"""Numbered, forward only: `0001_name.sql`. A file that has been released never changes."""

from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Migration:
    number: int
    name: str
    sql: str


def all_migrations() -> list[Migration]:
    """Every migration in order."""
    found = [
        Migration(int(entry.name[:4]), entry.name[5:-4], entry.read_text(encoding="utf-8"))
        for entry in files(__package__).iterdir()
        if entry.name.endswith(".sql")
    ]
    return sorted(found, key=lambda migration: migration.number)
