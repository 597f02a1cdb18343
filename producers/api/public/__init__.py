"""The public API: tenants submit jobs here, watch them, and fetch what came of them."""
