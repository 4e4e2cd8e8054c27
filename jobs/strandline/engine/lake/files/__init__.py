"""Where a lake is: places on a disk and in a bucket, how small files are written whole, and what a damaged one is called.

Begin with place.
"""
