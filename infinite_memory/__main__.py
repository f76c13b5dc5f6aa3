"""Lets `python -m infinite_memory` stand for the command `infinite-memory`."""

import sys

from infinite_memory.cli import main

sys.exit(main())
