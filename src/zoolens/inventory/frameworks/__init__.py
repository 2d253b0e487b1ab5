"""How frameworks are imported where a plain import would fail, or would take long for nothing."""
