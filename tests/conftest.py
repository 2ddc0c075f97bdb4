"""One thread a process: the tests run in several, and threads that outnumber the cores wait for each other."""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")
