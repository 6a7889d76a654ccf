"""``python -m streamk`` is the command `streamk`."""

import sys

from streamk.cli import main

if __name__ == "__main__":
    sys.exit(main())
