"""Alert rules: patterns in one event and thresholds over several, for history and for events as they come.

Begin with alert_rule and one_plan; live has them as feeds, correlate as thresholds; sigma reads them from a folder that is not trusted.
"""
