"""Where the time and the memory of a program went, and what would save some of it.

Other packages import `profile`, which has `profile` and `Profile`, `formats` and `limits`.

| module | what it does |
|---|---|
| profile | `gt.profile`: starts and stops everything, and gives the results |
| collector | receives events (of `runtime/profiler_sink.py`), and counts them by line and plan |
| sampler | samples the line that Python is in, and how much memory is in use |
| costs | flops and bytes of nodes and fused loops, from the facts of ops |
| limits | what this machine can do: memory and matrix products, measured |
| groups | the times that native code counted, by fused loop and by line |
| phases | where the wall time went |
| advice | what would save time, with the line and the measured gain |
| measured | what the parts have noted, and what is put together of it |
| tables | the parts as rows of plain data, each with its line |
| contents | all of it as one nest of plain data, which the page, JSON and tables are made from |
| formats | JSON for Chrome and Perfetto, tables, text |
"""
