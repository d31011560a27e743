"""`python -m comfyrail.faultlab.shifted_clock FILE serve …`: comfyrail with a clock that jumps.

FILE is a ClockOffset. Clocks that never go backwards stay as they are, as on a machine whose time
was set.
"""

import runpy
import sys
import time
from pathlib import Path

from comfyrail.faultlab.clock_offset import ClockOffset


def shift_wall_clock(offset: ClockOffset) -> None:
    """Replace the wall clocks of this process for all who ask `time` from here on."""
    nanoseconds = offset.shift(time.time_ns)
    time.time_ns = nanoseconds
    time.time = lambda: nanoseconds() / 1e9


def main() -> None:
    del sys.argv[0]
    shift_wall_clock(ClockOffset(Path(sys.argv[0])))
    runpy.run_module("comfyrail", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
