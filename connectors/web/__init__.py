"""The public web, as far as tenants send us there: webhooks and inputs. Nobody reaches our own network through us."""
