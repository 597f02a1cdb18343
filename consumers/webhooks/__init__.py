"""The sender of webhooks: tells tenants' endpoints how their jobs ended."""
