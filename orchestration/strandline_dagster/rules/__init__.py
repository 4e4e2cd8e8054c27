"""Rules of alerts as assets and checks, and their trial on history.

Begin with rule_assets.
"""
