"""A MongoDB server of our own, for homes whose settings name none."""
