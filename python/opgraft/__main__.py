"""`python -m opgraft` is the command `opgraft`."""

import sys

from opgraft._command import main

sys.exit(main())
