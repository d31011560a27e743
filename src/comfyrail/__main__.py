"""`python -m comfyrail`."""

from comfyrail.cli.main import main

main()
