"""Native calls: the replay of a simple call in machine code, behind the door of codegen.cpython.

`native_call` describes one signature to the native code; `call_slot` puts that code in the place of
`Function.__call__`.
"""
