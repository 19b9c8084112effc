"""Environment variables, and the tuned constants of all folders.

A tuned constant is a size, count, cost or time that was chosen by measurement, or a cache's bound:
another value changes speed or memory, never a result. Constants of a format, of an interface or of
mathematics stay beside the code that uses them. Each section names the decision that has the
measurements.
"""

from __future__ import annotations

import os
from collections.abc import Sequence


def variable(name: str, default: str = "", choices: Sequence[str] = ()) -> str:
    """The value of the environment variable `GRADTAPE_<name>`, or its default."""
    found = os.environ.get(f"GRADTAPE_{name}", "").strip() or default
    if choices and found.lower() not in choices:
        *others, last = choices
        raise ValueError(
            f"GRADTAPE_{name}={found!r} is unknown. Use {', '.join(others)} or {last}."
        )
    return found.lower() if choices else found


# ---- ir

# A thread starts a new table of nodes, between two programs, if its table has more nodes than this
# and a program still adds to it, or if this number of programs have added to it.
LARGEST_NODE_TABLE = 200_000
MOST_PROGRAMS_OF_A_TABLE = 1024
# Result specs of ops that are remembered.
REMEMBERED_SPECS = 8192
# Nodes whose lines a profile notes: a program that makes more repeats nothing.
MOST_NOTED_NODES = 1 << 17
# Results of at least this size (bytes) count as very large; the number of them whose lines are
# kept.
LARGE_RESULT_BYTES = 1 << 32
REMEMBERED_LARGE_RESULTS = 1024
# Code objects whose lines are remembered.
REMEMBERED_CODES = 10_000

# ---- trace, tensor

# Maximum number of pending applications outside any tape; the recording is then flushed.
MOST_PENDING_APPLICATIONS = 10_000
# Maximum number of variables that a recording without applications notes as read.
MOST_WAITING_VARIABLES = 1000

# ---- ops

# The rough cost of a call of a mathematical function, in units of one load from memory.
CALL_COST = 8
# Number of recordings in which a new start of a kind of slice is static; later ones are operands.
MOST_FIXED_STARTS = 32
# Kinds of slices, and starts of a kind, that are remembered; beyond that, all are forgotten.
REMEMBERED_SLICES = 4_096
# The cotangent of a table becomes dense when the rows read exceed its rows by this factor.
DENSE_GATHERS = 4
# With more operands, setting up one loop per operand takes longer than NumPy's join.
MOST_COPIED_OPERANDS = 256
# Arrays from this length on are sorted by several threads (decision 0048), in at most 64 pieces.
PARALLEL_SORT = 1 << 16
MOST_SORTED_PIECES = 64
# Ranges and masks of more bytes are computed in each run from small tables, by rows of numbers.
LARGEST_CONSTANT = 1 << 20
RANGE_ROW = 1 << 12
# Up to this length a loop over the axis costs less than calling BLAS.
SHORT_RECURRENCE = 64
# Chunk size of NumPy's random draws: the intermediate results of a chunk stay in the caches.
DRAWN_AT_ONCE = 1 << 12

# matrices, loops

# A matrix of at most this many elements times a vector is fused like an element-wise loop.
SMALL_MATRIX_PRODUCT = 1_024
# In stacks of matrices, sums of fewer products than this are loops; tiles begin with this depth.
SHALLOW_MATRIX_PRODUCT = 8
# Channels of a result that fill vectors: with fewer, the derivative by the kernel of a convolution
# is computed with the other channels side by side.
FULL_CHANNELS = 16
# A model of the time that tiles take for a convolution, measured with AVX-512 on one core
# (decision 0030): bytes of a vector, rows of a tile, products of vectors in a cycle, bytes of
# operands that tiles read in a cycle, bytes that a copy reads and writes in a cycle.
TILE_VECTOR_BYTES = 64
CONVOLUTION_TILE_ROWS = 8
TILE_PRODUCTS_PER_CYCLE = 2
TILE_BYTES_PER_CYCLE = 9
COPIED_BYTES_PER_CYCLE = 3
# Cycles to pack an element of few columns, and the fewest rows for which packing them pays.
PACKING_CYCLES = 3
FEWEST_PACKED_ROWS = 32
# The overhead of each block of a convolution, in cycles.
BLOCK_CYCLES = 500
# The least cost of a call of LAPACK, and that of a small matrix beside its arithmetic, in operand
# loads.
LAPACK_CALL_COST = 2_048
SMALL_MATRIX_COST = 64
# The largest order and number of columns of real matrices that are computed without a library.
SMALL_MATRIX_ORDER = 8
SMALL_MATRIX_COLUMNS = 16
# The smallest order of a matrix that the thread team shares, and the columns of a panel.
SHARED_MATRIX_ORDER = 192
MATRIX_PANEL = 64
# A right-hand side with more columns is shared by threads, column by column.
FEW_RIGHT_SIDES = 16
# Plans keep Fourier tables up to this many bytes. NumPy computes longer transforms, for which a
# call of Python takes less than a twentieth of the time (decision 0052).
LARGEST_FOURIER_TABLE = 1 << 20
# The largest factors of a sparse matrix that are kept, in bytes.
LARGEST_KEPT_FACTORS = 64 << 20
# Stacks of residuals up to this size (bytes) stay in a cache: reading the result of a mathematical
# function takes less time than computing it again.
SMALL_RESIDUAL_STACK = 1 << 20
# Steps of a scan multiply matrices one by one if their stacks were larger than this (bytes) and the
# matrices have at least this number of rows.
LARGE_PRODUCT_STACK = 1 << 25
MANY_PRODUCT_ROWS = 16
# The most entries in all patterns together, and the most steps, for which the patterns of the steps
# of a loop are composed.
MOST_COMPOSED_ENTRIES = 2_000_000
MOST_COMPOSED_STEPS = 4_096
# The number of steps of a while loop whose residuals are held at a time.
WHILE_CHUNK = 64

# ---- autodiff

# A mode of a Jacobian is not tried when the other one has fewer seeds by this factor.
CLEARLY_FEWER_SEEDS = 16
# A waist of a graph pays when both ends have more elements than it by this factor.
NARROW_WAIST = 4
# The cost of writing an element of a transposed result, in element-wise operations.
TRANSPOSED_ELEMENT_COST = 4
# The cost of a multiply-add inside a matrix product, in element-wise operations.
MULTIPLY_ADD_COST = 1 / 16
# A joined target is differentiated as a whole if its parts are computed from the same nodes, which
# would be differentiated more often than this.
MOST_REPEATED_PARTS = 12
# Intermediates of a Jacobian may take this fraction of the memory by default: 1 / share.
JACOBIAN_MEMORY_SHARE = 8
# A cheap value larger than this fraction of the budget, 1 / share, is recomputed in every chunk.
HELD_VALUE_SHARE = 16
# The number of seeds of the program from which the memory per seed is estimated.
ESTIMATED_SEEDS = 8
# A product of factors replaces a response only if it is smaller by this factor.
SMALLER_FACTORS = 2

# ---- autodiff: sparse

# Patterns with up to this many entries are listed however full they are.
SMALL_PATTERN = 1_000_000
# Larger patterns are listed up to this part of all entries.
LISTED_FRACTION = 0.25
# No larger pattern is listed.
LARGEST_PATTERN = 64_000_000
# Up to this many entries are compared one by one to see whether examples are independent.
LARGEST_BLOCK_PATTERN = 1 << 20
# The cost of a reverse product, in forward products.
REVERSE_PRODUCT_COST = 1.5
# Turns of inner loops after which no further order of a colouring is tried (0008).
COLOURING_PATIENCE = 1e8
# Turns of the inner loop past which no pass over columns is begun.
LARGEST_COLOURING = 4e9
# Passes in the order of the colours of the best colouring found.
COLOURING_REPEATS = 4
# Turns of the inner loop past which the vertices with most neighbours get a colour each.
LARGEST_STAR_COLOURING = 3e8
# Rows that are sampled to find the distances on a grid.
GRID_SAMPLE = 256
# The number of kinds of full rows that a grid may have: inner rows, and on a periodic grid those at
# edges and corners, for each of a few fields.
GRID_ROW_KINDS = 40
# The number of rows that strides are tested on first.
GRID_FIRST_ROWS = 8
# Strides are among the distances of kinds that make at least this part of the rows.
GRID_COMMON_ROWS = 1 / 16
# The number of operations past which no search for strides and weights is made.
GRID_SEARCH = 5e7
# Colourings of grids that are tested on the whole pattern.
GRID_TRIALS = 8
# Colours of a grid beyond the lower bound.
GRID_SLACK = 2
# Turns of an inner loop of a colouring from which compiling it pays.
WORTH_COMPILING_LOOP = 500_000
# Turns of an inner loop from which calling compiled code pays.
WORTH_CALLING_LOOP = 1_000

# ---- tape, control

# Nodes outside the windows of a tape whose cost is negligible.
FEW_OUTSIDE_NODES = 16
# At the start of an outermost tape, more pending nodes than this are computed first.
PENDING_AT_TAPE_ENTRY = 512
# A matrix is given in sparse form if it has at least this number of elements, ...
LARGE_MATRIX = 1 << 14
# ... of which at most one in this number can be nonzero.
SPARSE_SHARE = 8

# ---- compiler: passes

# A loop with more nodes is closed. Cutting earlier stores what lies between the pieces: 5,000
# numbers and their gradient (LLVM 0.4 s, 19 µs a run) took LLVM 1.5 to 2.0 s and 25 to 28 µs a run
# with loops of 200, 500, 1,000 or 2,000 nodes.
LARGEST_FUSED_LOOP = 5000
# Zeros of fewer elements, in all parts together, are not worth another way of computing them.
LEAST_JOINED_ZEROS = 1 << 10
# A value is cheap to load if the loop has more elements than it by this factor.
CHEAP_LOAD_RATIO = 8
# The most nodes that one loop computes again, and the largest loop that gets any.
MOST_RECOMPUTED = 16
LARGEST_RECOMPUTING_LOOP = 500
# Smaller values (bytes) stay in the caches until they are read.
LEAST_RECOMPUTED_BYTES = 1 << 18
# Nanoseconds of a scalar step, of a step on a vector, and of the call of a kernel (0049).
SCALAR_STEP_TIME = 0.4
VECTOR_STEP_TIME = 0.5
KERNEL_CALL_TIME = 45.0
# The nanoseconds that a routine must save. Loops serve other sizes too, so they are not given up
# for less. Inside a loop, which repeats the routine, every saved call counts.
LEAST_SAVED_BY_ROUTINE = 240.0
LEAST_SAVED_IN_LOOP = 40.0
# The cost of one routine: a longer one is cut, so that LLVM is left in between.
LONGEST_ROUTINE = 32768
# The most products of elements in a sum of products, and how many calls of loops a library's call
# for such a sum is worth.
MOST_SCALAR_PRODUCTS = 128
LOOPS_PER_LIBRARY_PRODUCT = 3
# The time of a mathematical function, in steps of arithmetic.
FUNCTION_STEPS = 24
# Elements of a vector, where steps on scalars and on vectors are compared.
ESTIMATED_VECTOR = 8
# The most elements of an array that is computed or moved in registers, of a view or a table, and of
# a join. Arrays of more than three vectors are faster as loops: the gradient of an LSTM of 28
# elements took 1.6 ms in registers, and takes 1.1.
MOST_COMPUTED_SCALARS = 24
MOST_VIEWED_SCALARS = 256
MOST_JOINED_SCALARS = 1024
# The most numbers that all templates of scalar steps hold together.
MOST_TEMPLATE_NUMBERS = 1 << 20
# A transposition is not moved along a chain of more ops: that takes much longer than reading the
# operand across rows.
LONGEST_TRANSPOSED_CHAIN = 64

# ---- compiler: lower

# Values of a page or more in the arena are followed by a gap. Without it, values whose size is a
# power of two begin at the same place in their pages: a loop that walks nine of them side by side
# finds no room in the first cache, where all nine belong to the same eight lines.
LEAST_BYTES_BEFORE_GAP = 4096
ARENA_GAP = 5 * 64
# A value does not take a part of free space that is larger by this factor. The space of a large
# value then goes to the next large one as a whole, row for row, as a chain of loops needs it.
SMALL_ARENA_PART = 64
# Up to few points, optimised code saves some tenths of a microsecond of a call. Up to some points,
# column sums without strips cost a few microseconds more, and compile in half the time.
FEW_LOOP_POINTS = 1 << 8
SOME_LOOP_POINTS = 1 << 14
# The longest rows that are not walked by vectors, and the fewest of them.
SHORT_REDUCED_ROW = 8
LONG_KEPT_AXIS = 64
# More scalars than this are not kept in registers, but in a table that is read where one is used.
FEW_SCALAR_OPERANDS = 12
# A longer body is emitted once, always masked, instead of once full and once for the tail.
LONG_KERNEL_BODY = 48
# Chains of loops (0037): bytes of the rows that a chain works on at once, half of a small
# second-level cache; bytes that a later loop must read again; the fewest columns of sums along
# columns, and what their number is a multiple of; the most loops.
CHAIN_ROWS_BYTES = 1 << 18
LEAST_CHAIN_SHARED_BYTES = 1 << 20
LEAST_CHAIN_COLUMNS = 256
CHAIN_COLUMNS_STEP = 64
LONGEST_CHAIN = 8
# Sizes (bytes) of results that are written past the caches: the smallest and the largest threshold.
STREAMED_BYTES = (1 << 21, 1 << 24)
# The largest constant table (bytes) that is kept with the plan.
LARGEST_KEPT_TABLE = 1 << 20
# A loop with more work than this keeps the threads awake that share it.
LONG_LOOP_WORK = 1 << 21
# The most rounds of a loop between two checks for signals, however short a round is.
MOST_ROUNDS_BETWEEN_POLLS = 1024
# Work, in operand loads, below which a second thread costs more than it brings; the same beside
# instructions that are shared anyway, for which the threads are awake.
PARALLEL_LOOP_WORK = 1 << 18
AWAKE_LOOP_WORK = 1 << 16
# Work below which giving up the GIL costs more than it brings to other threads.
QUICK_PLAN_WORK = 1 << 14
# A part is written to a run for each row if runs have at least this size (bytes); else it is
# copied.
SHORTEST_WRITTEN_RUN = 256
# A call of NumPy is long enough to give up the GIL.
PYTHON_CALL_WORK = 1 << 14

# ---- compiler: products

# Multiplications from which a product by BLAS is cut for threads, at multiples of these rows and
# columns: whole tiles of the library's innermost kernels.
PARALLEL_GEMM_WORK = 200_000
PARALLEL_GEMV_WORK = 100_000
GEMM_GRAINS = (8, 32)
GEMV_GRAINS = (16, 16)
# The number of parts of a range of several products: every thread gets the same share of each.
BUNDLE_SHARES = 5040
# The second cache, where it is not known; and the fewest tiles of the largest contraction that are
# computed at a time, because each time packs the right operands again.
ASSUMED_SECOND_CACHE = 1 << 20
LEAST_TILES_AT_ONCE = 64
# Panels of columns are narrow if threads would otherwise work for a smaller share of the time.
LEAST_PANEL_EVENNESS = 0.6
# For inner products lanes must be used better than by tiles, by this factor, because the sums of
# tiles need not be added up; and the right operand must be packed for at least this number of rows.
BETTER_LANES_OF_DOTS = 1.5
LEAST_DOT_ROWS = 32
# The fewest items of a batch whose items are lanes, as a share of a vector.
LEAST_LANE_SHARE = 0.25
# Axes of contractions by tiles (0030) stay outside the tables if at least this number of rows, or
# this depth, remains inside.
INNER_TILE_ROWS = 48
INNER_TILE_DEPTH = 64
# Bytes of the left operand that stay in the second cache while all panels pass, at least, and the
# fewest rows for which a panel is packed.
LEFT_BLOCK_BYTES = 1 << 17
LEAST_PACKED_ROWS = 64
# Columns from which turning tiles of the left operand pays, if each step of depth is in a line of
# the cache of its own.
TURNED_COLUMNS = 256
# The depth of a panel, if each step of depth is in a line of the cache of its own and tiles are not
# turned: the lines stay in the innermost cache, and their pages in its table, while rows pass that
# share them. With 256, derivatives by kernels took a tenth longer.
STRIDED_PANEL_DEPTH = 64
# The most rows for which the right operand is not packed.
DIRECT_TILE_ROWS = 64
# The most entries of a table of offsets.
LONGEST_OFFSET_TABLE = 1 << 21
# The products that tiles compute faster than OpenBLAS were measured on one core and on two, with
# its kernels for AVX2 and for AVX-512. Beyond a few columns, the depth and the bytes of the left
# operand are bounded, the latter by the size of an element (less if its rows do not lie in runs);
# in float32 a left operand whose rows are one block may be of any depth, because each panel is
# packed once.
DEEPEST_TILED = 2048
HELD_LEFT_BYTES = {4: 1 << 19, 8: 1 << 18}
HELD_LEFT_BYTES_IN_HALVES = {4: 1 << 20, 8: 1 << 18}
HELD_LEFT_BYTES_APART = 1 << 16
# With AVX-512, OpenBLAS computes products up to this number of multiplications without packing, at
# full speed even for few rows; only a transposed right operand with at least this number of columns
# slows it down.
UNPACKED_WORK = 1_000_000
UNPACKED_COLUMNS = 32
# If vectors of 512 bits are computed at full speed, BLAS is slower only for the following: the
# deepest product by the size of an element, the fewest rows that a packed panel must serve (more if
# its columns are read one by one), and the fewest multiplications.
SHALLOW_DEPTH = {4: 160, 8: 256}
SHALLOW_ROWS = 32
SCATTERED_ROWS = 256
SHALLOW_WORK = 2_000_000
# Multiplications below which a second thread costs more than it brings.
PARALLEL_PRODUCT_WORK = 100_000

# ---- compiler: emit

# The bytes of a line of the cache, and those that the innermost cache has at least.
CACHE_LINE = 64
INNERMOST_CACHE = 1 << 15
# A block of a loop over two axes has as many rows as a line of the cache has numbers of 32 bits,
# and at most this number of vectors of columns: each column is a line of an array along the rows.
MAP_BLOCK_ROWS = 16
MAP_BLOCK_VECTORS = 8
# Characters of IR from which it is compiled at level 1: a kernel of 5,000 ops took 2.2 s at level 2
# and takes 1.3, and its machine code is as long and as fast.
LONG_KERNEL_TEXT = 1 << 18
# Reduced bodies up to this cost are computed for four vectors at once: the additions of a chain
# would otherwise take longer than the loads. Others with so few ops go in pairs: a sum that is
# carried across the call of a function lies on the stack, and to go there and back takes as long.
CHEAP_REDUCED_BODY = 6
SHORT_REDUCED_BODY = 12
# The most instructions of the bodies of one block, which are emitted one after the other.
LARGEST_REDUCED_BLOCK = 256
# Vectors in a strip of columns (0027): with vectors of 256 bits it reads four pages of every row,
# and its partial results fill the first cache. With more than two parts of results strips are
# narrower, so that these stay in the second cache; two pages of every row are still read as fast.
STRIP_VECTORS = 512
# A longer body computes more than it waits for memory: it is emitted once, and not in strips.
LONG_COLUMN_BODY = 12
# Steps of register code in a block of IR (0049). LLVM's quick allocator of registers handles one
# block at a time: without blocks 16,000 ops took 95 ms to compile and 11 µs to run, with these 69
# ms and 6 µs.
REGISTER_BLOCK_STEPS = 256
# The most steps of register code that gets LLVM's passes: they take ten times as long.
SHORT_REGISTER_CODE = 2048
# Lines of a mathematical function that keeps half of the vector registers for its caller. A longer
# one needs more registers than the other half: it would save some at every call.
LONGEST_REGISTER_KEEPING_FUNCTION = 48
# Sums of products by tiles (0030): the depth of a panel of the right operand, and the bytes of the
# memory for turned tiles of the left one.
PANEL_DEPTH = 256
TURNED_TILES_BYTES = 3 << 16
# Rows of a tile, by whether vectors have 512 bits, and by the vectors of its width: sums take three
# quarters of 32 registers of 512 bits, or of 16 that are shorter; one vector of width needs eight
# rows to hide the latency of additions.
TILE_ROWS = {True: {1: 8, 2: 8, 3: 8}, False: {1: 8, 2: 6, 3: 4}}
# Tiles of one vector of 512 bits load more vectors than they multiply, unless there are more rows:
# if this number of steps of depth lie side by side (one offset for all), or if rows do.
TILE_RUN = 4
TILE_ROWS_OF_RUNS = 12
TILE_ROWS_BESIDE = (16, 12)
# Rows of a tile of products lane by lane, by whether vectors have 512 bits and by its vectors.
LANE_TILE_ROWS = {(True, 1): 9, (True, 2): 9, (False, 1): 9, (False, 2): 6}
# Products of long runs: the bytes of the packed right operand, at most; the sums that are in
# registers, by whether vectors have 512 bits; and rows of a tile, at most.
DOT_PANEL_BYTES = 1 << 17
DOT_SUMS = {True: 16, False: 12}
DOT_ROWS = 8
# Timed runs of a parallel plan per serial run (0033). A power of two.
TIMED_RUNS_PER_SERIAL_RUN = 64
# Milliseconds between two checks for signals (0021). Each takes the GIL, which other threads may
# hold for some ms; and the work, in operand loads, after which native code reads the clock.
SIGNAL_POLL_MILLISECONDS = 10
WORK_BETWEEN_POLLS = 1 << 16
# LU factors of one large matrix (0039): columns that a part of the update has at least.
LARGE_FACTOR_GRAIN = 16
# The order of the triangles that `trsm` divides by.
TRIANGLE_BLOCK = 64
# Columns of the right-hand side of a small system that are one vector (0036).
SMALL_FACTOR_LANES = 8
# Blocks of random words that are made at a time, before they are converted by vectors.
RANDOM_BLOCKS_AT_ONCE = 64
# Sorting (0048): elements from which a pivot is chosen that splits an array in halves, and vectors
# that a step of a partition reads before it writes any.
SPLIT_SAMPLES = 127
PARTITION_VECTORS_AT_ONCE = 4
# Vectors of the largest sorting network, without and with positions. One of eight vectors with
# positions takes 0.2 s to compile, and sorts rows of 1,000 in 85 % of the time.
NETWORK_VECTORS = 16
NETWORK_VECTORS_WITH_POSITIONS = 4
# Fourier transforms (0052): vectors with fewer lanes are no quicker than single numbers.
FEWEST_FFT_LANES = 4

# ---- compiler: objects, cpython, threads

# Recordings between two calls of `consider_compiling` (0009).
RECORDINGS_BETWEEN_LOOKS = 8
# The number of applications on which the native recorder saves what compiling it costs.
APPLICATIONS_THAT_PAY_FOR_RECORDER = 60_000
# The native recorder's cache of applications: sets of two entries of 32 bytes, a cache line each.
APPLICATION_CACHE_SETS = 4096
# Maximum number of classes of handles of the native recorder.
TENSOR_CLASSES = 16
# Bytes of all object files on disk: the least recently used are removed beyond this. The size of
# the folder is read again after this number of writes of a process.
OBJECT_CACHE_BYTES = 256 << 20
OBJECT_WRITES_PER_LOOK = 64
# The latest names of object files that this process has loaded or written.
OBJECT_NAMES_USED = 4096
# Maximum number of entries in the file of known programs (0047); the next one starts a new file.
KNOWN_PROGRAMS = 1 << 13
# Characters of optimised IR from which on a second thread pays: LLVM prepares itself for each.
TEXT_WORTH_A_THREAD = 8000
# Object files that were compiled for calls that an interrupt has ended.
UNCLAIMED_OBJECTS = 8
# Spin time of a worker without work, and of a caller that waits for a worker. Waking a sleeper
# takes about as long, so spinning longer costs other programs more than it can save.
WORKER_SPIN_SECONDS = 100e-6
# The longest wait of the first parallel plan for its workers; late ones join when they come.
WORKER_ARRIVAL_SECONDS = 1.0

# ---- runtime: plans and memory

# The excess size up to which a larger plan serves instead of a new one.
PLAN_SLACK_FACTOR = 0.25
PLAN_SLACK_NODES = 8
# A loss over more elements than this is computed only if it is read.
LARGEST_COMPUTED_LOSS = 1 << 16
# Buffers of at least this size (bytes) come as pages of their own, aligned to pages.
LARGE_BUFFER = 1 << 20
# Capacities of buffers up to here are looked up, not computed.
SMALL_BUFFER = 1 << 16
# Programs whose results take no more than this together keep all of them until the run in NumPy
# ends; so do programs whose results have this size on average: Python objects take as much.
LARGE_NUMPY_PLAN = 1 << 22
SMALL_NUMPY_RESULT = 64
# Plans in the cache, and those of them that call functions of the user's and so keep them alive.
MOST_CACHED_PLANS = 1024
MOST_CACHED_CALLING_PLANS = 32
# A program of more nodes has a plan of its own. The key of its structure would be as large as the
# program, and take longer to make and to compare than the program takes to run. A thread that
# records the same program again finds the plan by its nodes (`runtime.flush`).
LONGEST_PLAN_KEY = 1 << 15
# Written-out functions with longer texts hardly come twice: their code is not shared.
LONGEST_SHARED_TEXT = 10_000
# Plans with more inputs and outputs than this gain nothing by a written-out run.
MOST_WRITTEN_OUT_VALUES = 96

# ---- runtime: when to compile

# NumPy computes ops of fewer elements, on average, in less time than all passes take.
SMALL_NUMPY_OP = 4096
# Seconds on a machine on which some fixed work takes `FIXED_WORK_TIME` (0047). The costs of
# compiling: of a plan at least, of an op, of the first matrix product of a dtype, of the first call
# of a routine, such as a sort (5 to 80 ms were measured), and of a kernel by effort.
PLAN_COST = 6e-3
OP_COST = 6e-5
PRODUCT_COST = 1.2e-2
ROUTINE_COST = 2e-2
KERNEL_COSTS = (2e-3, 1.5e-2, 2.5e-2)
# A scalar step of a routine (0049).
SCALAR_STEP_COST = 8e-6
# The costs of loading them: of a plan, and of a kernel.
LOADED_PLAN_COST = 5e-3
LOADED_KERNEL_COST = 8e-4
# Once for the process: its modules, LLVM's library, the interpreter of plans; of these, what is
# left if machine code is on disk.
FIRST_PLAN_COST = 3.2e-2
FIRST_LOADED_PLAN_COST = 2.6e-2
FIXED_WORK_TIME = 5.2e-5
# Rent, as a part of the cost, after which a program is compiled. With 1 the time spent is at most
# twice what was needed, wherever the program ends; a little less serves those that go on. A program
# that an earlier process has compiled ran for long there, and is expected to do so again.
COMPILE_RENT = 0.85
KNOWN_COMPILE_RENT = 0.03
# NumPy's time for an op, and for an element of its result.
NUMPY_OP_TIME = 1.2e-6
NUMPY_ELEMENT_TIME = 1e-9
# NumPy's overhead for an op in the body of a loop, in elements.
LOOP_OP_ELEMENTS = 1000
# Loops that are known to be compiled; then they are forgotten, and estimates are too high for a
# while.
REMEMBERED_COMPILED_LOOPS = 1 << 14
# The bounds of the speed of this machine, relative to that one.
LEAST_MACHINE_SCALE = 0.25
MOST_MACHINE_SCALE = 4.0

# ---- jit

# Captures and signatures (decisions 0014 and 0053): the most paths of one signature, runs at first
# that change what the function reads or leave state outside, runs in a row that each record another
# program, and sets of outside values with captures of their own.
MOST_FUNCTION_PATHS = 64
MOST_UNREPEATABLE_RUNS = 3
MOST_UNEQUAL_RUNS = 8
MOST_OUTSIDE_VALUES = 8
# After many differences a path is replayed after 2**MOST_DIFFERENCES equal runs.
MOST_DIFFERENCES = 10
# With more pending applications, a call in Python drops those without a reader.
MOST_CAPTURED_PENDING = 256
# Number of values after which an int argument becomes an input.
MOST_STATIC_INTS = 3
# The most values of a pinned number with whose paths a new path is compared.
MOST_COMPARED_VALUES = 16
# Signatures of one function: those a thread keeps, those above which the next one is worth a
# warning, and those up to which every new one drops captures whose objects are gone.
MOST_FUNCTION_SIGNATURES = 512
UNREMARKABLE_SIGNATURES = 5
FEW_SIGNATURES = 16
# Number of values of a guard that is worth a warning; maximum number of guards listed.
UNREMARKABLE_GUARD_VALUES = 5
MOST_LISTED_GUARDS = 12
# Paths through a prepared matrix whose colours are kept.
MOST_PREPARED_PATHS = 64
# Checks may take this part of the time at first, and in the long run (decision 0053). The first
# gaps between checks, by the number of calls made before; later gaps double the number of calls.
FIRST_CHECKS_SHARE = 0.1
CHECKS_SHARE = 0.02
FIRST_CHECK_GAPS = {2: 0, 3: 3}
# Any call takes at least this time.
SHORTEST_CALL = 3e-7  # seconds
# Maximum number of objects that the search for guards visits, and of entries of a container.
MOST_GUARDED_OBJECTS = 600
MOST_GUARDED_ENTRIES = 1_000
# Arrays from outside, in bytes: to compare larger ones takes milliseconds; larger ones that enter
# a program whole are inputs without a proof; larger ones are copied after the run, not before;
# larger ones are compared by words.
LARGE_COMPARED_ARRAY = 1 << 25
LARGEST_PROVEN_ARRAY = 1 << 20
LARGEST_ARRAY_COPIED_AT_ONCE = 1 << 16
LARGEST_ARRAY_AS_TEXT = 4_096
# Native calls (decision 0016): calls in Python before one is made for a signature, calls that save
# what compiling costs, signatures of one function, and items of a list that native code compares.
CALLS_BEFORE_NATIVE = 32
CALLS_THAT_PAY_FOR_NATIVE = 512
MOST_NATIVE_SIGNATURES = 8
MOST_NATIVE_ITEMS = 64
# Calls in a row that take a path before its steps are joined. Joined steps are wasted work where a
# value differs: long and costly paths are not joined.
CALLS_BEFORE_JOINING = 32
MOST_JOINED_NODES = 4_000
MOST_JOINED_WORK = 1 << 18

# ---- interop: solve

# More unknowns than this are not polished by a dense matrix.
LARGEST_POLISHED = 1_000

# ---- tools
PROFILE_COPY_ELEMENTS = 1 << 22  # elements copied to measure memory: larger than most caches
PROFILE_MATRIX_ROWS = 768  # rows of the product that measures the processor
PROFILE_MEASUREMENTS = 8  # of the machine; the best counts
SAMPLE_PERIOD = 0.002  # seconds of processor time between two samples of the stack
MEMORY_SAMPLE_PERIOD = 0.02  # seconds at first; it doubles when there are too many samples
LARGEST_MEMORY_SAMPLES = 1024  # samples of memory in a profile
SAMPLED_FRAMES = 60  # frames of one sample of the stack
SAMPLED_CALLERS = 100  # further frames, outwards, in which the program's own are looked for
LISTED_STACKS = 2048  # stacks that a profile adds up; further ones count for their outermost line
FLAME_BOXES = 600  # boxes of a flame graph, at most
LEAST_FLAME_SHARE = 0.001  # of the time, for a box of its own
LOGGED_PLAN_RUNS = 20_000  # runs of plans with their times; further ones are counted
LISTED_EVENTS = 4096  # events in a profile; further ones are counted
PROFILED_PLANS = 4096  # plans that a running profile keeps alive
COMPARED_RUNS = 8  # first runs of a plan whose inputs and outputs are compared
KEPT_INTERVALS = 256  # intervals between flushes at one line
LEAST_GAIN = 0.005  # of the time without compiling and waiting: what advice is given for
LOOP_COUNT = 16  # reads at one line, or runs of a plan, that are a loop
LEAST_ROWS = 8  # gradients of one recording that are the rows of a Jacobian
TINY_TAPES = 64  # gradients at one line, one for each recording, that are many
SMALL_PLAN_SECONDS = 50e-6  # of a run; what takes longer is work, and not a call
REPLAY_SECONDS = 15e-6  # of a call of a `gt.function` with a small plan
MEMORY_BOUND_FLOPS = 0.5  # flops per byte below which a group takes the time of its memory
SPARSE_DENSITY = 0.1  # of a Jacobian, at most, of which advice says that it is sparse
SPARSE_SIZE = 1 << 10  # elements of such a Jacobian, at least
DETECTED_SIZE = 1 << 24  # elements of a Jacobian whose pattern a profile detects, at most
LISTED_JACOBIANS = 32  # lines with Jacobians, of which a profile notes the nodes
COMPARED_ROWS = 60  # rows of a table in the page that compares two profiles
BENCH_SECONDS = 0.15  # of one measurement of `gradtape bench`, at least
COMPARE_WARM_CALLS = 40  # calls before `gradtape compare` measures: native calls begin after 32
PROGRESS_PATIENCE = 2.0  # seconds before a progress bar appears
PROGRESS_INTERVAL = 0.1  # seconds between two updates of a progress bar

# ---- training
WRITER_NICENESS = 10  # priority of the thread that writes checkpoints, as in nice(1)
PACKED_LIST_LENGTH = 64  # numbers from which a list is saved as an array
MAPPED_ARRAY_BYTES = 1 << 20  # from which arrays of a file are mapped and not copied

# ---- distributed
KEPT_FUNCTIONS = 32  # functions that a worker keeps, with their captured programs
KEPT_PROGRAMS = 64  # unpacked programs that a worker keeps
TRACED_KINDS_OF_ITEMS = 4  # kinds of items that the driver traces; workers trace further ones
TASKS_AHEAD = 2  # tasks under way or with a waiting result, for each worker
BLOCKS_PER_WORKER = 4  # blocks of a matrix, so that workers end at about the same time
GATHERED_GRADIENT_BYTES = 1 << 20  # below, each worker sums all gradients; above, its own buckets
GRADIENT_BUCKET_BYTES = 4 << 20  # bytes of gradients that are sent as one object
WORKER_START_SECONDS = 60.0  # for a worker to start, or to restart after it died
STRAGGLER_FACTOR = 3.0  # times the median duration of the tasks before
STRAGGLER_TASKS = 4  # tasks that must have ended before stragglers are counted
KEPT_DURATIONS = 512  # durations of tasks whose median is taken
