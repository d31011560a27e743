"""Times and sizes as people read them."""

UNKNOWN = "\N{EN DASH}"

_BYTES = ("B", "KiB", "MiB", "GiB", "TiB")


def shown_seconds(seconds: float | None) -> str:
    """Three digits and a unit: `1.23 s`, `45.6 ms`, `789 µs`."""
    if seconds is None:
        return UNKNOWN
    if seconds >= 100:
        return f"{seconds:.0f} s"
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        amount = seconds * factor
        if amount >= 0.9995 or unit == "µs":
            digits = 2 if amount < 9.995 else 1 if amount < 99.95 else 0
            return f"{amount:.{digits if unit != 'µs' else 0}f} {unit}"
    return UNKNOWN


def shown_bytes(amount: int | None) -> str:
    """`512 B`, `1.5 MiB`."""
    if amount is None:
        return UNKNOWN
    size = float(amount)
    for unit in _BYTES:
        if size < 1024 or unit == _BYTES[-1]:
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "B" or size >= 99.95 else f"{size:.1f} {unit}"
