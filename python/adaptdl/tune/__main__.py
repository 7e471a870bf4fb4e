"""`python3 -m adaptdl.tune`."""

import sys

from adaptdl.tune.command import main

sys.exit(main(sys.argv[1:]))
