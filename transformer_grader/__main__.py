"""`python -m transformer_grader` is the console script `transformer-grader`."""

import sys

from transformer_grader.cli import main

sys.exit(main())
