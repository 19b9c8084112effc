"""The report page: one HTML file that opens from disk, made from the data of a profile.

Public interface: `page.page`, which makes the HTML of a profile.

`assets/` holds the style and the scripts of the page, and two small libraries with their licences:
uPlot draws curves, dagre lays out graphs.
"""
