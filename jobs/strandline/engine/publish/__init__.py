"""Show tables where other engines look for them: in catalogs, after their commits and never in the way of one.

Begin with catalogs: what of a table a catalog gets, how far each one is, and who brings it up to date.
``iceberg`` writes Iceberg's metadata of the same files into a REST catalog, ``ducklake`` gives a DuckLake second names of them,
``unity`` registers their folders in a Unity Catalog.
"""
