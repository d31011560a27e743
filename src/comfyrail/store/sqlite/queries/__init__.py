"""One file an operation, loaded once."""

from importlib.resources import files

QUERIES: dict[str, str] = {
    entry.name.removesuffix(".sql"): entry.read_text(encoding="utf-8")
    for entry in files(__package__).iterdir()
    if entry.name.endswith(".sql")
}
