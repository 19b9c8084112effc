"""The report page: one HTML file that opens from disk, made from the data of a profile.

The door, for other rooms: `page`, which has `page` (a profile as HTML) and `tape_page`.

`assets/` holds the style and the scripts of the page, and two small libraries with their licences:
uPlot draws curves, dagre lays out graphs.
"""
