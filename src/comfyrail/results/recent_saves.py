"""Which blobs were saved after a moment: what was looked at before it may be wanted again.

On a disk a file that is saved again is another file. An object that is there already is not sent
again, so nothing of it changes.
"""

from collections import OrderedDict

MOST_REMEMBERED = 50_000


class RecentSaves:
    """The last ones. Of those before them it says that they may have been."""

    def __init__(self, most: int = MOST_REMEMBERED) -> None:
        self._most = most
        self._moments: OrderedDict[str, int] = OrderedDict()
        self._forgotten = 0
        self.moment = 0
        """The number of saves so far."""

    def note(self, key: str) -> None:
        self.moment += 1
        self._moments.pop(key, None)
        self._moments[key] = self.moment
        if len(self._moments) > self._most:
            _, self._forgotten = self._moments.popitem(last=False)

    def may_be_since(self, key: str, moment: int) -> bool:
        return self._moments.get(key, self._forgotten) > moment
