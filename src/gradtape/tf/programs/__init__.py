"""Parts of programs besides ops: variables, tapes, functions, control flow, datasets.

Other packages import:

- variable: Variable
- tape: GradientTape, ForwardAccumulator, `gradients` and `hessians`
- function: `function`, and the switch that turns it off
- checkpoints, trackable: `tf.train.Checkpoint` and what leads to the variables of an object
- control, module, tensor_array, printing, datasets, assertions, testing: the functions and classes
  that `tf`, `tf.data`, `tf.debugging` and `tf.test` export
- without_effect: names that programs mention and that change nothing here
"""
