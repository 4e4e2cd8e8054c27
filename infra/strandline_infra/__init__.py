"""What the lakehouse needs to run: set-up, Java, jars and pinned versions. Standard library only."""
