"""The jobs' tables: an own schema, on the catalog's server or another. One module a subject, as in ``catalog``."""
