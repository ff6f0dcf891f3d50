"""Times NumPy's f32 matrix products on this host, for scale. Prints JSON: size -> seconds, the best of several."""

import json
import time

import numpy

seconds = {}
for size in (128, 256, 512, 1024):
    rng = numpy.random.default_rng(size)
    a = rng.standard_normal((size, size), dtype=numpy.float32)
    b = rng.standard_normal((size, size), dtype=numpy.float32)
    best = float("inf")
    for _ in range(7):
        begin = time.perf_counter()
        a @ b
        best = min(best, time.perf_counter() - begin)
    seconds[str(size)] = best
print(json.dumps(seconds))
