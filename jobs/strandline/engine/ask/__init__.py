"""Where is this event, and why is it there or missing? Answered from logs and files, without running a pipeline.

Questions about single rows are answered here; nothing is written. Begin with why, then locate.
"""
