"""A fuzzer: hostile input of many kinds, and an oracle that judges what comes of it; `python -m tests.fuzz --help`."""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # before numpy: threads do not survive a fork
    os.environ[name] = "1"
