"""`python -m adaptdl.tune`, which `adaptdl tune` runs."""

import sys

from adaptdl.tune.command import main

sys.exit(main(sys.argv[1:]))
