"""GradBench's protocol for gradtape: `python -m benchmarks.gradbench` serves its evaluations.

`protocol` speaks JSON over stdin and stdout, `modules` lists the evaluations, `objectives` and
`hand` hold the formulas, `nested` the evaluations with derivatives inside derivatives.
"""
