"""Native code of plans beside kernels: the interpreter of instructions, its threads, its loops.

Other packages import:

- instructions: `Instruction`, `Instructions`, `kernel_routine`: a plan in memory, and the signature
  that every kernel has;
- team: the IR of `run_plan` and of the team's threads, and the offsets of the memory they share;
- interrupts: how native code notices signals and stops;
- control: the IR of loops and branches, and the words of their tables;
- gemm, tiles: the IR of matrix products, through BLAS and by kernels of gradtape's own;
- waiting: how a thread pauses, sleeps and wakes on each platform (for `team` alone).
"""
