"""The catalog: PostgreSQL, the authority wherever two parties could disagree."""
