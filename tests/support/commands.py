"""The command in a process of its own."""

import subprocess
import sys

# A process that was started in the background ignores Ctrl-C, and so do its children unless they restore the handler.
START = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from maxmargin.cli import main; main()"
)


def start_command(*args, **options):
    """Start `maxmargin` with these arguments; `options` are those of Popen."""
    return subprocess.Popen(
        [sys.executable, "-c", START, *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )
