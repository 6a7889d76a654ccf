"""The job of `engine_job` with its checkpoints in an object store, which kills itself while saving.

The arguments are a directory, the address, the seed of a whim, and the point of the strike: so many
writes (from 1), and "before" or "after" the last of them, or "half", with half of its bytes there.
With "pause" the process says so and waits for a line instead, and goes on.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import engine_job

from streamk.object_store.store import ObjectPath


def strike_at(number: int, moment: str) -> None:
    left = number

    def struck(real: Callable[..., Any], *, whole: bool) -> Callable[..., Any]:
        def call(self: ObjectPath, *data: bytes) -> None:
            nonlocal left
            left -= 1
            if left == 0 and moment == "pause":
                print("waiting", flush=True)
                sys.stdin.readline()
            elif left == 0:
                if moment == "after":
                    real(self, *data)
                elif moment == "half" and not whole:
                    real(self, data[0][: len(data[0]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            real(self, *data)

        return call

    # An object that is created is there whole or not at all, as the store promises.
    for name in ("write", "create", "remove"):
        method = struck(getattr(ObjectPath, name), whole=name != "write")
        setattr(ObjectPath, name, method)


if __name__ == "__main__":
    directory, address, whim, number, moment = sys.argv[1:]
    strike_at(int(number), moment)
    engine_job.main(directory, int(whim), checkpoint=address, every=25 * engine_job.BATCH)
