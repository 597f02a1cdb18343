"""The catalog: PostgreSQL, the authority wherever two parties could disagree."""

from headwater.connectors.catalog.client import Catalog, CatalogConfig

__all__ = ["Catalog", "CatalogConfig"]
