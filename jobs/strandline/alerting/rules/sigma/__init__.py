"""Rules in Sigma's format, from a folder that is not trusted. Begin with folder."""
