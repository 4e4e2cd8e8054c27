"""The process that the engine runs in: settings, Spark's session, the JVM, other processes, logs.

Nothing about lakes or Kafka enters. Begin with settings, then spark_session.
"""
