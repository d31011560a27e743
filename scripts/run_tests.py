"""Runs every test that a fresh machine can run, two files at a time.

Many tests run real processes against real time, and beside others on a busy machine one may miss
its limit. What fails there is run once more, alone: what fails again is broken, what does not is
named as unsteady and is to be mended.
"""

import subprocess
import sys

BESIDE_OTHERS = ("-m", "not comfyui", "-n", "2", "--dist", "loadfile")
ALONE = ("-m", "not comfyui", "--last-failed", "--last-failed-no-failures", "none", "-rA")
TESTS_FAILED = 1
MOST_UNSTEADY = 10
"""More is no bad luck."""


def main() -> int:
    first = _pytest(*BESIDE_OTHERS, *sys.argv[1:])
    if first != TESTS_FAILED:
        return first
    print(
        "\n=== Once more, alone: what fails again is broken, the rest is unsteady ===", flush=True
    )
    return _pytest(*ALONE, "--maxfail", str(MOST_UNSTEADY))


def _pytest(*options: str) -> int:
    command = (sys.executable, "-m", "pytest", *options)
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
