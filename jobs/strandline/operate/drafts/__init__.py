"""What is written for a project: its scaffold, drafts of tables by sampled records, contracts, and edits of modules.

The use cases around it are in operate; the drafts of alerts are with those. Begin with draft.
"""
