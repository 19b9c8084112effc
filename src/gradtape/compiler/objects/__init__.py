"""Objects: IR text becomes machine code, kept on disk between processes.

- `llvm`: modules and functions, compiled with the first plan that calls them
- `llvm_library`: the functions of LLVM that are called, the only module that uses llvmlite
- `emission`: a module to an object file; `object_cache`, `cache_folder`: object files on disk
- `known_programs`: the programs whose objects are on disk
"""
