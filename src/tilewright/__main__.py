"""`python -m tilewright` is `tilewright`."""

import sys

from tilewright.cli.command import main

if __name__ == "__main__":
    sys.exit(main())
