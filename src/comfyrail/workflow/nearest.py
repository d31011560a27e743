"""What the caller may have meant."""

import difflib
from collections.abc import Iterable


def nearest_names(name: str, known: Iterable[str], limit: int = 3) -> list[str]:
    """The known names most like `name`, best first; case does not count."""
    by_folded: dict[str, str] = {}
    for candidate in known:
        by_folded.setdefault(candidate.casefold(), candidate)
    close = difflib.get_close_matches(name.casefold()[:200], by_folded, n=limit, cutoff=0.6)
    return [by_folded[folded] for folded in close]


def did_you_mean(names: list[str]) -> str:
    """A sentence to append to a message: ' Did you mean …?', or nothing."""
    if not names:
        return ""
    quoted = [f"'{name}'" for name in names]
    choice = quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"
    return f" Did you mean {choice}?"
