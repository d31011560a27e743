"""Files that come are to be looked at: written with whatever refers to them."""

from comfyrail.store.media import has_facts
from comfyrail.store.signals import MEDIA
from comfyrail.store.sqlite.writer import Transaction


def want_look(tx: Transaction, blob_key: str, content_type: str) -> None:
    """Where there is anything to learn of it and nobody has looked yet."""
    if has_facts(content_type):
        tx.run("insert_media", blob_key=blob_key, content_type=content_type, now=tx.now)
        tx.notify(MEDIA)
