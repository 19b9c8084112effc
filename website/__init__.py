"""Build the documentation site from docs/, examples/gallery/ and the docstrings of the library.

`hooks.py` is what mkdocs calls (`make docs`). The tests call the same functions: `code_blocks`
finds and runs the code that a page prints, `gallery` turns a script with cells into a page,
`reference` writes the entries of public names, `environment` finds the environment variables that
the source reads, and `show` runs pages and scripts in processes of their own.
"""
