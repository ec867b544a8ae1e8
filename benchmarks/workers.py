"""A script of this folder that runs fits on request, in a process of its own, by the Python of any environment.

The other side of the connection is `serve` of linear_worker.py.
"""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

import numpy as np
from common import AS_A_USER, environment


class Stopped(Exception):
    """A fit that ended without an answer; the text goes into the table."""


class WorkerProcess:
    """An entrant in a process of its own, which is started again after a fit was stopped.

    The process starts at once and prepares in parallel with others; `missing` waits until it is ready.
    """

    def __init__(self, name: str, command: Sequence[Any], threads: int = AS_A_USER, missing: str = "") -> None:
        self.name, self.threads = name, threads
        self.command = list(map(str, command))
        self.cpu = self.wall = 0.0
        self.process: Any = None
        if missing:
            self.missing = missing
        else:
            self._start()

    @cached_property
    def missing(self) -> str | None:
        """Why the entrant is missing; None if it is available."""
        try:
            return self._answer("")["missing"]
        except Stopped:
            return "the process ended before its first answer"

    def _start(self) -> None:
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115, it lives as long as the process
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env=environment(self.threads),
        )

    def ask(self, request: Mapping[str, Any], seconds: float) -> tuple[dict[str, Any], float, float]:
        """One fit within `seconds` CPU seconds on each thread; returns its model, CPU seconds and wall seconds."""
        if self.missing:
            raise Stopped(self.missing)
        if self.process is None:
            self._start()
            self._answer("not started")
        asked = {**request, "seconds": seconds * (self.threads or os.cpu_count() or 1)}
        with suppress(BrokenPipeError):  # then there is no answer either
            self.process.stdin.write(json.dumps(asked).encode() + b"\n")
            self.process.stdin.flush()
        took = self._answer(f"> {seconds:.3g}")
        self.cpu, self.wall = self.cpu + took["cpu"], self.wall + took["wall"]
        with np.load(io.BytesIO(self.process.stdout.read(took["bytes"]))) as stored:
            return dict(stored), took["cpu"], took["wall"]

    def _answer(self, otherwise: str) -> dict[str, Any]:
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        code, errors = self.end()
        if code != -signal.SIGXCPU:
            print(f"{self.name} failed: {errors}", file=sys.stderr)
            otherwise = "failed"
        raise Stopped(otherwise)

    def end(self) -> tuple[int, str]:
        """End the process; return its exit code and its error messages."""
        if self.process is None:
            return 0, ""
        process, self.process = self.process, None
        with suppress(BrokenPipeError):
            process.stdin.close()
        with process.stdout, self.errors:
            code = process.wait()
            self.errors.seek(0)
            return code, self.errors.read().decode().strip()
