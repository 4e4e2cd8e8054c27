"""Who judges a batch: Great Expectations where it is installed, and without it a module of ours that finds the same. Begin with choice.py."""
