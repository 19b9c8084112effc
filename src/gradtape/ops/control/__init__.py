"""Loops and branches as ops that hold programs, their bodies, as params.

Other packages import `scan.SCAN`, `while_loop.WHILE`, `branch.BRANCH`; `scan_params.Scan`, the
params of a scan by name; `bodies`: which programs an op holds, and how transforms reach them.
"""
