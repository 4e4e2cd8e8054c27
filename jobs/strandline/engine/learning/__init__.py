"""Models of tables: how they are trained, promoted and rolled back, and how far the days have moved from what they learnt.

What makes or judges a version belongs here. What scores rows with one is in pipeline. Begin with train_model.
"""
