"""May this batch be published, and is a table closed to its readers?

The checks before a commit and the files that close a table enter. Begin with batch_check.
"""
