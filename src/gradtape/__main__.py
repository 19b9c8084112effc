"""`python -m gradtape`: the command line."""

import sys

from gradtape.tools.command_line.main import main

if __name__ == "__main__":
    sys.exit(main())
