"""What objects, plots and cells look like to a reader, in consoles and in notebooks.

Other packages import:

- `html`: `Text`, `Displayed`, tables as HTML;
- `notebook`: whether a notebook runs the program, and the names of its cells;
- `figure`: `new_figure`, for plots.
"""
