"""Entry point of `infinite-memory` and `python -m infinite_memory`; hooks bypass the command line, because an assistant waits."""

import sys


def main() -> int:
    """Run the command given by the process's arguments; returns its exit code."""
    if sys.argv[1:2] == ["hook"] and sys.argv[2:3] not in (["--help"], ["-h"]):
        from infinite_memory.hooks.run import main as run_hook

        return run_hook()
    from infinite_memory.cli import main as run_command

    return run_command()


if __name__ == "__main__":
    sys.exit(main())
