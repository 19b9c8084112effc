"""gradtape: dynamic as a tape, fast as a static graph."""
from gradtape.ops.elementwise import *
from gradtape.ops.arithmetic import *
from gradtape.ops.reduction import sum
from gradtape.ops import creation
from gradtape.ops.movement import reshape
from gradtape.tensor import *
from gradtape.variable import *
from gradtape.tape import *
from gradtape.runtime.counters import counters
