"""What gradtape needs of the Python process it runs in. Nothing here knows of ops or values.

Other packages import:

- `locks`: locks that survive a fork
- `interrupts`: what signal handlers raised, and code in which none runs
- `weak_table`: interning without Python callbacks
- `frames`: the line that a frame executes
- `uncollected`: work during which Python's garbage collector does not start
- `records`: dataclasses whose methods are compiled at their first use
- `source_text`: the one writer of Python source
"""
