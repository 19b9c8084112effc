"""Program to values: plans, the tiers that run them, and the memory and threads that they use.

A program comes in through `plan_cache.plan_for`, runs as a `NumpyPlan` at first and as a
`CompiledPlan` once that pays (`tiers`). Compiling goes program, `lowered_program` (steps over
slots), `native_stretches` (instructions), `compiled_plan` (a run); loops and branches take the same
way.

Other packages import:

- plan_cache: `plan_for`, `clear_plans`;
- tiers: `MODE`, `TieredPlan`, `wait_for_compiler`; when_to_compile: `work`;
- numpy_plan: `NumpyPlan`, to run a program once;
- compiled_plan: `CompiledPlan`, to compare tiers (loads the compiler);
- buffer_pool: `allocate`, `array`, `empty_cache`;
- counters: `counters`, `COUNTS`; program_memory: bytes that a program will take;
- profiler_sink: the events of a running profile; error_lines: the user's line in late errors.
"""
